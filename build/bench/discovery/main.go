// Command discovery measures how API descriptions are inspected, compared with loading them with
// kin-openapi and with Prism, each in a process of its own; and what calls, imports and requests cost.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"

	"helix/backend"
	"helix/backend/discovery"
	"helix/backend/identity"
	"helix/backend/openapi"
	"helixbench/figures"
)

const peer = "kin-openapi load"

// measured is what a child process reports.
type measured struct {
	Millis     float64
	KeptMB     float64
	Operations int
	PeakMB     float64 `json:"-"`
}

func main() {
	if len(os.Args) == 3 {
		child(os.Args[1], os.Args[2])
		return
	}
	for _, x := range []struct{ name, file string }{
		{"GitHub, 13 MB of JSON", "node_modules/@octokit/openapi/generated/api.github.com.json"}, {"Blockfrost, 0.5 MB of YAML", "node_modules/@blockfrost/openapi/openapi.yaml"},
	} {
		name, file := x.name, x.file
		ours, kin, mock := best("ours", file), best("kin", file), prism(file)
		figures.Print("inspect "+name, ours.Millis, "ms", 0, "")
		figures.Print("inspect "+name, ours.Millis, "ms", ours.Millis/kin.Millis, peer)
		figures.Print("inspect "+name, ours.Millis, "ms", ours.Millis/mock, "Prism, until it serves")
		figures.Print("load "+name+" with kin-openapi", kin.Millis, "ms", 0, "")
		figures.Print("operations of "+name, float64(ours.Operations), "", 0, "")
		figures.Print("peak memory, "+name, ours.PeakMB, "MB", ours.PeakMB/kin.PeakMB, peer)
		figures.Print("kept memory, "+name, ours.KeptMB, "MB", 0, "")
	}
	build()
	open(func(b *backend.Backend, ctx context.Context) {
		calls(ctx, b)
		manifests(ctx, b)
		searches(ctx, b)
	})
}

// best runs one measurement three times and returns the fastest.
func best(who, file string) (out measured) {
	for range 3 {
		c := exec.Command(os.Args[0], who, file)
		c.Stderr = os.Stderr
		text, err := c.Output()
		figures.Check(err)
		var m measured
		figures.Check(json.Unmarshal(text, &m))
		m.PeakMB = float64(c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) / 1024
		if out.Millis == 0 || m.Millis < out.Millis {
			out = m
		}
	}
	return out
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

func child(who, file string) {
	raw, err := os.ReadFile(file)
	figures.Check(err)
	var m measured
	if who == "kin" {
		began := time.Now()
		d, err := openapi3.NewLoader().LoadFromData(raw)
		figures.Check(err)
		m.Millis, m.Operations = float64(time.Since(began).Microseconds())/1000, d.Paths.Len()
	} else {
		m = inspect(string(raw))
	}
	figures.Check(json.NewEncoder(os.Stdout).Encode(m))
}

// noKeyring is a computer without a keyring.
type noKeyring struct{}

func (noKeyring) Get(string, string) (string, error) { return "", errors.New("no keyring here") }
func (noKeyring) Set(string, string, string) error   { return errors.New("no keyring here") }

// open calls fn with a backend on an empty data folder.
func open(fn func(b *backend.Backend, ctx context.Context)) {
	dir, err := os.MkdirTemp("", "helix-bench-")
	figures.Check(err)
	defer os.RemoveAll(dir)
	b, err := backend.Open(context.Background(), backend.Options{DataDir: dir, Once: true, Keyring: noKeyring{}})
	figures.Check(err)
	defer b.Close()
	fn(b, identity.With(context.Background(), identity.Identity{User: b.LocalUser(), Scopes: identity.Admin.Closed(), Session: uuid.New(), Client: identity.ClientWindow, Label: "bench", Pipe: "memory"}))
}

func inspect(text string) (m measured) {
	open(func(b *backend.Backend, ctx context.Context) { m = inspectIn(ctx, b, text) })
	return m
}

func inspectIn(ctx context.Context, b *backend.Backend, text string) (m measured) {
	// The vocabulary of the tokens is unpacked once per process.
	_, err := b.Discovery.InspectOpenAPI(ctx, discovery.InspectParams{Content: `{"openapi":"3.0.0","paths":{"/x":{"get":{}}}}`})
	figures.Check(err)
	before := heap()
	began := time.Now()
	r, err := b.Discovery.InspectOpenAPI(ctx, discovery.InspectParams{Content: text})
	figures.Check(err)
	m.Millis, m.Operations = float64(time.Since(began).Microseconds())/1000, r.Counts.Operations
	m.KeptMB = heap() - before
	runtime.KeepAlive(text)
	return m
}

// build measures a request with 20 parameters.
func build() {
	params, values := []string{`{"name":"id","in":"path","required":true,"schema":{"type":"string"}}`}, []string{`"id":"a/b"`}
	for i := range 19 {
		params = append(params, fmt.Sprintf(`{"name":"p%d","in":"query","schema":{"type":"string"}}`, i))
		values = append(values, fmt.Sprintf(`"p%d":"value %d"`, i, i))
	}
	d, err := openapi.Parse([]byte(`{"openapi":"3.0.0","paths":{"/x/{id}":{"get":{"parameters":[`+strings.Join(params, ",")+`]}}}}`), "")
	figures.Check(err)
	p, err := d.Plan("get /x/{id}")
	figures.Check(err)
	input := json.RawMessage("{" + strings.Join(values, ",") + "}")
	const batches, each = 20, 1000
	fastest := time.Hour // the other batches waited for a processor
	for range batches {
		began := time.Now()
		for range each {
			_, err := p.Build(input, openapi.BuildOptions{Server: "https://api.example.com"})
			figures.Check(err)
		}
		fastest = min(fastest, time.Since(began))
	}
	figures.Print("build a request with 20 parameters", float64(fastest.Microseconds())/each, "µs", 0, "")
}
