package gateway

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"helix/backend/testkit"
)

// TestSlowCallsOfAQuickMethodDelayNobody marks a method as quick, so that its calls run on the
// reader, and then makes some of them block: the following calls are answered at once, the blocked
// ones can be canceled, and they are answered when they end.
func TestSlowCallsOfAQuickMethodDelayNobody(t *testing.T) {
	t.Parallel()
	f := setup(t)
	w := f.dial(t, bearer(rootToken))
	quick := func(n int) {
		t.Helper()
		var frames [][]byte
		for i := range n {
			frames = append(frames, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"wait.maybe","params":{}}`, i+100))
		}
		if err := w.p.(*wsPipe).WriteBatch(t.Context(), frames); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for range n {
			seen[w.recv()] = true
		}
		if len(seen) != n {
			t.Fatalf("%d different answers to %d calls", len(seen), n)
		}
	}
	for range 20 {
		quick(40)
		f.api.methods["wait.maybe"].pace.mean.Store(0) // regardless of how long it took on this machine
	}
	for id := range 3 { // the first blocks the reader, the next ones find a slow method or a new reader
		w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"wait.maybe","params":{"wait":true}}`, id))
		<-f.began
		f.api.methods["wait.maybe"].pace.mean.Store(0)
		quick(10)
	}
	w.send(`{"jsonrpc":"2.0","method":"rpc.cancel","params":{"ids":[1]}}`)
	if got := w.recv(); !strings.Contains(got, `"id":1,`) || !strings.Contains(got, "CANCELED") {
		t.Fatal(got)
	}
	close(f.block)
	got := w.recv() + w.recv()
	if !strings.Contains(got, `"id":0,"result"`) || !strings.Contains(got, `"id":2,"result"`) {
		t.Fatal(got)
	}
	quick(5)
}

// TestSessionEndsWithABlockedReader closes a session whose reader runs a call: the call is canceled
// and the session ends.
func TestSessionEndsWithABlockedReader(t *testing.T) {
	t.Parallel()
	f := setup(t)
	w := f.dial(t, bearer(rootToken))
	w.ask(`{"jsonrpc":"2.0","id":1,"method":"wait.maybe","params":{}}`)
	f.api.methods["wait.maybe"].pace.samples.Store(paceSamples)
	f.api.methods["wait.maybe"].pace.mean.Store(0)
	w.send(`{"jsonrpc":"2.0","id":2,"method":"wait.maybe","params":{"wait":true}}`)
	<-f.began
	w.p.(*wsPipe).c.CloseNow()
	testkit.Eventually(t, "open sessions", func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.sessions)
	}, func(n int) bool { return n == 0 })
}

func TestPaceForgetsOutliers(t *testing.T) {
	t.Parallel()
	p := &pace{}
	for range paceSamples {
		if p.quick() {
			t.Fatal("quick without having been measured")
		}
		p.took(time.Microsecond)
	}
	p.took(time.Second)
	for range 8 {
		p.took(time.Microsecond)
	}
	if !p.quick() {
		t.Fatal("one outlier makes a method slow for long")
	}
	p.stuck()
	if p.quick() {
		t.Fatal("still quick after a call was stuck")
	}
}
