package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/identity"
)

// TestSessionEndIsNotifiedOnce ends a WebSocket session, one of POST /rpc and one that never
// connected: the first two are reported once, with their user and id.
func TestSessionEndIsNotifiedOnce(t *testing.T) {
	t.Parallel()
	ended := make(chan identity.Identity, 10)
	f := setup(t, func(o *Options) {
		o.SessionEnded = func(ctx context.Context, id identity.Identity) {
			if ctx.Err() != nil || identity.UserID(ctx) != id.User {
				t.Error("the context is not the session's, or has ended")
			}
			ended <- id
		}
	})
	f.dial(t, nil).p.(*wsPipe).c.CloseNow() // never connected
	for _, kind := range []string{"websocket", "http"} {
		var id uuid.UUID
		if kind == "websocket" {
			w := f.dial(t, bearer(rootToken))
			w.send(`{"jsonrpc":"2.0","id":1,"method":"session.get","params":{}}`)
			id = sessionIn(t, w.recv())
			w.p.(*wsPipe).c.CloseNow()
		} else {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL()+"/rpc", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"session.get","params":{}}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = bearer(rootToken)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 4096)
			n, _ := resp.Body.Read(b)
			resp.Body.Close()
			id = sessionIn(t, string(b[:n]))
			f.closeWhere(t.Context(), func(ss *session) bool { return ss.conn == id }, 1000, "test")
		}
		select {
		case got := <-ended:
			if got.Session != id || got.User != f.o.User().ID || got.Pipe != kind {
				t.Errorf("%s: told %+v, want session %s", kind, got, id)
			}
		case <-time.After(patience):
			t.Fatalf("the end of the %s session was not told", kind)
		}
	}
	select {
	case id := <-ended:
		t.Errorf("told twice: %+v", id)
	default:
	}
}

// sessionIn returns the id in a result of session.get.
func sessionIn(t *testing.T, frame string) uuid.UUID {
	t.Helper()
	var r struct {
		Result struct{ SessionID uuid.UUID }
	}
	if err := json.Unmarshal([]byte(frame), &r); err != nil || r.Result.SessionID == uuid.Nil {
		t.Fatalf("%s: %v", frame, err)
	}
	return r.Result.SessionID
}
