package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/providers"
	"helix/backend/storage"
)

// busyTurns watches, from outside the log, which turns of a session call models and tools.
type busyTurns struct {
	mu      sync.Mutex
	session map[uuid.UUID]uuid.UUID         // of a turn
	active  map[uuid.UUID]map[uuid.UUID]int // turns by session, with their calls under way
	two     []string
}

func (b *busyTurns) enter(turn uuid.UUID) (leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.session[turn]
	if b.active[s] == nil {
		b.active[s] = map[uuid.UUID]int{}
	}
	b.active[s][turn]++
	if len(b.active[s]) > 1 {
		b.two = append(b.two, fmt.Sprintf("session %s: %v", s, b.active[s]))
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.active[s][turn]--; b.active[s][turn] == 0 {
			delete(b.active[s], turn)
		}
	}
}

// oneTurn is the oracle of a log: it knows only that a turn begins when none is active, that nothing
// belongs to another turn than the active one, and that each input is answered or withdrawn once.
type oneTurn struct {
	active uuid.UUID
	inputs map[uuid.UUID]string // "": waiting
}

func (o *oneTurn) end(input uuid.UUID, how string) error {
	if was, known := o.inputs[input]; !known || was != "" {
		return fmt.Errorf("input %s is %s after it was %q (known: %v)", input, how, was, known)
	}
	o.inputs[input] = how
	return nil
}

func (o *oneTurn) read(e Event) error {
	switch b := e.Body.(type) {
	case *input:
		if _, known := o.inputs[e.Turn]; known {
			return fmt.Errorf("input %s is accepted twice", e.Turn)
		}
		o.inputs[e.Turn] = ""
		return nil
	case *withdrawn:
		return o.end(e.Turn, "withdrawn")
	case *turnStarted:
		if o.active != uuid.Nil {
			return fmt.Errorf("turn %s starts while %s is active", e.Turn, o.active)
		}
		o.active = e.Turn
		for _, id := range b.Joined {
			if err := o.end(id, "joined"); err != nil {
				return err
			}
		}
		return o.end(e.Turn, "started")
	case *created, *configured:
		return nil
	}
	if e.Turn != o.active {
		return fmt.Errorf("%s of turn %s while %s is active", e.Body.eventType(), e.Turn, o.active)
	}
	switch b := e.Body.(type) {
	case *steered:
		for _, id := range b.Turns {
			if err := o.end(id, "steered"); err != nil {
				return err
			}
		}
	case *turnFinished:
		o.active = uuid.Nil
	}
	return nil
}

// Whatever is sent, steered, joined, interrupted and canceled at the same time, and whenever Helix
// stops and starts again, a session never has two active turns, every input is answered or withdrawn
// exactly once, and the log folds to the same state from any stored prefix.
func TestNeverTwoActiveTurns(t *testing.T) {
	t.Parallel()
	const sessions, senders, restarts, each = 3, 4, 3, 5
	busy := &busyTurns{session: map[uuid.UUID]uuid.UUID{}, active: map[uuid.UUID]map[uuid.UUID]int{}}
	var mu sync.Mutex
	dice := rand.New(rand.NewPCG(3, 14))
	roll := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return dice.IntN(n)
	}
	reg, set := callable.NewRegistry(nil), callable.NewSet(callable.Builtin, nil)
	set.Add(callable.Func{Info: callable.Info{Name: "probe.read", Effects: callable.Effects{ReadOnly: true, Idempotent: true}}, Run: func(ctx context.Context, r callable.Request) (any, error) {
		defer busy.enter(r.Caller.Run)()
		return "read", ctx.Err()
	}})
	reg.Add(set)
	k := newTalk(t, spoken{window: assumedWindow, answer: func(ctx context.Context, q providers.Request) (providers.Reply, error) {
		info := ctx.Value(callKey{}).(*callInfo)
		busy.mu.Lock()
		busy.session[info.turn] = info.session
		busy.mu.Unlock()
		defer busy.enter(info.turn)()
		if err := ctx.Err(); err != nil {
			return providers.Reply{}, err
		}
		if n := roll(3); n > 0 {
			return providers.Reply{Parts: []providers.Part{callOf(fmt.Sprint("c", n), "probe_read", fmt.Sprintf(`{"n":%d}`, roll(1000))), callOf("d", "probe_read", `{}`)}}, nil
		}
		return answered("Done.")
	}}, func(o *Options) { o.Callables = reg })
	var chats []uuid.UUID
	for range sessions {
		chats = append(chats, k.begin())
	}
	s := k.Service
	modes := []string{QueueFollowup, QueueSteer, QueueCollect, QueueInterrupt}
	for range restarts {
		var wg sync.WaitGroup
		for range senders {
			wg.Go(func() {
				for range each {
					chat := chats[roll(sessions)]
					if roll(4) == 0 {
						if _, err := s.Cancel(k.ctx, TurnParams{SessionID: chat}); err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Conflict) {
							t.Errorf("cancel: %v", err)
						}
						continue
					}
					if _, err := s.Send(k.ctx, SendParams{SessionID: chat, Text: "Do it", QueueMode: modes[roll(len(modes))]}); err != nil && !fault.Is(err, fault.Limit) {
						t.Errorf("send: %v", err)
					}
				}
			})
		}
		wg.Wait()
		if err := s.Close(); err != nil { // in the middle of whatever runs
			t.Fatal(err)
		}
		s = New(k.db, k.bus, k.o)
		again := s
		t.Cleanup(func() { _ = again.Close() })
		if err := s.resume(k.ctx); err != nil {
			t.Fatal(err)
		}
	}
	for _, chat := range chats {
		for _, turn := range turnsOf(t, k, chat) {
			got, err := s.Wait(k.ctx, WaitParams{TurnID: turn, WaitMs: longestWait.Milliseconds()})
			if err != nil || got.Turn.FinishedAt == nil {
				t.Errorf("%+v, %v", got.Turn, err)
			}
		}
		o := &oneTurn{inputs: map[uuid.UUID]string{}}
		if err := k.db.Read(k.ctx, func(tx *storage.Tx) error { return s.readEvents(tx, chat, 0, -1, o.read) }); err != nil {
			t.Errorf("chat %s: %v", chat, err)
		}
		foldsFromAnyPrefix(t, k, chat)
		how := map[string]int{}
		for id, was := range o.inputs {
			if how[was]++; was == "" {
				t.Errorf("input %s is still waiting", id)
			}
		}
		t.Logf("%d inputs: %v", len(o.inputs), how)
	}
	if len(busy.two) > 0 {
		t.Errorf("two turns at once: %v", busy.two)
	}
}

// foldsFromAnyPrefix checks that a state that is stored after any event of a chat's log and loaded again
// continues to the same state as one that was not.
func foldsFromAnyPrefix(t *testing.T, k *talk, chat uuid.UUID) {
	t.Helper()
	var events []Event
	if err := k.db.Read(k.ctx, func(tx *storage.Tx) error {
		return k.readEvents(tx, chat, 0, -1, func(e Event) error {
			events = append(events, e)
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	whole := &State{}
	var stored []string // the state after each event
	for _, e := range events {
		whole.apply(e)
		raw, err := json.Marshal(whole)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, string(raw))
	}
	for cut := 0; cut < len(events); cut += 1 + len(events)/20 {
		again := &State{}
		if err := json.Unmarshal([]byte(stored[cut]), again); err != nil {
			t.Fatal(err)
		}
		for i, e := range events[cut+1:] {
			again.apply(e)
			if raw, err := json.Marshal(again); err != nil || string(raw) != stored[cut+1+i] {
				t.Fatalf("stored after event %d, the state after %s, event %d, is %s, want %s (%v)", cut, e.Body.eventType(), cut+1+i, raw, stored[cut+1+i], err)
			}
		}
	}
}

// turnsOf returns the turns of a chat, oldest first.
func turnsOf(t *testing.T, k *talk, chat uuid.UUID) (list []uuid.UUID) {
	t.Helper()
	err := k.db.Read(k.ctx, func(tx *storage.Tx) (err error) {
		list, err = storage.Collect(tx.Select(`SELECT id FROM agent_turns WHERE session_id = ? ORDER BY created_at, id`, chat), storage.RowTo[uuid.UUID])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
