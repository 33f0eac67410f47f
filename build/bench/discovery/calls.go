package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"helix/backend"
	"helix/backend/discovery"
	"helixbench/figures"
)

// Prism has its own folder, which make test-prism shares.
const prismCLI = "../prism/node_modules/@stoplight/prism-cli/dist/index.js"

// prism returns how many milliseconds Prism takes until it serves a description.
func prism(file string) float64 {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	figures.Check(err)
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	figures.Check(l.Close())
	path, err := filepath.Abs(file)
	figures.Check(err)
	c := exec.Command("node", prismCLI, "mock", "-p", port, path)
	out, err := c.StdoutPipe()
	figures.Check(err)
	began := time.Now()
	figures.Check(c.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), "Prism is listening") {
			break
		}
	}
	took := time.Since(began)
	figures.Check(c.Process.Kill())
	_ = c.Wait() // it was killed
	return float64(took.Microseconds()) / 1000
}

func p50(list []time.Duration) float64 {
	slices.Sort(list)
	return float64(list[len(list)/2].Nanoseconds()) / 1000
}

// Each tool may send 10 requests at once and then five a second, so that many tools share the calls.
const (
	callTools = 40
	callsEach = 9
)

// calls measures calls with their permission, audit and log against a bare client and against curl.
func calls(ctx context.Context, b *backend.Backend) {
	body := []byte(`{"text":"` + strings.Repeat("x", 2000) + `"}`)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(body) //nolint:errcheck // the client measures it
	}))
	defer srv.Close()
	server := strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)
	x, err := b.Discovery.InspectOpenAPI(ctx, discovery.InspectParams{Content: `{"openapi":"3.1.0","info":{"title":"x","version":"1.0.0"},"servers":[{"url":"` + server + `"}],"paths":{"/x":{"get":{"operationId":"get"}}}}`})
	figures.Check(err)
	var names []string
	for i := range callTools {
		names = append(names, fmt.Sprintf("tool-%d", i))
		made, err := b.Discovery.ImportOpenAPI(ctx, discovery.ImportOpenAPIParams{SpecID: x.SpecID, Operations: []string{"get /x"}, Name: names[i]})
		figures.Check(err)
		_, err = b.Discovery.Approve(ctx, discovery.ApproveParams{ManifestID: *made.ManifestID, DefinitionHash: made.DefinitionHash})
		figures.Check(err)
	}
	var ours, bare []time.Duration
	for range callsEach {
		for _, name := range names {
			began := time.Now()
			r, err := b.Discovery.Run(ctx, discovery.RunParams{Name: name, Operation: "get"})
			figures.Check(err)
			if !r.Success {
				figures.Check(fmt.Errorf("a call failed: %s", r.Error))
			}
			ours = append(ours, time.Since(began))
			began = time.Now()
			resp, err := http.Get(server + "/x")
			figures.Check(err)
			_, err = io.Copy(io.Discard, resp.Body)
			figures.Check(err)
			figures.Check(resp.Body.Close())
			bare = append(bare, time.Since(began))
		}
	}
	const curls = 50
	began := time.Now()
	for range curls {
		figures.Check(exec.Command("curl", "-s", "-o", "/dev/null", server+"/x").Run())
	}
	curl := float64(time.Since(began).Microseconds()) / curls
	own, net := p50(ours), p50(bare)
	figures.Print("call, 2 KB of JSON, p50", own, "µs", own/net, "net/http, kept alive")
	figures.Print("call, more than the bare request", own-net, "µs", 0, "")
	figures.Print("calls a second", 1e6/own, "", curl/own, "curl processes")
}

// manifests measures the import of a manifest against a process of Node that only parses it.
func manifests(ctx context.Context, b *backend.Backend) {
	const file = "../../backend/discovery/examples/weather.yaml"
	text, err := os.ReadFile(file)
	figures.Check(err)
	var ours, node []time.Duration
	for range 11 {
		began := time.Now()
		_, err := b.Discovery.ImportManifest(ctx, discovery.ImportManifestParams{Content: string(text)})
		figures.Check(err)
		ours = append(ours, time.Since(began))
		began = time.Now()
		figures.Check(exec.Command("node", "-e", `require("yaml").parse(require("fs").readFileSync(process.argv[1], "utf8"))`, file).Run())
		node = append(node, time.Since(began))
	}
	own := p50(ours) / 1000
	figures.Print("import a manifest", own, "ms", 0, "")
	figures.Print("import a manifest", own, "ms", own*1000/p50(node), "node, npm yaml")
}
