package sandbox

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestQueueTakesUsersInTurn has one worker.
func TestQueueTakesUsersInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1, 4)
		p := &Program{}
		if err := q.acquire(t.Context(), workerKey{"a", p}); err != nil {
			t.Fatal(err)
		}
		var order []string // one run at a time appends
		wait := func(ctx context.Context, user, name string) {
			go func() {
				k := workerKey{user, p}
				if q.acquire(ctx, k) == nil {
					order = append(order, name)
					q.release(k)
				}
			}()
			synctest.Wait() // until it is queued
		}
		wait(t.Context(), "a", "a1")
		wait(t.Context(), "a", "a2")
		wait(t.Context(), "b", "b1")
		gone, cancel := context.WithCancel(t.Context())
		wait(gone, "c", "c1")
		if err := q.acquire(t.Context(), workerKey{"d", p}); err == nil || err.Class != ClassUnavailable {
			t.Errorf("a full queue gives %v", err)
		}
		cancel()
		synctest.Wait()
		q.release(workerKey{"a", p})
		synctest.Wait()
		if got := strings.Join(order, " "); got != "a1 b1 a2" {
			t.Errorf("order = %s, want users in turn", got)
		}
		checkEmpty(t, q)
	})
}

func checkEmpty(t *testing.T, q *queue) {
	t.Helper()
	if busy, n := q.counts(); busy != 0 || n != 0 || len(q.lines) != 0 || len(q.users) != 0 || len(q.holding) != 0 {
		t.Errorf("left: %d busy, %d waiting, %d programs", busy, n, len(q.holding))
	}
}

// TestQueueAdmitsOtherProgramsBesideEndlessOnes checks that with all workers taken, a program
// without a worker gets an extra one, a program with one does not, and the number of extra workers
// is limited.
func TestQueueAdmitsOtherProgramsBesideEndlessOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(4, 16)
		key := func(p *Program) workerKey { return workerKey{"a", p} }
		endless, b, c, d := &Program{name: "endless"}, &Program{name: "b"}, &Program{name: "c"}, &Program{name: "d"}
		for range 4 {
			if err := q.acquire(t.Context(), key(endless)); err != nil {
				t.Fatal(err)
			}
		}
		var mu sync.Mutex
		var admitted []string
		var ended [5]chan struct{}
		for i, p := range []*Program{endless, b, b, c, d} {
			ended[i] = make(chan struct{})
			go func() {
				if q.acquire(t.Context(), key(p)) == nil {
					mu.Lock()
					admitted = append(admitted, p.name)
					mu.Unlock()
					<-ended[i]
					q.release(key(p))
				}
			}()
			time.Sleep(time.Millisecond) // they become late one after the other
		}
		want := func(when string, names ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(admitted, names) {
				t.Errorf("%s %q have a worker, want %q", when, admitted, names)
			}
		}
		want("at first")
		time.Sleep(2 * queuePatience)
		want("after a while", "b", "c")
		close(ended[1])
		want("after b", "b", "c", "b")
		close(ended[2])
		want("after b again", "b", "c", "b", "d")
		close(ended[4])
		close(ended[3])
		want("when only endless ones run", "b", "c", "b", "d")
		q.release(key(endless))
		want("when an endless one has ended", "b", "c", "b", "d", "endless")
		close(ended[0])
		for range 3 {
			q.release(key(endless))
		}
		synctest.Wait()
		checkEmpty(t, q)
	})
}

// TestRunIsAdmittedWhileEndlessRunsHoldAllWorkers tests the same with whole runs.
func TestRunIsAdmittedWhileEndlessRunsHoldAllWorkers(t *testing.T) {
	t.Parallel()
	e, err := Open(t.Context(), Options{Workers: 2, Idle: -1, CacheDir: sharedCache})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	program := func(text string) *Program {
		p, err := e.CompileJS(t.Context(), Source{Text: text})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	endless, short := program("await helix.state.keys(); for (;;) {}"), program("return 'short'")
	ctx, cancel := context.WithCancel(t.Context())
	begun, ended := make(chan struct{}), make(chan error, 2)
	host := HostFunc(func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		begun <- struct{}{}
		return json.RawMessage(`{"keys":[]}`), nil
	})
	for range 2 {
		go func() {
			_, err := e.Execute(ctx, endless, Call{Host: host})
			ended <- err
		}()
		<-begun
	}
	if res, err := e.Execute(t.Context(), short, Call{}); err != nil || string(res.Output) != `"short"` {
		t.Errorf("%s, %v", res.Output, err)
	}
	if n := len(ended); n > 0 {
		t.Errorf("%d endless runs had ended before the short one was admitted", n)
	}
	cancel()
	<-ended
	<-ended
}
