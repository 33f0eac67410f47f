package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/identity"
)

// heardEvent is a received event.
type heardEvent struct {
	Seq uint64
	N   int
}

// event waits for the next notification of note.added.
func (w *wire) event() heardEvent {
	w.t.Helper()
	for {
		var m struct {
			Method string
			Params struct {
				Seq  uint64
				Time time.Time
				Data noted
			}
		}
		f := w.recv()
		if err := json.Unmarshal([]byte(f), &m); err != nil {
			w.t.Fatal(err)
		}
		if m.Method == "note.added" {
			if m.Params.Time.IsZero() || m.Params.Seq == 0 {
				w.t.Fatalf("incomplete event: %s", f)
			}
			return heardEvent{m.Params.Seq, m.Params.Data.N}
		}
	}
}

func (f *fixture) add(n int) { bus.Publish(f.bus, f.o.User().ID, noted{n}) }

func state(t *testing.T, frame string) (s ResumeResult) {
	t.Helper()
	var m struct{ Result *ResumeResult }
	if err := json.Unmarshal([]byte(frame), &m); err != nil || m.Result == nil {
		t.Fatalf("no result: %s", frame)
	}
	return *m.Result
}

func TestSubscribeAndUnsubscribe(t *testing.T) {
	t.Parallel()
	overPipes(t, func(t *testing.T, f *fixture, w *wire) {
		f.add(1) // published before, so not received
		st := state(t, w.ask(`{"jsonrpc":"2.0","id":1,"method":"events.subscribe","params":{"topics":["note.*"]}}`))
		if st.Seq != 1 || st.Epoch != f.epoch {
			t.Fatalf("state %+v", st)
		}
		f.add(2)
		if got := w.event(); got != (heardEvent{2, 2}) {
			t.Fatalf("got %+v", got)
		}
		w.ask(`{"jsonrpc":"2.0","id":2,"method":"events.unsubscribe","params":{"topics":["note.*"]}}`)
		f.add(3)
		if got := shapeOf(t, w.ask(`{"jsonrpc":"2.0","id":3,"method":"session.get"}`)); got != "3:ok" {
			t.Fatalf("an event after unsubscribe, or no answer: %s", got)
		}
		for _, bad := range []string{`"nothing.such"`, `"note"`, `"Note.*"`, `"*.added"`, `""`, `"note.added*"`} {
			if got := shapeOf(t, w.ask(`{"jsonrpc":"2.0","id":4,"method":"events.subscribe","params":{"topics":[`+bad+`]}}`)); got != "4:-32008" {
				t.Errorf("topic %s: %s", bad, got)
			}
		}
		many := strings.TrimSuffix(strings.Repeat(`"note.added",`, 65), ",")
		if got := shapeOf(t, w.ask(`{"jsonrpc":"2.0","id":5,"method":"events.subscribe","params":{"topics":[`+many+`]}}`)); got != "5:-32008" {
			t.Errorf("65 topics: %s", got)
		}
	})
}

func TestEventsNeedAConnection(t *testing.T) {
	t.Parallel()
	f := setup(t)
	if status, got := f.post(t, rootToken, `{"jsonrpc":"2.0","id":1,"method":"events.subscribe","params":{"topics":["note.*"]}}`); status != 422 {
		t.Fatalf("%d %s", status, got)
	}
}

// TestEventBeforeItsResponse also checks the order with many concurrent calls.
func TestEventBeforeItsResponse(t *testing.T) {
	t.Parallel()
	overPipes(t, func(t *testing.T, _ *fixture, w *wire) {
		w.ask(`{"jsonrpc":"2.0","id":"s","method":"events.subscribe","params":{"topics":["note.added"]}}`)
		for i := range 50 {
			w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"note.add","params":{"n":%d}}`, i, i))
		}
		seen := map[int]bool{}
		for range 100 {
			var m struct {
				ID     *int
				Method string
				Params struct{ Data noted }
			}
			if err := json.Unmarshal([]byte(w.recv()), &m); err != nil {
				t.Fatal(err)
			}
			if m.Method != "" {
				seen[m.Params.Data.N] = true
			} else if !seen[*m.ID] {
				t.Fatalf("response %d before its event", *m.ID)
			}
		}
	})
}

func TestEventsReachOnlyTheirUser(t *testing.T) {
	t.Parallel()
	f := setup(t)
	other := uuid.New()
	b := f.memory(t, identity.Identity{User: other, Scopes: Admin, Client: identity.ClientWindow})
	b.ask(`{"jsonrpc":"2.0","id":1,"method":"events.subscribe","params":{"topics":["*"]}}`)
	for i := range 20 {
		f.add(i)
	}
	bus.Publish(f.bus, uuid.Nil, noted{99}) // belongs to no user, so no one receives it
	var m struct{ Result EventsState }
	got := b.ask(`{"jsonrpc":"2.0","id":2,"method":"events.unsubscribe","params":{"topics":[]}}`)
	for strings.Contains(got, "sessions.changed") {
		got = b.recv()
	}
	if err := json.Unmarshal([]byte(got), &m); err != nil || strings.Contains(got, "note.added") {
		t.Fatalf("B heard %s", got)
	}
	if n := m.Result.Seq; n != 0 {
		t.Fatalf("events of A were counted for B: seq %d", n)
	}
}

func TestResumeRefusals(t *testing.T) {
	t.Parallel()
	f := setup(t, func(o *Options) { o.Limits.ReplayEvents = 10 })
	for i := range 30 {
		f.add(i)
	}
	ask := func(params string) ResumeResult {
		w := f.memory(t, f.owner())
		st := state(t, w.ask(`{"jsonrpc":"2.0","id":1,"method":"events.resume","params":`+params+`}`))
		f.add(100) // live in any case
		if got := w.event(); got.N != 100 {
			t.Errorf("%s: after resume came %+v", params, got)
		}
		return st
	}
	for _, p := range []string{`{"epoch":"other","afterSeq":29,"topics":["note.*"]}`, `{"epoch":"` + f.epoch + `","afterSeq":3,"topics":["note.*"]}`,
		`{"epoch":"` + f.epoch + `","afterSeq":900,"topics":["note.*"]}`} {
		if st := ask(p); !st.Gap || st.Replayed != 0 {
			t.Errorf("%s: %+v", p, st)
		}
	}
	w := f.memory(t, f.owner())
	if got := shapeOf(t, w.ask(`{"jsonrpc":"2.0","id":1,"method":"events.resume","params":{"epoch":"`+f.epoch+`","afterSeq":25}}`)); got != "1:-32008" {
		t.Errorf("without topics: %s", got)
	}
}

// TestResumeProperty disconnects at random; in the end the client has received what was published,
// in order and without duplicates.
func TestResumeProperty(t *testing.T) {
	t.Parallel()
	f := setup(t, func(o *Options) { o.Limits.QueueEvents = 8; o.Limits.ReplayEvents = 10_000 })
	const total = 2000
	rng := rand.New(rand.NewPCG(1, 2))
	published := make(chan struct{})
	go func() {
		defer close(published)
		for i := range total {
			f.add(i + 1)
		}
	}()
	var after uint64
	var got []int
	for len(got) < total {
		server, client := MemoryPipe()
		var wg sync.WaitGroup
		wg.Go(func() { _ = f.Serve(context.Background(), server, f.owner()) })
		w := &wire{t, client}
		w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"events.resume","params":{"epoch":%q,"afterSeq":%d,"topics":["note.added"]}}`, f.epoch, after))
		for range 1 + rng.IntN(300) {
			frame := w.recv()
			if strings.Contains(frame, `"gap":true`) {
				t.Fatalf("gap: %s", frame)
			}
			if strings.Contains(frame, "events.gap") {
				break // the queue of 8 was full: resume after the last received event
			}
			var m struct {
				Method string
				Params struct {
					Seq  uint64
					Data noted
				}
			}
			if err := json.Unmarshal([]byte(frame), &m); err != nil {
				t.Fatal(err)
			}
			if m.Method != "" {
				got = append(got, m.Params.Data.N)
				after = m.Params.Seq
			} else if len(got) >= total {
				break
			}
			if len(got) >= total {
				break
			}
		}
		client.Close(1000, "")
		wg.Wait()
	}
	<-published
	for i, n := range got {
		if n != i+1 {
			t.Fatalf("event %d is %d", i+1, n)
		}
	}
	if len(got) != total {
		t.Fatalf("heard %d of %d", len(got), total)
	}
}

// TestSlowClientLosesOnlyItsOwn stalls one client while another reads 10,000 events.
func TestSlowClientLosesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	f := setup(t, func(o *Options) { o.Limits.QueueEvents = 100; o.Limits.ReplayEvents = 20_000 })
	slow, fast := f.memory(t, f.owner()), f.memory(t, f.owner())
	for _, w := range []*wire{slow, fast} {
		w.ask(`{"jsonrpc":"2.0","id":1,"method":"events.subscribe","params":{"topics":["note.added"]}}`)
	}
	const total = 10_000
	heard := make(chan int)
	go func() {
		n := 0
		for n < total {
			if fast.event().N != n {
				break
			}
			n++
			heard <- n
		}
		close(heard)
	}()
	n := 0
	for i := range total {
		f.add(i)
		if i%50 == 49 { // the fast one keeps up, so that only the stalled one falls behind
			for n <= i {
				n = <-heard
			}
		}
	}
	for range heard {
		n = total
	}
	if n != total {
		t.Fatalf("the fast client heard %d events", n)
	}
	// The stalled one receives what was queued, then one gap that reports exactly what is missing.
	next := 0
	for {
		frame := slow.recv()
		if strings.Contains(frame, "events.gap") {
			var m struct{ Params struct{ Data EventsGap } }
			if err := json.Unmarshal([]byte(frame), &m); err != nil {
				t.Fatal(err)
			}
			if want := (EventsGap{uint64(next + 1), total}); m.Params.Data != want {
				t.Fatalf("gap %+v, want %+v", m.Params.Data, want)
			}
			break
		}
		if !strings.Contains(frame, fmt.Sprintf(`{"n":%d}`, next)) {
			t.Fatalf("event %d is %s", next, frame)
		}
		next++
	}
	if next > 100+16+2*maxWrite {
		t.Fatalf("%d events were held for the stalled client", next)
	}
	// The dropped events are still in the replay buffer.
	slow.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"events.resume","params":{"epoch":%q,"afterSeq":%d}}`, f.epoch, next))
	for ; next < total; next++ {
		if got := slow.event(); got.N != next {
			t.Fatalf("replayed %+v, want %d", got, next)
		}
	}
	if st := state(t, slow.recv()); st.Gap || st.Seq < total {
		t.Fatalf("%+v", st)
	}
}

// TestTransientEventsAreNotNumberedNorReplayed sends a transient event between two others.
func TestTransientEventsAreNotNumberedNorReplayed(t *testing.T) {
	t.Parallel()
	overPipes(t, func(t *testing.T, f *fixture, w *wire) {
		st := state(t, w.ask(`{"jsonrpc":"2.0","id":1,"method":"events.subscribe","params":{"topics":["note.*"]}}`))
		f.add(1)
		bus.Publish(f.bus, f.o.User().ID, loudness{7})
		f.add(2)
		if got := w.event(); got != (heardEvent{1, 1}) {
			t.Fatalf("heard %+v", got)
		}
		if frame := w.recv(); !strings.Contains(frame, `"method":"note.level","params":{"seq":0,`) || !strings.Contains(frame, `{"n":7}`) {
			t.Fatalf("heard %s", frame)
		}
		if got := w.event(); got != (heardEvent{2, 2}) {
			t.Fatalf("heard %+v", got)
		}
		w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"events.resume","params":{"epoch":%q,"afterSeq":0}}`, st.Epoch))
		for n := 1; n <= 2; n++ {
			if frame := w.recv(); !strings.Contains(frame, "note.added") {
				t.Fatalf("replayed %s", frame)
			}
		}
		if r := state(t, w.recv()); r.Replayed != 2 || r.Gap {
			t.Fatalf("%+v", r)
		}
	})
}

// TestLostTransientEventsAreNoGap floods a client that reads nothing.
func TestLostTransientEventsAreNoGap(t *testing.T) {
	t.Parallel()
	f := setup(t, func(o *Options) { o.Limits.QueueEvents = 10 })
	slow := f.memory(t, f.owner())
	slow.ask(`{"jsonrpc":"2.0","id":1,"method":"events.subscribe","params":{"topics":["note.*"]}}`)
	for n := range 1000 {
		bus.Publish(f.bus, f.o.User().ID, loudness{n})
	}
	slow.send(`{"jsonrpc":"2.0","id":2,"method":"session.get","params":{}}`)
	for {
		frame := slow.recv()
		if strings.Contains(frame, "events.gap") {
			t.Fatal("lost transient events are reported as a gap")
		}
		if strings.Contains(frame, `"id":2`) {
			return
		}
	}
}

func TestReplayBufferIsBounded(t *testing.T) {
	t.Parallel()
	f := setup(t)
	h := f.hubOf(f.o.User().ID)
	big := strings.Repeat("x", 100_000)
	for range 200 {
		h.publish("note.added", []byte(`"`+big+`"`))
	}
	for range 10_000 {
		h.publish("note.added", []byte(`{}`))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n > f.o.Limits.ReplayEvents || h.bytes > f.o.Limits.ReplayBytes || len(h.kept) > f.o.Limits.ReplayEvents {
		t.Fatalf("%d events, %d bytes, ring of %d", h.n, h.bytes, len(h.kept))
	}
}

func TestTopicMatching(t *testing.T) {
	t.Parallel()
	var s subscription
	s.add([]string{"memory.*", "tools.changed"})
	for topic, want := range map[string]bool{"memory.changed": true, "memory.a.b": true, "memory": false, "tools.changed": true, "tools.changed2": false, "tools.x": false} {
		if s.matches(topic) != want {
			t.Errorf("%s: %v", topic, !want)
		}
	}
	s.add([]string{"memory.*"})
	if s.count() != 2 {
		t.Errorf("doubled pattern: %d", s.count())
	}
	s.remove([]string{"memory.*", "tools.changed"})
	if s.count() != 0 || s.matches("memory.changed") {
		t.Error("not removed")
	}
}

// TestOverrunDuringReplay overruns the replay buffer while a client is too slow to receive what it
// requested: missed events are reported, nothing is skipped silently.
func TestOverrunDuringReplay(t *testing.T) {
	t.Parallel()
	f := setup(t, func(o *Options) { o.Limits.QueueEvents = 4; o.Limits.ReplayEvents = 60 })
	for i := range 60 {
		f.add(i)
	}
	w := f.memory(t, f.owner())
	w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"events.resume","params":{"epoch":%q,"afterSeq":0,"topics":["note.added"]}}`, f.epoch))
	first := w.recv() // the replay has started
	if !strings.Contains(first, `"seq":1,`) {
		t.Fatal(first)
	}
	const total = 260
	for i := 60; i < total; i++ {
		f.add(i)
	}
	gaps := 0
	for next := uint64(2); next <= total; {
		frame := w.recv()
		var m struct {
			Method string
			Params struct {
				Seq  uint64
				Data EventsGap
			}
		}
		if err := json.Unmarshal([]byte(frame), &m); err != nil {
			t.Fatal(err)
		}
		switch m.Method {
		case "note.added":
			if m.Params.Seq != next {
				t.Fatalf("event %d where %d was due", m.Params.Seq, next)
			}
			next++
		case "events.gap":
			if m.Params.Data.FromSeq != next || m.Params.Data.ToSeq < next {
				t.Fatalf("gap %+v where %d was due", m.Params.Data, next)
			}
			next = m.Params.Data.ToSeq + 1
			gaps++
		}
	}
	if gaps == 0 {
		t.Fatal("the buffer was not overrun: the test shows nothing")
	}
}
