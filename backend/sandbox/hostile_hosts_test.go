package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"helix/backend/fault"
)

// hostileHosts answer the operations of hostile programs. Each function returns a new one for a
// run.
var hostileHosts = map[string]func() Host{
	// deny refuses everything, as for a tool without permissions.
	"": func() Host {
		return HostFunc(func(_ context.Context, op string, _ json.RawMessage) (json.RawMessage, error) {
			return nil, &fault.Error{Kind: fault.Denied, Message: "not allowed", Details: Refusal{Reason: ReasonCapability, Capability: op}}
		})
	},
	"echo":    answering("x"),
	"big":     answering(strings.Repeat("y", 5<<20)),
	"null":    raw("null"),
	"garbage": raw("{\"keys\":[,]}\x00\xff"),
	"proto":   raw(`{"output":{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}}`),
	"then":    raw(`{"output":{"then":1,"toJSON":"x"},"then":1}`),
	// wait answers when the run has ended.
	"wait": func() Host {
		return HostFunc(func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
	},
	// late reacts late to the end of the run.
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

// answering returns a valid answer for each operation; it is created only once, so that it does not
// affect the memory of the process.
func answering(text string) func() Host {
	must := func(v any) func() json.RawMessage {
		return sync.OnceValue(func() json.RawMessage { return input(v) })
	}
	answers := map[string]func() json.RawMessage{
		OpFetch:     must(FetchResponse{Status: 200, URL: "https://x/", Headers: map[string]string{}, Body: text}),
		OpReadText:  must(TextResponse{Text: text}),
		OpList:      must(ListResponse{Entries: []DirEntry{{Name: text}}}),
		OpStateGet:  must(map[string]any{"found": true, "value": text}),
		OpStateKeys: must(KeysResponse{Keys: []string{text}}),
		OpSecret:    must(SecretResponse{Placeholder: text}),
		OpTool:      must(map[string]any{"output": text}),
	}
	return func() Host {
		return HostFunc(func(_ context.Context, op string, _ json.RawMessage) (json.RawMessage, error) {
			if a := answers[op]; a != nil {
				return a(), nil
			}
			return json.RawMessage("{}"), nil
		})
	}
}
