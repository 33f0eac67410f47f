package gateway

import (
	"strings"
	"testing"
)

const helloAll = `{"jsonrpc":"2.0","id":"c","method":"connect","params":{"minProtocol":1,"maxProtocol":1,"client":{"id":"test"},"scopes":["admin"],"auth":{"token":"` + rootToken + `"}}}`

func TestEchoOverWebSocketAndHTTP(t *testing.T) {
	t.Parallel()
	f := setup(t)
	w := f.dial(t, nil)
	if got := w.ask(`{"jsonrpc":"2.0","id":1,"method":"echo","params":{"text":"x"}}`); !strings.Contains(got, `-32001`) {
		t.Fatalf("before connect: %s", got)
	}
	if got := w.ask(helloAll); !strings.Contains(got, `"type":"hello-ok"`) || !strings.Contains(got, `"admin"`) {
		t.Fatalf("hello: %s", got)
	}
	if got := w.ask(`{"jsonrpc":"2.0","id":2,"method":"echo","params":{"text":"x"}}`); !strings.Contains(got, `"id":2,"result":{"text":"x"`) {
		t.Fatalf("echo: %s", got)
	}
	status, got := f.post(t, rootToken, `{"jsonrpc":"2.0","id":3,"method":"old_echo","params":{"text":"y"}}`)
	if status != 200 || !strings.Contains(got, `"text":"y"`) {
		t.Fatalf("post: %d %s", status, got)
	}
	w.send(`{"jsonrpc":"2.0","id":4,"method":"events.subscribe","params":{"topics":["note.*"]}}`)
	w.recv()
	w.send(`{"jsonrpc":"2.0","id":5,"method":"note.add","params":{"n":7}}`)
	if got := w.recv(); !strings.Contains(got, `"method":"note.added"`) || !strings.Contains(got, `"data":{"n":7}`) {
		t.Fatalf("the event comes before the response: %s", got)
	}
	if got := w.recv(); !strings.Contains(got, `"id":5`) {
		t.Fatalf("response: %s", got)
	}
}
