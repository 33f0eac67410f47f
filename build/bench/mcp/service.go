package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/gateway"
	"helix/backend/identity"
	"helix/backend/mcp"
	"helix/backend/permission"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

var quiet = slog.New(slog.DiscardHandler)

// service is the part of Helix that calls tools: the database, permissions, the audit log and MCP.
type service struct {
	*mcp.Service
	db    *storage.DB
	reg   *callable.Registry
	ctx   context.Context
	close func()
}

func openService() *service {
	dir, err := os.MkdirTemp("", "helix-bench-mcp-")
	check(err)
	db, err := storage.Open(context.Background(), storage.Options{Path: filepath.Join(dir, "helix.db"), Keys: storage.NewKeys(storagetest.NewRoot()), Bus: bus.New(), Logger: quiet})
	check(err)
	log := audit.New(db, audit.Options{})
	perm := permission.New(db, db.Bus(), permission.Options{Audit: log})
	s := &service{db: db, reg: callable.NewRegistry(perm)}
	s.Service = mcp.New(db, mcp.Options{
		Gate: callable.Gate{Permission: perm, Record: log.RecordWith, Logger: quiet}, Logger: quiet, StateDir: dir, Getenv: os.Getenv, ShellPath: func() []string { return nil }, Callables: s.reg, Version: "1",
	})
	perm.Register(string(mcp.Kind), s.Service, nil)
	s.reg.Add(s.Provider())
	s.ctx = identity.With(context.Background(), identity.Identity{User: db.LocalUser().ID, Session: uuid.New(), Scopes: identity.Admin.Closed(), Client: identity.ClientTerminal})
	s.close = func() {
		check(s.Close())
		check(db.Close())
		check(os.RemoveAll(dir))
	}
	return s
}

// add adds a server, starts it and approves all its tools.
func (s *service) add(e mcp.Server) {
	_, err := s.Add(s.ctx, mcp.AddParams{Server: e})
	check(err)
	_, err = s.Start(s.ctx, mcp.NameParams{Name: e.Name})
	check(err)
	r, err := s.GetServer(s.ctx, mcp.NameParams{Name: e.Name})
	check(err)
	_, err = s.ApproveServer(s.ctx, mcp.ApproveParams{Name: e.Name, DefinitionHash: r.DefinitionHash, Tools: []string{"*"}})
	check(err)
}

// echo calls the tool echo of the server echo.
func (s *service) echo() {
	r, err := s.Call(s.ctx, mcp.CallParams{Server: "echo", Tool: "echo", Arguments: json.RawMessage(echoInput)})
	check(err)
	if !r.Success {
		check(fmt.Errorf("the call failed: %s", r.Error))
	}
}

// list reads the tools of a server again.
func (s *service) list(name string) {
	r, err := s.Test(s.ctx, mcp.NameParams{Name: name})
	check(err)
	if !r.OK {
		check(fmt.Errorf("the list failed: %+v", r.Steps))
	}
}

// exec changes what is stored.
func (s *service) exec(query string) {
	check(s.db.Write(s.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(query)
		return err
	}))
}

type text struct {
	Text string `json:"text"`
}

// echoServer is the server of the SDK with a handler that only returns its input.
func echoServer() *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "echo", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "echo", Description: "Returns its text."}, func(_ context.Context, _ *sdk.CallToolRequest, in text) (*sdk.CallToolResult, text, error) {
		return nil, in, nil
	})
	return server
}

func manyTools() *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "many", Version: "1"}, nil)
	for i := range 1000 {
		sdk.AddTool(server, &sdk.Tool{Name: fmt.Sprintf("tool%04d", i), Description: "Finds the entries of a calendar between two days, optionally only those with a word in their title."},
			func(context.Context, *sdk.CallToolRequest, struct {
				From  string   `json:"from" jsonschema:"the first day"`
				To    string   `json:"to" jsonschema:"the last day"`
				Words []string `json:"words,omitempty" jsonschema:"words of the title"`
			}) (*sdk.CallToolResult, any, error) {
				return nil, nil, nil
			})
	}
	return server
}

func sdkHandler() http.Handler {
	server := echoServer()
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
}

func say(r ready) {
	b, err := json.Marshal(r)
	check(err)
	fmt.Println(string(b))
}

// listen serves until the input ends.
func listen(h http.Handler) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	say(ready{URL: "http://" + l.Addr().String() + "/mcp"})
	go func() { _ = http.Serve(l, h) }() //nolint:gosec // it ends with the process
	_, err = io.Copy(io.Discard, os.Stdin)
	check(err)
}

// serve exposes a callable that returns its input through the gateway.
func serve() {
	const token = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	s := openService()
	defer s.close()
	set := callable.NewSet(callable.Tool, nil)
	set.Add(callable.Func{
		Info: callable.Info{Name: "echo", Description: "Returns its text.", Input: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`)},
		Run:  func(_ context.Context, r callable.Request) (any, error) { return r.Input, nil },
	})
	s.reg.Add(set)
	_, err := s.Expose(s.ctx, mcp.ExposeParams{Kind: mcp.ExposeTool, ID: "echo", Exposed: true})
	check(err)
	user := s.db.LocalUser().ID
	g := gateway.New(gateway.NewAPI(), gateway.Options{Addr: "127.0.0.1:0", Bus: s.db.Bus(), RootToken: token, User: func() gateway.User { return gateway.User{ID: user} }, Logger: quiet})
	h := s.Handler()
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		g.Route(method, "/mcp", gateway.Write, false, func(w http.ResponseWriter, r *http.Request) error {
			h.ServeHTTP(w, r)
			return nil
		})
	}
	ctx, cancel := context.WithCancel(s.ctx)
	check(g.Listen(ctx))
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	say(ready{URL: strings.TrimSuffix(g.URL(), "/") + "/mcp", Token: token})
	_, err = io.Copy(io.Discard, os.Stdin)
	check(err)
	cancel()
	check(<-ended)
}

type tokenTransport string

func (t tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(t))
	return http.DefaultTransport.RoundTrip(r)
}

func withToken(token string) *http.Client { return &http.Client{Transport: tokenTransport(token)} }

// idle measures what servers cost that nobody calls, in a process that does nothing else.
func idle() {
	s := openService()
	defer s.close()
	names := make([]string, 32)
	for i := range names {
		names[i] = fmt.Sprint("server", i)
	}
	before := resident()
	for _, name := range names {
		_, err := s.Add(s.ctx, mcp.AddParams{Server: mcp.Server{Name: name, Command: self(), Args: []string{"-role", "stdio"}}})
		check(err)
	}
	_, err := s.ListServers(s.ctx, mcp.ServersParams{})
	check(err)
	var out ready
	out.Stopped, out.Processes = float64(resident()-before), children()
	start := func(list []string) {
		for _, name := range list {
			_, err := s.Start(s.ctx, mcp.NameParams{Name: name})
			check(err)
		}
	}
	start(names[:2]) // what is loaded once
	before = resident()
	start(names[2:12])
	out.Connection = float64(resident()-before) / 10
	say(out)
	_, err = io.Copy(io.Discard, os.Stdin)
	check(err)
}

// resident returns the resident bytes of this process without what the Go heap has free.
func resident() int {
	time.Sleep(100 * time.Millisecond) // what was started in the background ends
	runtime.GC()
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/statm")
	check(err)
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	check(err)
	return pages * os.Getpagesize()
}

// children counts the processes that this one started.
func children() (n int) {
	threads, err := filepath.Glob("/proc/self/task/*/children")
	check(err)
	for _, t := range threads {
		if b, err := os.ReadFile(t); err == nil { // a thread may have ended
			n += len(strings.Fields(string(b)))
		}
	}
	return n
}
