//go:build linux

package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"helix/backend/storage"
)

func setProtocolTx(version string) func(*storage.Tx) error {
	return func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE mcp_servers SET protocol = ?`, version)
		return err
	}
}

// speakVersion is a server on standard input and output that knows one version of the protocol only.
func speakVersion(version string) {
	if version > legacyProtocol {
		if err := newestServer().Run(context.Background(), &sdk.StdioTransport{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		if answer := answerIn(version, line); answer != nil {
			fmt.Println(string(answer))
		}
	}
}

// versionHandler is the same over HTTP.
func versionHandler(version string) http.Handler {
	if version > legacyProtocol {
		return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return newestServer() }, &sdk.StreamableHTTPOptions{Stateless: true})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		answer := answerIn(version, b)
		if answer == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(answer) //nolint:errcheck // the client may be gone
	})
}

func newestServer() *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "echo"}, func(_ context.Context, _ *sdk.CallToolRequest, in echoIn) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: in.Text}}}, nil, nil
	})
	return server
}

// answerIn returns the answer to a message in an old version of the protocol, or nil.
func answerIn(version string, message []byte) []byte {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Arguments echoIn `json:"arguments"`
		} `json:"params"`
	}
	if json.Unmarshal(message, &m) != nil || m.ID == nil {
		return nil
	}
	out := map[string]any{"jsonrpc": "2.0", "id": m.ID}
	switch m.Method {
	case "initialize":
		out["result"] = map[string]any{"protocolVersion": version, "capabilities": map[string]any{"tools": map[string]any{}}, "serverInfo": map[string]any{"name": "old", "version": "1"}}
	case "ping":
		out["result"] = map[string]any{}
	case "tools/list":
		out["result"] = map[string]any{"tools": []any{map[string]any{"name": "echo", "inputSchema": map[string]any{"type": "object", "properties": map[string]any{"text": map[string]any{"type": "string"}}}}}}
	case "tools/call":
		out["result"] = map[string]any{"content": []any{map[string]any{"type": "text", "text": m.Params.Arguments.Text}}}
	default:
		out["error"] = map[string]any{"code": -32601, "message": "Method not found"}
	}
	b, _ := json.Marshal(out) //nolint:errchkjson // plain values
	return b
}
