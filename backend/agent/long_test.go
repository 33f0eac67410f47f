package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/providers"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

// spoken is a model with a small window whose answers come from a function. It replaces external
// services.
type spoken struct {
	window int
	ledger *Ledger
	answer func(ctx context.Context, q providers.Request) (providers.Reply, error)
}

func (m spoken) Stream(ctx context.Context, q providers.Request) iter.Seq2[providers.Event, error] {
	return func(yield func(providers.Event, error) bool) {
		hold, err := m.ledger.Reserve(ctx, providers.Estimate{Provider: "p", Model: "m", Purpose: q.Purpose, Input: 10, Output: 10, Micros: 7})
		if err != nil {
			yield(providers.Event{}, err)
			return
		}
		defer hold.Settle(providers.Usage{Input: 5, Output: 5, Requests: 1}, 3, "done")
		r, err := m.answer(ctx, q)
		if err != nil {
			yield(providers.Event{}, err)
			return
		}
		r.Usage = providers.Usage{Input: 1, Output: 1} // as with services that have counted wrongly
		list := []providers.Event{{Type: providers.EventAttempt, Attempt: 1, Provider: "p", Model: "m"}, {Type: providers.EventText, Delta: r.Text()}}
		for _, c := range r.Calls() {
			list = append(list, providers.Event{Type: providers.EventToolCall, ID: c.ID, Name: c.Name, Args: c.Args})
		}
		for _, e := range append(list, providers.Event{Type: providers.EventUsage, Usage: &r.Usage}, providers.Event{Type: providers.EventFinish, Reason: providers.FinishStop}) {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (m spoken) Complete(ctx context.Context, q providers.Request) (providers.Reply, error) {
	return providers.Fold(m.Stream(ctx, q))
}

func (spoken) HoldsToSchema(context.Context, providers.Request) bool { return false }

func (m spoken) Describe(context.Context, providers.Request) (providers.ModelInfo, error) {
	return providers.ModelInfo{Window: m.window, Output: m.window / 4}, nil
}

func (m spoken) Prepare(ctx context.Context, q providers.Request) (providers.ModelInfo, error) {
	return m.Describe(ctx, q)
}

func (spoken) Roles(context.Context, struct{}) (providers.RolesResult, error) {
	return providers.RolesResult{}, nil
}

func answered(text string) (providers.Reply, error) {
	return providers.Reply{Parts: []providers.Part{providers.TextPart(text)}}, nil
}

// talk is a service on its own database, with a model.
type talk struct {
	*Service
	t   testing.TB
	db  *storage.DB
	ctx context.Context
}

func newTalk(t testing.TB, m spoken, change ...func(*Options)) *talk {
	t.Helper()
	return newTalkWith(t, func(_ *storage.DB, ledger *Ledger) Models {
		m.ledger = ledger
		return m
	}, change...)
}

func newTalkWith(t testing.TB, models func(db *storage.DB, ledger *Ledger) Models, change ...func(*Options)) *talk {
	t.Helper()
	quiet, events := slog.New(slog.NewTextHandler(io.Discard, nil)), bus.New()
	db := storagetest.Open(t)
	ledger := NewLedger(db, events)
	gate := permission.New(db, events, permission.Options{Logger: quiet})
	o := Options{Models: models(db, ledger), Gate: gate, Callables: callable.NewRegistry(nil), Ledger: ledger, Logger: quiet}
	for _, f := range change {
		f(&o)
	}
	s := New(db, events, o)
	gate.Register(string(Kind), s, nil)
	t.Cleanup(func() { _ = s.Close() })
	return &talk{s, t, db, identity.With(context.Background(), identity.Identity{User: db.LocalUser().ID, Scopes: identity.Admin.Closed(), Client: identity.ClientTerminal})}
}

func (k *talk) begin() uuid.UUID {
	k.t.Helper()
	made, err := k.Create(k.ctx, CreateParams{})
	if err != nil {
		k.t.Fatal(err)
	}
	return made.Session.ID
}

func (k *talk) say(session uuid.UUID, text string) Turn {
	k.t.Helper()
	sent, err := k.Send(k.ctx, SendParams{SessionID: session, Text: text})
	if err != nil {
		k.t.Fatal(err)
	}
	got, err := k.Wait(k.ctx, WaitParams{TurnID: sent.TurnID, WaitMs: longestWait.Milliseconds()})
	if err != nil {
		k.t.Fatal(err)
	}
	return got.Turn
}

// own calls a tool that is part of the agent.
func (k *talk) own(session uuid.UUID, name, args string) string {
	k.t.Helper()
	l, err := k.session(k.ctx, session)
	if err != nil {
		k.t.Fatal(err)
	}
	for _, tool := range k.ownTools() {
		if tool.decl.Name == name {
			got, err := tool.own(k.ctx, l, nil, json.RawMessage(args))
			if err != nil {
				k.t.Fatal(err)
			}
			raw, err := json.Marshal(got.value)
			if err != nil {
				k.t.Fatal(err)
			}
			return string(raw)
		}
	}
	k.t.Fatalf("no tool %s", name)
	return ""
}

// A chat of a thousand turns in a small window. Whether the model's summaries are too long, empty or
// errors: each request fits; the summary stays within its limit; the newest statements that left the
// request are in the summary or in the list that stands in for it; and every old message can be found
// and read verbatim.
func TestThousandTurns(t *testing.T) {
	t.Parallel()
	const window = 6000
	turns := 1000
	if testing.Short() {
		turns = 100
	}
	statement := func(n int) string {
		return fmt.Sprintf("Statement %d: the boat number%d is moored at /harbor/berth-%d. %s", n, n, n, strings.Repeat("The sea is calm. ", 20)+"So it is.")
	}
	var mu sync.Mutex
	summaries, repairs := 0, 0
	m := spoken{window: window, answer: func(_ context.Context, q providers.Request) (providers.Reply, error) {
		if q.Purpose != "summary" {
			return answered("Noted. " + strings.Repeat("Aye aye. ", 30))
		}
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(fmt.Sprint(q.Messages), tooLongSummary) {
			repairs++
			return answered(strings.Repeat("still too long ", 2000))
		}
		summaries++
		switch summaries % 4 {
		case 0:
			return providers.Reply{}, fault.Unavailablef("The service is down.")
		case 1:
			return answered(strings.Repeat("The person has many boats. ", 2000))
		case 2:
			return answered("  ")
		}
		return answered("The person keeps a list of boats.")
	}}
	k := newTalk(t, m)
	session := k.begin()
	l, err := k.session(k.ctx, session)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= turns; n++ {
		if turn := k.say(session, statement(n)); turn.State != Completed {
			t.Fatalf("turn %d: %+v %+v", n, turn, turn.Error)
		}
		l.mu.Lock()
		if got := estimate(l.state.Summary); got > summaryTokens {
			t.Fatalf("turn %d: the summary has %d tokens", n, got)
		}
		if got := len(l.state.Exchanges); got > 60 {
			t.Fatalf("turn %d: %d exchanges are in memory", n, got)
		}
		l.mu.Unlock()
	}
	if summaries < turns/20 || repairs == 0 {
		t.Errorf("%d summaries, %d of them repaired", summaries, repairs)
	}
	if r, err := k.Replay(k.ctx, ReplayParams{SessionID: session}); err != nil || !r.Identical || r.Requests != turns {
		t.Errorf("replay: %+v, %v", r, err)
	}
	for _, n := range []int{1, turns / 2, turns - 1} {
		found := k.own(session, "history_search", fmt.Sprintf(`{"query":"number%d"}`, n))
		var hits struct{ Hits []struct{ Seq int64 } }
		if err := json.Unmarshal([]byte(found), &hits); err != nil || len(hits.Hits) == 0 {
			t.Fatalf("statement %d is not found: %s, %v", n, found, err)
		}
		whole := false
		for _, h := range hits.Hits {
			whole = whole || strings.Contains(k.own(session, "history_read", fmt.Sprintf(`{"seq":%d,"limit":1}`, h.Seq)), statement(n))
		}
		if !whole {
			t.Errorf("statement %d can't be read word for word", n)
		}
	}
}

// If the model never writes a summary, no statement is lost: the list of the person's own statements
// stands in for it, newest first, so that the latest ones stay when it is full.
func TestSummariesThatFailLoseNothing(t *testing.T) {
	t.Parallel()
	k := newTalk(t, spoken{window: 6000, answer: func(_ context.Context, q providers.Request) (providers.Reply, error) {
		if q.Purpose == "summary" {
			return providers.Reply{}, fault.Limitf("No money is left.")
		}
		return answered("Noted. " + strings.Repeat("Aye aye. ", 30))
	}})
	session := k.begin()
	l, err := k.session(k.ctx, session)
	if err != nil {
		t.Fatal(err)
	}
	statement := func(n int) string {
		return fmt.Sprintf("Statement %d is about /harbor/berth-%d and %sthe end", n, n, strings.Repeat("the calm sea, ", 20))
	}
	compactions := 0
	for n := 1; n <= 120; n++ {
		l.mu.Lock()
		dropped := l.state.Dropped
		l.mu.Unlock()
		if turn := k.say(session, statement(n)); turn.State != Completed {
			t.Fatalf("turn %d: %+v", n, turn)
		}
		l.mu.Lock()
		if now := l.state.Dropped; now > dropped {
			compactions++
			if !strings.Contains(l.state.Summary, statement(now)) {
				t.Fatalf("turn %d: the last statement that left the request, %d, is not in the list: %s", n, now, l.state.Summary)
			}
			if !strings.Contains(l.state.Summary, fmt.Sprintf("/harbor/berth-%d", now)) || estimate(l.state.Summary) > summaryTokens {
				t.Fatalf("turn %d: %d tokens: %s", n, estimate(l.state.Summary), l.state.Summary)
			}
		}
		l.mu.Unlock()
	}
	if compactions < 5 {
		t.Errorf("%d compactions", compactions)
	}
	list, err := k.Messages(k.ctx, MessagesParams{SessionID: session, Limit: 200})
	if err != nil || !strings.Contains(fmt.Sprint(list.Messages), "couldn't be written") {
		t.Errorf("nobody was told: %v", err)
	}
}

// A hundred chats with three inputs each share ten places. Each chat gets its first turn before any
// gets its second or third.
func TestHundredChatsTakeTurns(t *testing.T) {
	t.Parallel()
	const chats, inputs = 100, 3
	var mu sync.Mutex
	var order []string
	gate := make(chan struct{}, chats*inputs)
	atOnce, most := 0, 0
	k := newTalk(t, spoken{window: assumedWindow, answer: func(ctx context.Context, q providers.Request) (providers.Reply, error) {
		mu.Lock()
		order = append(order, q.Key)
		atOnce++
		most = max(most, atOnce)
		mu.Unlock()
		select {
		case <-gate:
		case <-ctx.Done():
		}
		mu.Lock()
		atOnce--
		mu.Unlock()
		return answered("Yes.")
	}})
	var turns []uuid.UUID
	for range chats {
		session := k.begin()
		for range inputs {
			sent, err := k.Send(k.ctx, SendParams{SessionID: session, Text: "Is it so?"})
			if err != nil {
				t.Fatal(err)
			}
			turns = append(turns, sent.TurnID)
		}
	}
	for range chats * inputs {
		gate <- struct{}{}
	}
	for _, id := range turns {
		if got, err := k.Wait(k.ctx, WaitParams{TurnID: id, WaitMs: longestWait.Milliseconds()}); err != nil || got.Turn.State != Completed {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if len(order) != chats*inputs || most > chatLane {
		t.Fatalf("%d calls, %d at once", len(order), most)
	}
	// A chat that ends a turn queues behind the waiting ones, so it is ahead of the last by at most
	// the number of places.
	times := map[string]int{}
	for n, key := range order {
		times[key]++
		if earliest := (times[key] - 1) * (chats - chatLane); n < earliest {
			t.Fatalf("call %d is the turn %d of a chat, which comes no earlier than call %d", n, times[key], earliest)
		}
	}
}

// Without input, nothing calls a model for a whole day: not for a title, a summary, or an interrupted
// turn.
func TestIdleDayCallsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		k := newTalk(t, spoken{window: 6000, answer: func(context.Context, providers.Request) (providers.Reply, error) {
			calls++
			return answered("Yes. " + strings.Repeat("Aye aye. ", 300))
		}})
		for range 3 {
			session := k.begin()
			for range 6 {
				k.say(session, "Is it so? "+strings.Repeat("Tell me. ", 100))
			}
		}
		before := calls
		ctx, stop := context.WithCancel(k.ctx)
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if calls != before {
			t.Errorf("%d calls in a day in which nobody asked", calls-before)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		var rows int
		if err := k.db.Read(k.ctx, func(tx *storage.Tx) error { return tx.QueryRow(`SELECT count(*) FROM agent_ledger`).Scan(&rows) }); err != nil || rows != before {
			t.Errorf("%d rows in the ledger for %d calls, %v", rows, before, err)
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
		if err := k.db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// At most 50 chats are open: the one idle for longest is archived, with a notice, unless it is pinned
// or working. Chats that were unused for two days, and those beyond 50, are unloaded from memory and
// loaded again unchanged.
func TestIdleChatsAreClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		held := make(chan struct{})
		k := newTalk(t, spoken{window: assumedWindow, answer: func(ctx context.Context, q providers.Request) (providers.Reply, error) {
			if strings.Contains(fmt.Sprint(q.Messages), "Hold on") {
				select {
				case <-held:
				case <-ctx.Done():
				}
			}
			return answered("Yes.")
		}})
		ctx, stop := context.WithCancel(k.ctx)
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		var chats []uuid.UUID
		begin := func() {
			time.Sleep(time.Second)
			chats = append(chats, k.begin())
		}
		for range maxOpen {
			begin()
		}
		k.say(chats[3], "Is it so?")
		k.say(chats[4], "Is it so?")
		for _, id := range chats[5:] { // each is newer than the first five
			time.Sleep(time.Second)
			k.say(id, "Is it so?")
		}
		if _, err := k.Pin(k.ctx, PinParams{SessionID: chats[0], Pinned: true}); err != nil {
			t.Fatal(err)
		}
		busy, err := k.Send(k.ctx, SendParams{SessionID: chats[1], Text: "Hold on"})
		if err != nil {
			t.Fatal(err)
		}
		k.say(chats[2], "Is it so?") // makes it newer than the next one
		archived := func() (out []uuid.UUID) {
			for _, id := range chats {
				if got, err := k.Get(k.ctx, SessionParams{id}); err != nil {
					t.Fatal(err)
				} else if got.Session.ArchivedAt != nil {
					out = append(out, id)
				}
			}
			return out
		}
		if got := archived(); len(got) != 0 {
			t.Fatalf("%d of 50 chats are archived", len(got))
		}
		begin()
		begin()
		if got := archived(); len(got) != 2 || got[0] != chats[3] || got[1] != chats[4] {
			t.Errorf("archived: %v", got)
		}
		if list, err := k.Messages(k.ctx, MessagesParams{SessionID: chats[3]}); err != nil || len(list.Messages) != 3 || !strings.Contains(list.Messages[2].Parts[0].Text, "archived") {
			t.Errorf("no notice: %+v, %v", list, err)
		}
		inMemory := func() int {
			k.mu.Lock()
			defer k.mu.Unlock()
			return len(k.all)
		}
		time.Sleep(90 * time.Minute)
		synctest.Wait()
		if n := inMemory(); n > maxOpen {
			t.Errorf("%d chats are in memory", n)
		}
		time.Sleep(48 * time.Hour)
		synctest.Wait()
		if n := inMemory(); n != 1 {
			t.Errorf("%d chats are in memory after two days, one of them works", n)
		}
		close(held)
		if got, err := k.Wait(k.ctx, WaitParams{TurnID: busy.TurnID, WaitMs: longestWait.Milliseconds()}); err != nil || got.Turn.State != Completed {
			t.Errorf("%+v, %v", got, err)
		}
		if turn := k.say(chats[2], "And now?"); turn.State != Completed || strings.Join(k.answers(chats[2]), " ") != "Yes. Yes." {
			t.Errorf("a chat that came back: %+v, %v", turn, k.answers(chats[2]))
		}
		if r, err := k.Replay(k.ctx, ReplayParams{SessionID: chats[2]}); err != nil || !r.Identical || r.Requests != 2 {
			t.Errorf("%+v, %v", r, err)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
		if err := k.db.Close(); err != nil {
			t.Error(err)
		}
	})
}
