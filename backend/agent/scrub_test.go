package agent

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/otlp"
	"helix/backend/providers"
	"helix/backend/safehttp"
	"helix/backend/storage"
)

// diskOf is a workspace whose files all have the same text.
type diskOf string

func (diskOf) Save(context.Context, callable.Request, string, []byte) (any, error) {
	return nil, fault.Deniedf("This workspace can't be written.")
}
func (d diskOf) Load(context.Context, callable.Request, string, int64) ([]byte, error) {
	return []byte(d), nil
}

// A secret is in no request to a model and in no table, whichever way it enters a chat.
func TestSecretsStayOutOfRequestsAndLogs(t *testing.T) {
	t.Parallel()
	const secret = "hunter-of-the-white-whale"
	first := func(p ...providers.Part) []providers.Reply { return []providers.Reply{{Parts: p}} }
	for name, x := range map[string]struct {
		text    string // of the input
		replies []providers.Reply
		change  func(*Options)
		begin   func(t *testing.T, k *talk, p *SendParams) // before the input, which it may change
	}{
		"an input":           {text: "My key is " + secret},
		"a result":           {replies: first(callOf("1", "probe_read", `{}`))},
		"a note of a result": {replies: first(callOf("1", "probe_note", `{}`))},
		"a failure":          {replies: first(callOf("1", "probe_fail", `{}`))},
		"a memory":           {change: func(o *Options) { o.Memory = recalled("The key is " + secret) }},
		"a file": {begin: func(t *testing.T, k *talk, p *SendParams) {
			got, err := k.Attach(k.ctx, AttachParams{Name: "a.txt", Base64: base64.StdEncoding.EncodeToString([]byte("key: " + secret))})
			if err != nil {
				t.Fatal(err)
			}
			p.Attachments = []AttachmentRef{{Blob: got.Blob, Name: "a.txt"}}
		}},
		"a brief":             {replies: append(first(callOf("1", "probe_read", `{}`)), first(callOf("2", delegateName, `{"goal":"Use `+secret+`","available_tools":["probe_read"]}`))...)},
		"the words of a file": {replies: first(callOf("1", "send_media", `{"path":"/shared/a","text":"`+secret+`"}`)), change: func(o *Options) { o.Files = diskOf("An image.") }},
		"an agent of a skill": {begin: func(t *testing.T, k *talk, _ *SendParams) {
			if _, err := k.Provider().Call(k.ctx, callable.Ref{Kind: Kind, ID: DefaultAgent}, callable.Request{Input: []byte(`{"prompt":"Use ` + secret + `"}`), Caller: callable.Caller{Kind: "skill", Label: "S"}}); err != nil {
				t.Error(err)
			}
		}},
		"a prompt of a skill": {begin: func(t *testing.T, k *talk, _ *SendParams) {
			if _, err := k.complete(k.ctx, callable.Request{}, completeParams{Prompt: "Use " + secret}); err != nil {
				t.Error(err)
			}
		}},
		"an imported chat": {begin: func(t *testing.T, k *talk, p *SendParams) {
			lines := importHead + "\n" + messageLine("1", "user", `{"kind":"text","text":"`+secret+`"}`) + "\n" + messageLine("1", "assistant", `{"kind":"text","text":"Yes."}`) + "\n"
			made, err := k.Import(k.ctx, "chat.jsonl", strings.NewReader(lines))
			if err != nil {
				t.Fatal(err)
			}
			p.SessionID = made.Session.ID
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var requests strings.Builder
			step := 0
			reg, set := callable.NewRegistry(nil), callable.NewSet(callable.Builtin, nil)
			reg.Add(set)
			read := callable.Effects{ReadOnly: true}
			set.Add(callable.Func{Info: callable.Info{Name: "probe.read", Effects: read}, Run: func(context.Context, callable.Request) (any, error) { return secret, nil }})
			set.Add(callable.Func{Info: callable.Info{Name: "probe.note", Effects: read}, Run: func(context.Context, callable.Request) (any, error) {
				return callable.Result{Output: []byte(`"Done"`), Notes: []string{"used " + secret}}, nil
			}})
			set.Add(callable.Func{Info: callable.Info{Name: "probe.fail", Effects: read}, Run: func(context.Context, callable.Request) (any, error) {
				return nil, fault.Invalidf("The service refused %s.", secret)
			}})
			k := newTalk(t, spoken{window: assumedWindow, answer: func(_ context.Context, q providers.Request) (providers.Reply, error) {
				mu.Lock()
				defer mu.Unlock()
				for _, m := range q.Messages {
					if m.Role != providers.Assistant { // what the model wrote itself is not hidden from it
						fmt.Fprintf(&requests, "%+v\n", m)
					}
				}
				if step++; step > len(x.replies) {
					return answered("Done.")
				}
				return x.replies[step-1], nil
			}}, func(o *Options) {
				o.Callables = reg
				o.Scrub = func(_ context.Context, text string) string { return strings.ReplaceAll(text, secret, "[secret KEY]") }
				if x.change != nil {
					x.change(o)
				}
			})
			session := k.begin()
			p := SendParams{SessionID: session, Text: "Go on. " + x.text}
			if x.begin != nil {
				x.begin(t, k, &p)
			}
			sent, err := k.Send(k.ctx, p)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := k.Wait(k.ctx, WaitParams{TurnID: sent.TurnID, WaitMs: longestWait.Milliseconds()}); err != nil || got.Turn.State != Completed {
				t.Fatalf("%+v, %v", got.Turn, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if text := requests.String(); strings.Contains(text, secret) {
				t.Errorf("a request has the secret: %s", text)
			}
			var kept int // also in the calls of the model, which had it from elsewhere
			if err := k.db.Read(k.ctx, func(tx *storage.Tx) error {
				return tx.QueryRow(`SELECT (SELECT count(*) FROM conversation_events WHERE type <> 'reply' AND instr(payload_json, ?1)) + (SELECT count(*) FROM session_messages WHERE role <> 'assistant' AND instr(content, ?1))`, secret).Scan(&kept)
			}); err != nil || kept > 0 {
				t.Errorf("%d rows have the secret, %v", kept, err)
			}
		})
	}
}

// What a model writes itself is kept as it is in the chat, which it cannot leave, but a summary and what is
// sent to a collector of traces have no secret.
func TestSummariesAndTracesKeepNoSecret(t *testing.T) {
	t.Parallel()
	const secret = "hunter-of-the-white-whale"
	var mu sync.Mutex
	var traces strings.Builder
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		traces.Write(body)
	}))
	defer server.Close()
	client := safehttp.New(safehttp.Options{AllowLoopback: func(int) bool { return true }})
	defer client.Close()
	out := otlp.New(otlp.Options{Endpoint: server.URL, HTTP: client})
	k := newTalk(t, spoken{window: 6000, answer: func(context.Context, providers.Request) (providers.Reply, error) {
		return answered("As I know, the key is " + secret + ". " + strings.Repeat("Aye aye. ", 30))
	}}, func(o *Options) {
		o.Scrub = func(_ context.Context, text string) string { return strings.ReplaceAll(text, secret, "[secret KEY]") }
		o.Telemetry = &Telemetry{Out: out, Content: true}
	})
	session := k.begin()
	l, err := k.session(k.ctx, session)
	if err != nil {
		t.Fatal(err)
	}
	summary := ""
	for n := 0; n < 60 && !strings.Contains(summary, "As I know"); n++ {
		k.say(session, strings.Repeat("The calm sea, ", 40))
		l.mu.Lock()
		summary = l.state.Summary
		l.mu.Unlock()
	}
	if !strings.Contains(summary, "[secret KEY]") || strings.Contains(summary, secret) {
		t.Errorf("the summary: %s", summary)
	}
	out.Send(t.Context())
	mu.Lock()
	defer mu.Unlock()
	if text := traces.String(); !strings.Contains(text, "[secret KEY]") || strings.Contains(text, secret) {
		t.Errorf("%d bytes of traces with the secret or without its place", len(text))
	}
}
