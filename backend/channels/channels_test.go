package channels

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

// fixedClock is a clock that a test sets. Its timers never fire.
type fixedClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *fixedClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fixedClock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (*fixedClock) After(time.Duration) (<-chan time.Time, func()) { return nil, func() {} }

// bench is a service with one channel that does not run, so nothing is sent.
type bench struct {
	*Service
	t     *testing.T
	ctx   context.Context
	clock *fixedClock
	id    uuid.UUID
	sink  sink
}

func newBench(t *testing.T) *bench {
	t.Helper()
	db := storagetest.Open(t)
	b := &bench{t: t, ctx: storagetest.Ctx(t, db), clock: &fixedClock{now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}}
	b.Service = New(db, Options{Secrets: storage.NewSecrets(db), Clock: b.clock})
	made, err := b.Add(b.ctx, AddParams{Kind: "webhook", Name: "Phone", Config: Config{URL: "https://example.com/"}})
	if err != nil {
		t.Fatal(err)
	}
	b.id = made.Channel.ID
	b.sink = sink{b.Service, b.id, db.LocalUser().ID}
	return b
}

func (b *bench) accept(sender, id, text string) error {
	return b.sink.Accept(b.ctx, Incoming{MessageID: id, ContextID: "c", SenderID: sender, Text: text})
}

func (b *bench) count(query string) (n int) {
	b.t.Helper()
	if err := b.db.Read(b.ctx, func(tx *storage.Tx) error { return tx.QueryRow(query).Scan(&n) }); err != nil {
		b.t.Fatal(err)
	}
	return n
}

// A flood of strangers leaves a bounded number of rows and audit entries, every message is counted, and
// no text is stored.
func TestFloodOfStrangersIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	messages, strangers := 4000, 400
	if os.Getenv("HELIX_LONG") != "" {
		messages, strangers = 100_000, 1000
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range messages {
		if err := b.accept(fmt.Sprint(i%strangers), fmt.Sprint(i), "Zwiebelkuchen"); !fault.Is(err, fault.Denied) {
			t.Fatal(err)
		}
	}
	if _, err := b.Rejected(b.ctx, RejectedParams{}); err != nil { // it stores what is counted
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("%d messages of %d strangers: %d rows, %d audit entries, heap %d KiB before and %d KiB after", messages, strangers, b.count(`SELECT count(*) FROM channel_rejections`),
		b.count(`SELECT count(*) FROM audit_log WHERE action = 'channel.rejected'`), before.HeapAlloc>>10, after.HeapAlloc>>10)
	if n := b.count(`SELECT count(*) FROM channel_rejections`); n > maxRejections {
		t.Errorf("%d rows", n)
	}
	if n := b.count(`SELECT sum(count) FROM channel_rejections`); n != messages {
		t.Errorf("%d counted", n)
	}
	if n := b.count(`SELECT count(*) FROM audit_log WHERE action = 'channel.rejected'`); n > maxRejections {
		t.Errorf("%d audit entries", n)
	}
	if n := b.count(`SELECT (SELECT count(*) FROM channel_inbox) + (SELECT count(*) FROM channel_outbox) + (SELECT count(*) FROM audit_details WHERE details LIKE '%Zwiebel%')`); n != 0 {
		t.Errorf("%d rows with something of a stranger", n)
	}
}

func TestAllowListComparesIDsAndGroups(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if _, err := b.Allow(b.ctx, AllowParams{ID: b.id, SenderID: "42", Label: "Ada", ContextIDs: []string{"family"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Allow(b.ctx, AllowParams{ID: b.id, SenderID: "43", Role: "notify"}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		in   Incoming
		want bool
	}{
		"direct":                    {Incoming{SenderID: "42", ContextID: "42"}, true},
		"in an allowed group":       {Incoming{SenderID: "42", ContextID: "family", Group: true}, true},
		"in another group":          {Incoming{SenderID: "42", ContextID: "club", Group: true}, false},
		"a name like an allowed id": {Incoming{SenderID: "7", SenderLabel: "42", ContextID: "42"}, false},
		"a label like an allowed":   {Incoming{SenderID: "7", SenderLabel: "Ada", ContextID: "42"}, false},
		"only receives":             {Incoming{SenderID: "43", ContextID: "43"}, false},
		"no sender":                 {Incoming{ContextID: "42"}, false},
	} {
		c.in.MessageID, c.in.Text = name, "Hello"
		err := b.sink.Accept(b.ctx, c.in)
		if c.want != (err == nil) || err != nil && !fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPairingLocksAfterWrongCodes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	code, err := b.Pair(b.ctx, IDParams{b.id})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pairTries {
		if err := b.accept("7", fmt.Sprint("wrong", i), "/pair AAAAAAAA"); !fault.Is(err, fault.Denied) {
			t.Fatal(err)
		}
	}
	if err := b.accept("7", "late", "/pair "+code.Code); !fault.Is(err, fault.Denied) {
		t.Errorf("the right code while locked: %v", err)
	}
	if _, err := b.Pair(b.ctx, IDParams{b.id}); !fault.Is(err, fault.Limit) {
		t.Errorf("a new code while locked: %v", err)
	}
	b.clock.add(pairLock + time.Second)
	if code, err = b.Pair(b.ctx, IDParams{b.id}); err != nil {
		t.Fatal(err)
	}
	b.clock.add(pairLife)
	if err := b.accept("7", "expired", "/pair "+code.Code); !fault.Is(err, fault.Denied) {
		t.Errorf("an expired code: %v", err)
	}
	if code, err = b.Pair(b.ctx, IDParams{b.id}); err != nil {
		t.Fatal(err)
	}
	if err := b.accept("7", "right", "/pair "+code.Code); err != nil {
		t.Error(err)
	}
	if err := b.accept("8", "used", "/pair "+code.Code); !fault.Is(err, fault.Denied) {
		t.Errorf("a code that was used: %v", err)
	}
}

func TestFastSenderIsToldOnceAndThenIgnored(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if _, err := b.Allow(b.ctx, AllowParams{ID: b.id, SenderID: "42"}); err != nil {
		t.Fatal(err)
	}
	for i := range senderRate + 5 {
		if err := b.accept("42", fmt.Sprint(i), "Hello"); (err == nil) != (i < senderRate) {
			t.Errorf("message %d: %v", i, err)
		}
	}
	if n := b.count(`SELECT count(*) FROM channel_outbox`); n != 1 {
		t.Errorf("%d answers", n)
	}
	b.clock.add(ratePeriod)
	if err := b.accept("42", "later", "Hello"); err != nil {
		t.Error(err)
	}
	if err := b.accept("42", "later", "Hello"); !fault.Is(err, fault.Conflict) {
		t.Errorf("a repeat: %v", err)
	}
}

func TestSignatureCoversTimeAndBody(t *testing.T) {
	t.Parallel()
	clock := &fixedClock{now: time.Unix(1_700_000_000, 0)}
	w := &webhook{s: New(storagetest.Open(t), Options{Clock: clock}), secrets: signingSecrets{"new", "old"}}
	body := []byte(`{"id":"1"}`)
	for name, c := range map[string]struct {
		secret string
		skew   time.Duration
		want   bool
	}{
		"now": {"new", 0, true}, "the former secret": {"old", 0, true}, "another secret": {"other", 0, false},
		"299 s late": {"new", -299 * time.Second, true}, "301 s late": {"new", -301 * time.Second, false},
		"299 s early": {"new", 299 * time.Second, true}, "301 s early": {"new", 301 * time.Second, false},
	} {
		header := Sign(c.secret, clock.Now().Add(c.skew), body)
		if w.verify(header, body) != c.want {
			t.Error(name)
		}
		if w.verify(header, []byte(`{"id":"2"}`)) {
			t.Errorf("%s: a body changed by one byte", name)
		}
	}
}

// joined removes what split adds and drops: fences that were closed and opened again, and space at borders.
func joined(parts []string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(strings.Join(parts, ""), "`", " ")), "")
}

func checkSplit(t *testing.T, s string, l Limits) {
	t.Helper()
	parts := split(s, l)
	for _, p := range parts {
		if strings.TrimSpace(p) == "" || l.Unit(p) > l.Text || !utf8.ValidString(p) {
			t.Errorf("%q", p)
		}
		if openFence(p) != "" && !strings.Contains(s, "````") && openFence(s) == "" {
			t.Errorf("a block of code is not closed in %q", p)
		}
	}
	if !strings.Contains(s, "```") && joined(parts) != joined([]string{s}) {
		t.Errorf("%q became %q", s, parts)
	}
}

var splitSeeds = []string{
	"", "a b c", strings.Repeat("word ", 40), strings.Repeat("x", 200), "```go\n" + strings.Repeat("line\n", 40) + "```\nend",
	"नमस्ते दुनिया " + strings.Repeat("👩‍👩‍👧 ", 30), strings.Repeat("e\u0301", 90), strings.Repeat("👩‍👩‍👧", 60), "> quote\n```\n" + strings.Repeat("x", 90) + "\n```\n```py\ny\n```",
}

func TestSplitKeepsTextAtTheLimitsOfTelegram(t *testing.T) {
	t.Parallel()
	for _, s := range splitSeeds {
		checkSplit(t, strings.Repeat(s+"\n", 60), telegramLimits)
	}
	code := "Look:\n```go\n" + strings.Repeat("fmt.Println(1)\n", 600) + "```\nDone."
	parts := split(code, telegramLimits)
	if len(parts) != 3 {
		t.Fatalf("%d parts", len(parts))
	}
	for i, p := range parts {
		if html := telegramHTML(p); !strings.Contains(html, "<pre><code class=\"language-go\">") || strings.Contains(html, "```") || i > 0 && !strings.HasPrefix(p, "```go\n") || i < 2 && !strings.HasSuffix(p, "\n```") {
			t.Errorf("part %d: %.40q … %q", i, p, p[len(p)-20:])
		}
	}
}

func FuzzSplitKeepsTextWithinLimits(f *testing.F) {
	for _, s := range splitSeeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if utf8.ValidString(s) {
			checkSplit(t, s, Limits{Text: 64, Unit: utf16Units})
		}
	})
}

// The memory of signatures has a limit, and old ones make room.
func TestRememberedSignaturesAreLimited(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w := &webhook{s: b.Service, seen: map[string]time.Time{}}
	for i := range maxReplays {
		if !w.first(fmt.Sprint(i)) {
			t.Fatalf("signature %d is refused", i)
		}
	}
	if w.first("one more") || len(w.seen) != maxReplays {
		t.Errorf("%d signatures are remembered", len(w.seen))
	}
	b.clock.add(maxSkew)
	if !w.first("later") {
		t.Error("old signatures make no room")
	}
}
