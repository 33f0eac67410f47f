//go:build linux

package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

// asServer makes this test program an MCP server that behaves as the value says.
const asServer = "TEST_MCP_SERVER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(asServer); kind != "" {
		serve(kind)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener"))
}

// serve is the server under test. kind is the behavior, with an argument after a colon.
func serve(kind string) {
	kind, arg, _ := strings.Cut(kind, ":")
	switch kind {
	case "exit":
		fmt.Fprintln(os.Stderr, "the license has expired")
		os.Exit(7)
	case "silent":
		block()
	case "family":
		family(arg)
	case "noise":
		fmt.Println("Welcome to the server!")
	case "garbage":
		for range 200 {
			fmt.Println("{this is not JSON")
		}
	case "flood":
		line := strings.Repeat("x", 1000)
		for i := range 5000 {
			fmt.Fprintln(os.Stderr, i, line)
		}
	case "child":
		block()
	}
	switch kind {
	case "version":
		speakVersion(arg)
		return
	case "hostile":
		speakHostile(arg)
		return
	}
	server := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1.2.3"}, nil)
	addTools(server, kind, arg)
	if err := server.Run(context.Background(), &sdk.StdioTransport{}); err != nil && kind != "dies" {
		fmt.Fprintln(os.Stderr, err)
	}
	if kind == "family" {
		block() // it ignores the end of its input
	}
}

type echoIn struct {
	Text string `json:"text"`
}

type echoOut struct {
	Text string `json:"text"`
}

// addTools adds the tools of the test server.
func addTools(server *sdk.Server, kind, arg string) {
	yes := true
	description := "Returns its text."
	if kind == "changing" { // the description is the content of a file
		b, _ := os.ReadFile(arg)
		description = string(b)
	}
	sdk.AddTool(server, &sdk.Tool{Name: "echo", Description: description, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}}, func(_ context.Context, _ *sdk.CallToolRequest, in echoIn) (*sdk.CallToolResult, echoOut, error) {
		return nil, echoOut(in), nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "fail", Description: "Fails."}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return nil, nil, fmt.Errorf("the disk is full")
	})
	sdk.AddTool(server, &sdk.Tool{Name: "note", Description: "Adds a line to a file.", Annotations: &sdk.ToolAnnotations{DestructiveHint: &yes}}, func(_ context.Context, _ *sdk.CallToolRequest, in echoIn) (*sdk.CallToolResult, any, error) {
		f, err := os.OpenFile(os.Getenv("NOTES"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		_, err = fmt.Fprintln(f, in.Text)
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "noted"}}}, nil, err
	})
	sdk.AddTool(server, &sdk.Tool{Name: "wait", Description: "Waits until it is canceled."}, func(ctx context.Context, req *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: 1, Total: 2, Message: "waiting"})
		<-ctx.Done()
		return nil, nil, ctx.Err()
	})
	sdk.AddTool(server, &sdk.Tool{Name: "environment", Description: "Returns its environment."}, func(_ context.Context, req *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		lines := os.Environ()
		if parent := req.Params.Meta["traceparent"]; parent != nil {
			lines = append(lines, fmt.Sprint("traceparent=", parent))
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Join(lines, "\n")}}}, nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "die", Description: "Ends the server."}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		fmt.Fprintln(os.Stderr, "out of memory")
		os.Exit(9)
		return nil, nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "picture", Description: "Returns an image."}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "a dot"}, &sdk.ImageContent{MIMEType: "image/png", Data: []byte("dot")}}}, nil, nil
	})
	server.AddTool(&sdk.Tool{Name: "ask", Description: "Asks for a name.", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		r, ok := req.Params.InputResponses["name"].(*sdk.ElicitResult)
		if !ok { // for a client of an older protocol the SDK asks it during the call
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"name": &sdk.ElicitParams{Message: "What is your name?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string","minLength":2}},"required":["name"]}`)}}}, nil
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint(r.Action, " ", r.Content["name"])}}}, nil
	})
	if kind == "changing" {
		sdk.AddTool(server, &sdk.Tool{Name: "change", Description: "Changes the description of echo."}, func(_ context.Context, _ *sdk.CallToolRequest, in echoIn) (*sdk.CallToolResult, any, error) {
			addTools(server, "", "") // replaces the tool, which notifies clients
			return &sdk.CallToolResult{}, nil, nil
		})
	}
	if kind == "odd" {
		handler := func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{}, nil
		}
		server.AddTool(&sdk.Tool{Name: "remote", InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"` + arg + `"}}}`)}, handler)
		server.AddTool(&sdk.Tool{Name: "liar", InputSchema: json.RawMessage(`{"type":"object"}`), OutputSchema: json.RawMessage(`{"type":"object","required":["n"]}`)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{StructuredContent: map[string]any{"m": 1}}, nil
		})
	}
	if kind == "many" {
		for i := range 3000 {
			sdk.AddTool(server, &sdk.Tool{Name: fmt.Sprintf("tool%04d", i)}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
				return nil, nil, nil
			})
		}
	}
}

// family starts a child, which starts a child; none of them ends on TERM. Their ids go to a file.
func family(file string) {
	ignoreTerm()
	depth := len(os.Getenv("DEPTH"))
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintln(f, os.Getpid())
		f.Close()
	}
	if depth < 2 {
		cmd := exec.Command(os.Args[0]) //nolint:gosec // this program
		cmd.Env = append(os.Environ(), "DEPTH="+strings.Repeat("x", depth+1))
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_, _ = bufio.NewReader(out).ReadString('\n') // it has started
	}
	if depth > 0 {
		fmt.Println("started")
		block()
	}
}

// block never returns.
func block() {
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGUSR1)
	for range never {
	}
}
