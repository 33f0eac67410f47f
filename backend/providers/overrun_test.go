package providers

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"helix/backend/fault"
)

// A service that ignores the limit on its answer is hung up on, and nothing asks again: the answer may
// cost more than was reserved by what arrived until then, not by what the service would go on to send.
func TestCallIsCanceledOnceItStreamsPastItsReservation(t *testing.T) {
	t.Parallel()
	const word = `data: {"choices":[{"delta":{"%s":"words "}}]}` + "\n\n"
	for name, first := range map[string]string{
		"text":      "content",
		"reasoning": "reasoning",
		"usage":     "", // the service reports what it counted before it goes on
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tries, hungUp := 0, make(chan struct{})
			e := serve(t, func(w http.ResponseWriter, r *http.Request) {
				tries++
				defer close(hungUp)
				if first == "" {
					_, _ = io.WriteString(w, `data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":101}}`+"\n\n")
				}
				for r.Context().Err() == nil {
					if first == "" {
						_, _ = fmt.Fprintf(w, word, "content")
						w.(http.Flusher).Flush()
						<-r.Context().Done()
						return
					}
					if _, err := fmt.Fprintf(w, word, first); err != nil {
						return
					}
				}
			})
			k := setup(t, map[string]Entry{"a": e, "b": serve(t, func(w http.ResponseWriter, _ *http.Request) { chatAnswer(w, "no") })},
				map[Role]RoleConfig{RoleChat: {Chain: []ModelRef{"a/m", "b/m"}}})
			q := ask("")
			q.Role, q.MaxOutput, q.AllowDiscard = RoleChat, 100, true
			reply, err := k.Complete(t.Context(), q)
			if !fault.Is(err, fault.Limit) || !Overrun(err) || !strings.Contains(err.Error(), "100 tokens") {
				t.Fatal(err)
			}
			<-hungUp
			var text string
			for _, p := range reply.Parts {
				text += p.Text
			}
			if tries != 1 || !strings.HasPrefix(text, "words") {
				t.Errorf("%d tries, %d bytes kept", tries, len(text))
			}
			if k.ledger.open != 0 || len(k.ledger.settled) != 1 || !strings.HasPrefix(k.ledger.settled[0], "failed") {
				t.Errorf("settled %q", k.ledger.settled)
			}
		})
	}
}

// An answer of exactly the length that was asked for is whole, however the service counts it at its end.
func TestAnswerAtItsLimitIsNotCanceled(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("señal ", 100)
	e := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\n", text)
		_, _ = io.WriteString(w, `data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":150}}`+"\n\ndata: [DONE]\n\n")
	})
	k := setup(t, map[string]Entry{"a": e}, nil)
	q := ask("a/m")
	q.MaxOutput = 100
	if reply, err := k.Complete(t.Context(), q); err != nil || reply.Text() != text || reply.Usage.Output != 150 {
		t.Errorf("%d bytes, %+v, %v", len(reply.Text()), reply.Usage, err)
	}
}
