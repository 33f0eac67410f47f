package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"helix/backend/fault"
)

// hostileHosts answer the operations of hostile programs. Each makes a new one for a run.
var hostileHosts = map[string]func() Host{
	// deny refuses all, as for a tool without rights.
	"": func() Host {
		return HostFunc(func(_ context.Context, op string, _ json.RawMessage) (json.RawMessage, error) {
			return nil, &fault.Error{Kind: fault.Denied, Message: "not allowed", Details: Refusal{Reason: ReasonCapability, Capability: op}}
		})
	},
	"echo":    answering(func(string) string { return "x" }),
	"big":     answering(func(string) string { return strings.Repeat("y", 5<<20) }),
	"null":    raw("null"),
	"garbage": raw("{\"keys\":[,]}\x00\xff"),
	"proto":   raw(`{"output":{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}}`),
	"then":    raw(`{"output":{"then":1,"toJSON":"x"},"then":1}`),
	// wait answers when the run is over.
	"wait": func() Host {
		return HostFunc(func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
	},
	// late does not hear at once that the run is over.
	"late": func() Host {
		return HostFunc(func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			<-ctx.Done()
			t := time.NewTimer(100 * time.Millisecond)
			<-t.C
			return json.RawMessage(`{"keys":["late"]}`), nil
		})
	},
	"panic": func() Host {
		return HostFunc(func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			panic("a bug in the host")
		})
	},
	"error": func() Host {
		return HostFunc(func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			return nil, errors.New(strings.Repeat("secret path /home/x\x00", 1e5))
		})
	},
}

func raw(answer string) func() Host {
	return func() Host {
		return HostFunc(func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(answer), nil
		})
	}
}

func answering(body func(op string) string) func() Host {
	return func() Host {
		return HostFunc(func(_ context.Context, op string, _ json.RawMessage) (json.RawMessage, error) {
			b := body(op)
			switch op {
			case OpFetch:
				return json.Marshal(FetchResponse{Status: 200, URL: "https://x/", Headers: map[string]string{}, Body: b})
			case OpReadText:
				return json.Marshal(TextResponse{Text: b})
			case OpList:
				return json.Marshal(ListResponse{Entries: []DirEntry{{Name: b}}})
			case OpStateGet:
				return json.Marshal(StateResponse{Found: true, Value: input(b)})
			case OpStateKeys:
				return json.Marshal(KeysResponse{Keys: []string{b}})
			case OpSecret:
				return json.Marshal(SecretResponse{Placeholder: b})
			case OpTool:
				return json.Marshal(ToolResponse{Output: input(b)})
			}
			return json.RawMessage("{}"), nil
		})
	}
}
