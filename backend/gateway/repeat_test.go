package gateway

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/storage"
	"helix/backend/testkit"
)

type countParams struct {
	N    int    `json:"n"`
	Fail string `json:"fail,omitempty"`
}

type counted struct {
	N   int `json:"n"`
	Run int `json:"run"`
}

// counting adds a method that counts how often it ran.
func counting(f *fixture, runs *atomic.Int64, hold chan struct{}) {
	Handle(f.api, "count.up", Write, func(ctx context.Context, p countParams) (counted, error) {
		run := int(runs.Add(1))
		if hold != nil {
			<-hold
		}
		if p.Fail != "" {
			return counted{}, fault.New(fault.Kind(p.Fail), "it failed")
		}
		return counted{p.N, run}, nil
	})
}

func countCall(id int, key uuid.UUID, n int, fail string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"count.up","params":{"n":%d,"fail":%q,"_meta":{"idempotencyKey":%q}}}`, id, n, fail, key)
}

func TestSameKeyRunsOnce(t *testing.T) {
	t.Parallel()
	f := setup(t, withDB(t))
	var runs atomic.Int64
	counting(f, &runs, nil)
	a, b := f.memory(t, f.owner()), f.memory(t, f.owner())
	key := uuid.New()
	first := a.ask(countCall(1, key, 5, ""))
	again := b.ask(countCall(1, key, 5, ""))
	if first != again || runs.Load() != 1 || !strings.Contains(first, `"run":1`) {
		t.Fatalf("%s and %s after %d runs", first, again, runs.Load())
	}
	if got := shapeOf(t, b.ask(countCall(2, key, 6, ""))); got != "2:-32004" {
		t.Errorf("other params: %s", got)
	}
	// Key order and white space of the params do not make it another call.
	if got := b.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"count.up","params":{ "_meta":{"idempotencyKey":%q}, "fail":"" , "n" : 5}}`, key)); got != first {
		t.Errorf("reordered: %s", got)
	}
	// An error is not stored: the call may be retried.
	key = uuid.New()
	a.ask(countCall(3, key, 1, "unavailable"))
	if got := shapeOf(t, a.ask(countCall(4, key, 1, "unavailable"))); got != "4:-32000" || runs.Load() != 3 {
		t.Errorf("after an error: %s, %d runs", got, runs.Load())
	}
	if got := a.ask(`{"jsonrpc":"2.0","id":5,"method":"echo","params":{"text":"x","_meta":{"idempotencyKey":"nope"}}}`); shapeOf(t, got) != "5:-32602" || !strings.Contains(got, "_meta") {
		t.Errorf("bad key: %s", got)
	}
	if got := a.ask(`{"jsonrpc":"2.0","id":6,"method":"echo","params":{"text":"x","_meta":{"idemKey":"nope"}}}`); shapeOf(t, got) != "6:-32602" {
		t.Errorf("unknown _meta field: %s", got)
	}
}

func TestSameKeyFromTwoSocketsAtOnce(t *testing.T) {
	t.Parallel()
	f := setup(t, withDB(t))
	var runs atomic.Int64
	hold := make(chan struct{})
	counting(f, &runs, hold)
	key := uuid.New()
	answers := make(chan string, 8)
	var wg sync.WaitGroup
	for range 8 {
		w := f.connected(t)
		wg.Go(func() { answers <- w.ask(countCall(1, key, 1, "")) })
	}
	conflicts := 0
	for range 7 { // all but the running one
		got := <-answers
		if shapeOf(t, got) != "1:-32004" || !strings.Contains(got, "retryAfterMs") {
			t.Fatalf("while it runs: %s", got)
		}
		conflicts++
	}
	close(hold)
	wg.Wait()
	if got := <-answers; !strings.Contains(got, `"run":1`) || runs.Load() != 1 || conflicts != 7 {
		t.Fatalf("%s after %d runs", got, runs.Load())
	}
}

func TestAnswerIsKeptWhenTheConnectionDies(t *testing.T) {
	t.Parallel()
	f := setup(t, withDB(t))
	var runs atomic.Int64
	hold := make(chan struct{})
	counting(f, &runs, hold)
	key := uuid.New()
	server, client := MemoryPipe()
	done := make(chan error, 1)
	go func() { done <- f.Serve(context.Background(), server, f.owner()) }()
	w := &wire{t, client}
	w.send(countCall(1, key, 9, ""))
	testkit.Eventually(t, "runs", runs.Load, func(n int64) bool { return n > 0 }) // there is no event for the start of a call
	client.Close(1000, "")
	close(hold)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := f.memory(t, f.owner()).ask(countCall(1, key, 9, "")); !strings.Contains(got, `"result":{"n":9,"run":1}`) || runs.Load() != 1 {
		t.Fatalf("%s after %d runs", got, runs.Load())
	}
}

func TestInterruptedCallIsNotDoneTwice(t *testing.T) {
	t.Parallel()
	f := setup(t, withDB(t))
	var runs atomic.Int64
	counting(f, &runs, nil)
	key := uuid.New()
	w := f.memory(t, f.owner())
	w.ask(countCall(1, key, 1, ""))
	// The state after the program died during the call.
	err := f.o.DB.Write(t.Context(), func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE rpc_idempotency SET response = NULL WHERE key = ?`, key)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := w.ask(countCall(2, key, 1, "")); shapeOf(t, got) != "2:-32004" || runs.Load() != 1 {
		t.Fatalf("%s after %d runs", got, runs.Load())
	}
}

func TestSecretsAndHugeAnswersAreNotKept(t *testing.T) {
	t.Parallel()
	f := setup(t, withDB(t))
	w := f.memory(t, f.owner())
	ask := func(id int) string {
		return w.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tokens.create","params":{"name":"x","scopes":["read"],"_meta":{"idempotencyKey":"0190a000-0000-7000-8000-00000000bbbb"}}}`, id))
	}
	if got := shapeOf(t, ask(1)); got != "1:ok" {
		t.Fatal(got)
	}
	if got := ask(2); shapeOf(t, got) != "2:-32004" || !strings.Contains(got, "already completed") {
		t.Fatal(got)
	}
	if got := w.ask(`{"jsonrpc":"2.0","id":3,"method":"tokens.list"}`); !strings.Contains(got, `"total":1`) {
		t.Fatalf("made twice: %s", got)
	}
}

func TestKeptCallsAreBounded(t *testing.T) {
	t.Parallel()
	f := setup(t, withDB(t))
	err := f.o.DB.Write(t.Context(), func(tx *storage.Tx) error {
		for i := range keptCalls + 500 {
			at := tx.Now.Add(-time.Duration(i) * time.Second)
			if i < 10 {
				at = tx.Now.Add(-25 * time.Hour)
			}
			if _, err := tx.Exec(`INSERT INTO rpc_idempotency VALUES (?, ?, 'm', ?, x'', ?)`, f.o.User().ID, uuid.New(), [32]byte{}, at); err != nil {
				return err
			}
		}
		return pruneRepeats(tx)
	})
	if err != nil {
		t.Fatal(err)
	}
	err = f.o.DB.Read(t.Context(), func(tx *storage.Tx) error {
		var n, old int
		if err := tx.QueryRow(`SELECT count(*), coalesce(sum(created_at < ?), 0) FROM rpc_idempotency`, tx.Now.Add(-keptFor)).Scan(&n, &old); err != nil {
			return err
		}
		if n > keptCalls || n < keptCalls-500 || old > 0 {
			t.Errorf("%d rows, %d too old", n, old)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
