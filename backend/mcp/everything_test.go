//go:build linux

package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/testkit"
)

// everything returns the path of the reference server, which make setup-npm installs.
func everything(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../build/mcp/node_modules/@modelcontextprotocol/server-everything/dist/index.js")
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("run make setup-npm: %v", err)
	}
	return path
}

// listen starts the reference server on a port and returns its URL.
func listen(t *testing.T, transport, path string) string {
	t.Helper()
	port := testkit.FreePort(t)
	cmd := exec.Command("node", everything(t), transport)
	cmd.Env = append(os.Environ(), fmt.Sprint("PORT=", port))
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stderr)
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		_ = cmd.Wait()
	})
	for { // it says when it listens
		line, err := lines.ReadString('\n')
		if err != nil {
			close(ended)
			t.Fatalf("the server ended: %v", err)
		}
		if strings.Contains(line, fmt.Sprint("port ", port)) {
			break
		}
	}
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, lines) // or it would block
	}()
	return fmt.Sprintf("http://127.0.0.1:%d%s", port, path)
}

func TestReferenceServerOverThreeTransports(t *testing.T) {
	t.Parallel()
	for transport, entry := range map[string]func(t *testing.T) Server{
		Stdio: func(t *testing.T) Server { return Server{Command: "node", Args: []string{everything(t), "stdio"}} },
		HTTP:  func(t *testing.T) Server { return Server{URL: listen(t, "streamableHttp", "/mcp")} },
		SSE:   func(t *testing.T) Server { return Server{Transport: SSE, URL: listen(t, "sse", "/sse")} },
	} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			s := entry(t)
			s.Name, s.StartTimeoutMs, s.TimeoutMs = "everything", maxTimeoutMs, maxTimeoutMs
			if _, err := e.s.Add(e.ctx, AddParams{s}); err != nil {
				t.Fatal(err)
			}
			got := e.approve("everything", "*")
			if len(got.Tools) < 10 {
				t.Errorf("%d tools: %v", len(got.Tools), got.Tools)
			}
			e.callEverything(got.Tools)
			e.cancelEverything()
			if _, err := e.s.Restart(e.ctx, NameParams{"everything"}); err != nil {
				t.Error(err)
			}
			if _, err := e.call("everything.echo", `{"message":"again"}`); err != nil {
				t.Error(err)
			}
			if r, err := e.s.Resources(e.ctx, NameParams{"everything"}); err != nil || len(r.Resources) == 0 {
				t.Errorf("%d resources, %v", len(r.Resources), err)
			}
			if p, err := e.s.Prompts(e.ctx, NameParams{"everything"}); err != nil || len(p.Prompts) == 0 {
				t.Errorf("%d prompts, %v", len(p.Prompts), err)
			}
		})
	}
}

// arguments of the reference server's tools; others take {}.
var arguments = map[string]string{
	"echo": `{"message":"hello"}`, "get-sum": `{"a":2,"b":3}`, "get-structured-content": `{"location":"Chicago"}`, "get-annotated-message": `{"messageType":"success"}`,
	"get-resource-reference": `{"resourceType":"Text","resourceId":1}`, "trigger-long-running-operation": `{"duration":0.1,"steps":2}`, "simulate-research-query": `{"topic":"tea"}`,
}

// callAndDecline calls a tool, and declines what its server asks meanwhile.
func (e *env) callAndDecline(name string) (r CallResult, err error) {
	e.Helper()
	end := make(chan struct{})
	go func() {
		defer close(end)
		r, err = e.s.Call(e.ctx, CallParams{Server: "everything", Tool: name, Arguments: json.RawMessage(first(arguments[name], "{}"))})
	}()
	testkit.Eventually(e, "the end of "+name, func() bool {
		select {
		case <-end:
			return true
		default:
		}
		for _, q := range e.asked() {
			if err := e.answer(&q, "deny", ""); err != nil && !fault.Is(err, fault.Conflict) {
				e.Error(err)
			}
		}
		return false
	}, func(ended bool) bool { return ended })
	return r, err
}

// callEverything calls each tool: it succeeds, or fails with a reason.
func (e *env) callEverything(tools []string) {
	e.Helper()
	for _, name := range tools {
		if strings.HasPrefix(name, "gzip-") || strings.HasPrefix(name, "simulate-research") {
			continue // they reach the network, or need a client with tasks
		}
		r, err := e.callAndDecline(name)
		if err != nil || !r.Success && r.Error == "" {
			e.Errorf("%s: %+v, %v", name, r, err)
		}
		if _, must := arguments[name]; must && !r.Success {
			e.Errorf("%s: %s", name, r.Error)
		}
	}
	r, err := e.s.Call(e.ctx, CallParams{Server: "everything", Tool: "get-sum", Arguments: json.RawMessage(`{"a":"x"}`)})
	if !fault.Is(err, fault.Invalid) {
		e.Errorf("arguments against the schema: %+v, %v", r, err)
	}
}

// cancelEverything cancels a long call as soon as it has reported progress.
func (e *env) cancelEverything() {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, 2*time.Minute)
	defer cancel()
	var reported atomic.Bool
	defer bus.Subscribe(e.db.Bus(), func(uuid.UUID, Progress) {
		reported.Store(true)
		cancel()
	})()
	r, err := e.s.Call(ctx, CallParams{Server: "everything", Tool: "trigger-long-running-operation", Arguments: json.RawMessage(`{"duration":600,"steps":6000}`)})
	if !fault.Is(err, fault.Canceled) && r.ErrorClass != "canceled" || !reported.Load() {
		e.Errorf("%+v, %v, progress %v", r, err, reported.Load())
	}
	if _, err := e.reg.Call(e.ctx, callable.Ref{Kind: Kind, ID: "everything.echo"}, callable.Request{Input: json.RawMessage(`{"message":"still there"}`)}); err != nil {
		e.Errorf("after the canceled call: %v", err)
	}
}
