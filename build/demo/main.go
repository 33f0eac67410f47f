// Command demo walks through Helix without a window: it writes tools, runs them on this
// repository, chains them into a skill and replays its run, imports a conversation and finds a
// line of it by its meaning, shows a network call that waits for approval, approves it for one
// run, and verifies the audit log. It prints each step and exits with 1 if a result is wrong.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

func main() {
	helix := flag.String("helix", "build/bin/helix", "the helix program")
	flag.Parse()
	began := time.Now()
	if err := walk(*helix); err != nil {
		fmt.Fprintf(os.Stderr, "\nThe demo stopped: %v\n", err)
		os.Exit(1)
	}
	fmt.Printf("\nEverything was as it should be, in %.1f s. The temporary folder is gone.\n", time.Since(began).Seconds())
}

// demo is one walk: a running backend with a temporary folder.
type demo struct {
	ctx   context.Context
	helix string
	dir   string
	step  int
}

func walk(helix string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	helix, err = filepath.Abs(helix)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "helix-demo-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d := &demo{ctx: ctx, helix: helix, dir: dir}

	stop, err := d.serve()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for _, part := range []func() error{d.templates, d.skill, d.memory, d.network, d.audit} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) say(text string) {
	d.step++
	fmt.Printf("\n%d. %s\n", d.step, text)
}

func (d *demo) detail(format string, args ...any) { fmt.Printf("   "+format+"\n", args...) }

// run runs the program and returns its output. code is its exit code.
func (d *demo) run(args ...string) (stdout string, code int, err error) {
	cmd := exec.CommandContext(d.ctx, d.helix, append([]string{"--data-dir", filepath.Join(d.dir, "data")}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return out.String(), exit.ExitCode(), fmt.Errorf("helix %s: exit %d: %s", strings.Join(args, " "), exit.ExitCode(), strings.TrimSpace(errs.String()))
	}
	return out.String(), 0, err
}

// rpc calls one method and decodes its result.
func (d *demo) rpc(out any, method string, params any) error {
	p, err := json.Marshal(params)
	if err != nil {
		return err
	}
	text, _, err := d.run("rpc", method, string(p))
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), out)
}

// runResult is the part of a run's result that the demo uses.
type runResult struct {
	Success         bool            `json:"success"`
	Output          json.RawMessage `json:"output"`
	Error           string          `json:"error"`
	ExecutionTimeMs float64         `json:"executionTimeMs"`
}

func (d *demo) execute(tool string, params any) (r runResult, err error) {
	return r, d.rpc(&r, "tools.execute_custom", map[string]any{"toolId": tool, "params": params})
}

// serve starts a backend and waits until it is ready.
func (d *demo) serve() (stop func() error, err error) {
	d.say("Start Helix in a temporary folder, without a window.")
	cmd := exec.CommandContext(d.ctx, d.helix, "--data-dir", filepath.Join(d.dir, "data"), "serve", "--addr", "127.0.0.1:0")
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = 15 * time.Second
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	endpoint := filepath.Join(d.dir, "data", "run", "endpoint.json")
	for _, err = os.Stat(endpoint); err != nil; _, err = os.Stat(endpoint) {
		select {
		case err := <-ended:
			return nil, fmt.Errorf("the backend ended at once: %w", err)
		case <-d.ctx.Done():
			return nil, fmt.Errorf("the backend did not start: %w", d.ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
	var status struct{ Version string }
	if err := d.rpc(&status, "system.status", struct{}{}); err != nil {
		return nil, err
	}
	d.detail("It answers; its version is %s.", status.Version)
	return func() error {
		if _, _, err := d.run("stop"); err != nil {
			return err
		}
		return <-ended
	}, nil
}

// templates creates two tools from templates and runs them on real input.
func (d *demo) templates() error {
	d.say("Make a tool from the template \"Text Counter\" and run it on the README.")
	id, _, err := d.run("tool", "templates", "--new", "Text Counter")
	if err != nil {
		return err
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		return err
	}
	r, err := d.execute(strings.TrimSpace(id), map[string]any{"text": string(readme)})
	if err != nil {
		return err
	}
	var counts map[string]any
	if err := json.Unmarshal(r.Output, &counts); err != nil || !r.Success {
		return fmt.Errorf("the counter gave %s (%s)", r.Output, r.Error)
	}
	words := len(strings.Fields(string(readme)))
	if got, _ := counts["words"].(float64); int(got) != words {
		return fmt.Errorf("the counter found %v words, there are %d", counts["words"], words)
	}
	d.detail("It found %d words, in %.0f ms. Counted here without Helix: %d.", int(counts["words"].(float64)), r.ExecutionTimeMs, words)

	d.say("Make \"CSV to JSON\" and give it a table of this repository's packages, from `go list`.")
	table, packages, err := goList(d.ctx)
	if err != nil {
		return err
	}
	id, _, err = d.run("tool", "templates", "--new", "CSV to JSON")
	if err != nil {
		return err
	}
	if r, err = d.execute(strings.TrimSpace(id), map[string]any{"csv": table}); err != nil {
		return err
	}
	var rows []map[string]any
	if err := rowsOf(r.Output, &rows); err != nil || !r.Success {
		return fmt.Errorf("the converter gave %.200s (%s)", r.Output, r.Error)
	}
	if len(rows) != packages {
		return fmt.Errorf("the converter gave %d rows for %d packages", len(rows), packages)
	}
	d.detail("%d rows came back, one for each package; the first is %v.", len(rows), rows[0]["package"])
	return nil
}

// rowsOf decodes a list of rows that is the output itself or its field "rows".
func rowsOf(output json.RawMessage, rows *[]map[string]any) error {
	if json.Unmarshal(output, rows) == nil {
		return nil
	}
	var wrapped struct{ Rows []map[string]any }
	if err := json.Unmarshal(output, &wrapped); err != nil {
		return err
	}
	*rows = wrapped.Rows
	return nil
}

func goList(ctx context.Context) (csv string, packages int, err error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", `{{.ImportPath}},{{len .GoFiles}},{{len .Imports}}`, "./backend/...").Output()
	if err != nil {
		return "", 0, fmt.Errorf("go list: %w", err)
	}
	return "package,files,imports\n" + string(out), strings.Count(string(out), "\n"), nil
}

const summaryTS = `// Reads the table of packages from a server and says which package is the largest.
interface Row { package: string; files: number }

export default async function (params: { url: string }, helix: any): Promise<unknown> {
  const response = await helix.fetch(params.url);
  const rows: Row[] = await response.json();
  const largest = rows.reduce((a, b) => (b.files > a.files ? b : a));
  helix.log(` + "`read ${rows.length} packages`" + `);
  return { packages: rows.length, largest: largest.package };
}
`

// network shows a call that is rejected, approved for one run, done, and refused again.
func (d *demo) network() error {
	d.say("Write a third tool in TypeScript, one that asks a server for data.")
	server, asked, err := testServer(d.ctx)
	if err != nil {
		return err
	}
	defer server.Close()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(server.Addr, "http://"))
	if err != nil {
		return err
	}
	file := filepath.Join(d.dir, "largest-package.ts")
	if err := os.WriteFile(file, []byte(summaryTS), 0o600); err != nil {
		return err
	}
	schema := filepath.Join(d.dir, "schema.json")
	if err := os.WriteFile(schema, []byte(`{"type":"object","properties":{"url":{"type":"string"}},"required":["url"]}`), 0o600); err != nil {
		return err
	}
	out, _, err := d.run("tool", "create", file, "--name", "Largest Package", "--schema", schema, "--cap", "network:localhost("+port+")")
	if err != nil {
		return err
	}
	id := strings.TrimSpace(out)
	d.detail("It says of itself that it wants network:localhost(%s). Saying so allows nothing yet.", port)

	d.say("Run it as a script would, with nobody there to ask.")
	params := map[string]any{"url": "http://localhost:" + port + "/packages.json"}
	why, question, err := d.refused(id, params)
	if err != nil {
		return err
	}
	if asked.Load() != 0 {
		return fmt.Errorf("%d requests reached the server before anybody allowed one", asked.Load())
	}
	d.detail("%s", why)
	d.detail("The server was not asked. The question waits as %s.", question)

	d.say("Answer the question: yes, for this one run; and run it again with the same input.")
	var pending struct {
		DefinitionHash string `json:"definitionHash"`
	}
	if err := d.rpc(&pending, "approvals.get", map[string]any{"id": question}); err != nil {
		return err
	}
	var decided struct {
		Status string `json:"status"`
		RunID  string `json:"runId"`
	}
	if err := d.rpc(&decided, "approvals.decide", map[string]any{"id": question, "decision": "approve", "scope": "run", "definitionHash": pending.DefinitionHash, "rerun": true}); err != nil {
		return err
	}
	if decided.Status != "approved" || decided.RunID == "" {
		return fmt.Errorf("the approval gave %+v", decided)
	}
	output, err := d.usage(id, decided.RunID)
	if err != nil {
		return err
	}
	if asked.Load() != 1 {
		return fmt.Errorf("the server was asked %d times, not once", asked.Load())
	}
	d.detail("The run %s went through: %s", decided.RunID, output)

	d.say("Run it once more: the approval was for one run only.")
	if _, _, err := d.refused(id, params); err != nil {
		return err
	}
	if asked.Load() != 1 {
		return fmt.Errorf("the server was asked %d times", asked.Load())
	}
	d.detail("Refused again; the server was asked once in all.")
	return nil
}

// refused runs a tool and expects that it is denied, with a pending approval.
func (d *demo) refused(tool string, params any) (why, question string, err error) {
	p, err := json.Marshal(params)
	if err != nil {
		return "", "", err
	}
	_, code, err := d.run("tool", "run", tool, "--params", string(p))
	if code != 4 {
		return "", "", fmt.Errorf("the run should have been refused (exit 4), it ended with %d: %w", code, err)
	}
	_, why, _ = strings.Cut(err.Error(), "helix: ")
	why, _, _ = strings.Cut(why, "\n")
	var open struct {
		Approvals []struct {
			ID string `json:"id"`
		} `json:"approvals"`
	}
	if err := d.rpc(&open, "approvals.list", map[string]any{}); err != nil {
		return "", "", err
	}
	if len(open.Approvals) != 1 {
		return "", "", fmt.Errorf("%d questions are open, not one", len(open.Approvals))
	}
	return why, open.Approvals[0].ID, nil
}

// usage waits until the run has ended and returns its output.
func (d *demo) usage(tool, run string) (string, error) {
	for {
		var u struct {
			Entries []struct {
				ID     string          `json:"id"`
				Status string          `json:"status"`
				Output json.RawMessage `json:"output"`
				Error  string          `json:"error"`
			} `json:"entries"`
		}
		if err := d.rpc(&u, "tools.usage", map[string]any{"toolId": tool}); err != nil {
			return "", err
		}
		for _, e := range u.Entries {
			if e.ID != run {
				continue
			}
			if e.Status != "success" {
				return "", fmt.Errorf("the approved run ended as %s: %s", e.Status, e.Error)
			}
			return string(e.Output), nil
		}
		select {
		case <-d.ctx.Done():
			return "", fmt.Errorf("the approved run left no trace: %w", d.ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// testServer serves the table of packages as JSON and counts the requests.
func testServer(ctx context.Context) (*http.Server, *atomic.Int64, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", `{"package":"{{.ImportPath}}","files":{{len .GoFiles}}}`, "./backend/...").Output()
	if err != nil {
		return nil, nil, err
	}
	body := "[" + strings.Join(strings.Fields(string(out)), ",") + "]"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	var asked atomic.Int64
	s := &http.Server{Addr: l.Addr().String(), ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(body)) // if the tool hung up, its run reports it
	})}
	go func() { _ = s.Serve(l) }() // ends with Close
	return s, &asked, nil
}

// audit verifies the log, here and from a file without Helix's data.
func (d *demo) audit() error {
	d.say("Look back: what did the log see of all this?")
	var log struct {
		Entries []struct {
			Action string `json:"action"`
		} `json:"entries"`
	}
	if err := d.rpc(&log, "audit.list", map[string]any{"limit": 100}); err != nil {
		return err
	}
	count := map[string]int{}
	for _, e := range log.Entries {
		count[e.Action]++
	}
	for _, want := range []string{"start", "complete", "approval.requested", "approval.decided", "network_call"} {
		if count[want] == 0 {
			return fmt.Errorf("the log has no entry %q", want)
		}
		d.detail("%-20s %d", want, count[want])
	}

	d.say("Verify the log, then export it and verify the file alone, in another folder.")
	if out, _, err := d.run("audit", "verify"); err != nil {
		return err
	} else if d.detail("%s", strings.SplitN(out, "\n", 2)[0]); !strings.Contains(out, "intact") {
		return errors.New("the log is not intact")
	}
	file := filepath.Join(d.dir, "audit.jsonl")
	if _, _, err := d.run("audit", "export", file); err != nil {
		return err
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	key, _, err := d.run("audit", "key")
	if err != nil {
		return err
	}
	keyFile := filepath.Join(d.dir, "device.pub")
	if err := os.WriteFile(keyFile, []byte(key), 0o600); err != nil {
		return err
	}
	verify := func() ([]byte, error) {
		return exec.CommandContext(d.ctx, d.helix, "--data-dir", filepath.Join(d.dir, "empty"), "audit", "verify", "--file", file, "--public-key", keyFile).CombinedOutput()
	}
	if out, err := verify(); err != nil {
		return fmt.Errorf("offline verification: %w: %s", err, out)
	}
	forged := bytes.Replace(b, []byte("approval.decided"), []byte("approval.expired"), 1)
	if err := os.WriteFile(file, forged, 0o600); err != nil {
		return err
	}
	var exit *exec.ExitError
	if _, err := verify(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		return fmt.Errorf("a forged log was not refused: %w", err)
	}
	d.detail("With this device's public key, the file verifies where Helix has no data.")
	d.detail("With one word changed in it, it does not.")
	return nil
}
