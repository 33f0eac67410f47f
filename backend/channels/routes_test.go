package channels

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

func (b *bench) allow(sender string) {
	b.t.Helper()
	if _, err := b.Allow(b.ctx, AllowParams{ID: b.id, SenderID: sender}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) route(topic, when string) {
	b.t.Helper()
	if _, err := b.SetRoute(b.ctx, Route{topic, fmt.Sprintf("channel:%s:42", b.id), when}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) notify(n Note) {
	b.t.Helper()
	if err := b.db.Write(b.ctx, func(tx *storage.Tx) error { return b.NotifyTx(tx, n) }); err != nil {
		b.t.Fatal(err)
	}
}

// texts returns the texts in the outbox.
func (b *bench) texts() (out []string) {
	b.t.Helper()
	err := b.db.Read(b.ctx, func(tx *storage.Tx) error {
		return tx.Select(`SELECT id, payload FROM channel_outbox ORDER BY id`).Each(func(row storage.Row) error {
			var id uuid.UUID
			var raw []byte
			if err := row.Scan(&id, &raw); err != nil {
				return err
			}
			m, err := b.openMessage("channel_outbox", id, raw)
			out = append(out, m.Text)
			return err
		})
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func TestNotificationsFollowRoutes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	me := b.db.LocalUser().ID
	note := func(topic, key string) { b.notify(Note{me, topic, key, "Report: 3 mails"}) }
	note(TopicSchedule, "no route")
	if _, err := b.SetRoute(b.ctx, Route{TopicSchedule, fmt.Sprintf("channel:%s:42", b.id), "always"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a conversation of nobody: %v", err)
	}
	b.allow("42")
	b.route(TopicSchedule, "always")
	b.route(TopicJob, "never")
	b.route(TopicApproval, "away")
	note(TopicSchedule, "1")
	note(TopicSchedule, "1") // the same notification again
	note(TopicJob, "1")
	note(TopicSystem, "1")
	if n := len(b.texts()); n != 1 {
		t.Errorf("%d messages of one route", n)
	}
	b.Seen(me)
	note(TopicApproval, "at the desk")
	b.clock.add(awayAfter - time.Second)
	note(TopicApproval, "still at the desk")
	if n := len(b.texts()); n != 1 {
		t.Errorf("%d messages while a window had the focus", n)
	}
	b.clock.add(time.Second)
	note(TopicApproval, "away")
	if n := len(b.texts()); n != 2 {
		t.Errorf("%d messages", n)
	}
	if _, err := b.Disallow(b.ctx, SenderParams{b.id, "42"}); err != nil {
		t.Fatal(err)
	}
	note(TopicSchedule, "2")
	if n := len(b.texts()); n != 2 {
		t.Error("a notification to somebody who is no longer allowed")
	}
	if n := b.count(`SELECT count(*) FROM channel_outbox WHERE expires_at - created_at <> 6 * 3600 * 1000000`); n != 0 {
		t.Errorf("%d notifications with another life than 6 hours", n)
	}
	if _, err := b.Remove(b.ctx, IDParams{b.id}); err != nil {
		t.Fatal(err)
	}
	r, err := b.Routes(b.ctx, struct{}{})
	if err != nil || len(r.Routes) != 4 || r.Routes[0].Target != window {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestNotificationsAreScrubbedAndGenericInPrivateMode(t *testing.T) {
	t.Parallel()
	for private, want := range map[bool]string{false: "The key is [removed]", true: genericTexts[TopicSchedule]} {
		db := storagetest.Open(t)
		b := &bench{t: t, ctx: storagetest.Ctx(t, db), clock: &fixedClock{now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}}
		b.Service = New(db, Options{
			Secrets: storage.NewSecrets(db), Clock: b.clock, Private: private,
			Scrub: func(_ context.Context, text string) string { return strings.ReplaceAll(text, "hunter2", "[removed]") },
		})
		made, err := b.Add(b.ctx, AddParams{Kind: "webhook", Name: "Phone", Config: Config{URL: "https://example.com/"}})
		if err != nil {
			t.Fatal(err)
		}
		b.id = made.Channel.ID
		b.allow("42")
		b.route(TopicSchedule, "always")
		b.notify(Note{db.LocalUser().ID, TopicSchedule, "1", "The key is hunter2"})
		if got := b.texts(); len(got) != 1 || got[0] != want {
			t.Errorf("private %v: %q", private, got)
		}
	}
}

func TestRemovedChannelCanBeBroughtBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.allow("42")
	gone, err := b.Remove(b.ctx, IDParams{b.id})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.accept("42", "1", "Hello"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a message to a removed channel: %v", err)
	}
	if l, err := b.List(b.ctx, struct{}{}); err != nil || len(l.Channels) != 0 {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := b.Undo(b.ctx, UndoParams(gone)); err != nil {
		t.Fatal(err)
	}
	if err := b.accept("42", "1", "Hello"); err != nil {
		t.Errorf("after Undo: %v", err)
	}
	if _, err := b.Undo(b.ctx, UndoParams(gone)); !fault.Is(err, fault.NotFound) {
		t.Errorf("Undo again: %v", err)
	}
}

func TestRemovedChannelIsDeletedLater(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	rows := func() int {
		return b.count(`SELECT (SELECT count(*) FROM channels) + (SELECT count(*) FROM secrets WHERE name LIKE 'channel:%')`)
	}
	if _, err := b.Remove(b.ctx, IDParams{b.id}); err != nil {
		t.Fatal(err)
	}
	b.clock.add(keepRemoved)
	if err := b.purgeRemoved(b.ctx); err != nil || rows() != 2 {
		t.Errorf("%v, %d rows before the time", err, rows())
	}
	b.clock.add(time.Second)
	if err := b.purgeRemoved(b.ctx); err != nil || rows() != 0 {
		t.Errorf("%v, %d rows", err, rows())
	}
}

// A channel with the name of a removed one replaces it.
func TestRemovedChannelGivesUpItsName(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	gone, err := b.Remove(b.ctx, IDParams{b.id})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Add(b.ctx, AddParams{Kind: "webhook", Name: "Phone", Config: Config{URL: "https://example.com/"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Undo(b.ctx, UndoParams(gone)); !fault.Is(err, fault.NotFound) {
		t.Errorf("Undo: %v", err)
	}
}

func TestChannelsAndSendersAreLimited(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range maxChannels {
		_, err := b.Add(b.ctx, AddParams{Kind: "webhook", Name: fmt.Sprint(i), Config: Config{URL: "https://example.com/"}})
		if (err == nil) != (i < maxChannels-1) || err != nil && !fault.Is(err, fault.Limit) {
			t.Errorf("channel %d: %v", i, err)
		}
	}
	for i := range maxSenders + 1 {
		_, err := b.Allow(b.ctx, AllowParams{ID: b.id, SenderID: fmt.Sprint(i)})
		if (err == nil) != (i < maxSenders) || err != nil && !fault.Is(err, fault.Limit) {
			t.Errorf("sender %d: %v", i, err)
		}
	}
}

// A full outbox drops its oldest notifications for new messages, and never a reply.
func TestFullOutboxDropsNotificationsOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.allow("42")
	b.route(TopicSchedule, "always")
	queue := func(n int, reply bool, name string) {
		t.Helper()
		err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
			c, err := loadChannel(tx, b.id)
			for i := 0; i < n && err == nil; i++ {
				err = b.queue(tx, &c, "42", fmt.Sprint(name, i), "text", reply)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	queue(maxOutbox-3, true, "reply")
	queue(3, false, "note")
	queue(5, true, "late")
	if n := b.count(`SELECT count(*) FROM channel_outbox WHERE state = 'dropped' AND NOT reply`); n != 3 {
		t.Errorf("%d notifications dropped", n)
	}
	if n := b.count(`SELECT count(*) FROM channel_outbox WHERE state = 'queued' AND reply`); n != maxOutbox+2 {
		t.Errorf("%d replies wait", n)
	}
	if n := b.count(`SELECT count(*) FROM audit_log WHERE action = 'channel.dropped'`); n != 3 {
		t.Errorf("%d audit entries", n)
	}
}

func TestInboxIsLimited(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.allow("42")
	for i := range maxWaiting + 1 {
		if i%senderRate == 0 {
			b.clock.add(ratePeriod)
		}
		err := b.accept("42", fmt.Sprint(i), "Hello")
		if (err == nil) != (i < maxWaiting) || err != nil && !fault.Is(err, fault.Unavailable) {
			t.Fatalf("message %d: %v", i, err)
		}
	}
}

// The lock after wrong codes is stored, so that a restart does not end it.
func TestPairingStaysLockedAfterRestart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if _, err := b.Pair(b.ctx, IDParams{b.id}); err != nil {
		t.Fatal(err)
	}
	for i := range pairTries {
		if err := b.accept("7", fmt.Sprint(i), "/pair AAAAAAAA"); !fault.Is(err, fault.Denied) {
			t.Fatal(err)
		}
	}
	again := New(b.db, Options{Secrets: storage.NewSecrets(b.db), Clock: b.clock})
	if _, err := again.Pair(b.ctx, IDParams{b.id}); !fault.Is(err, fault.Limit) {
		t.Errorf("a code after a restart: %v", err)
	}
	b.clock.add(pairLock + time.Second)
	if _, err := again.Pair(b.ctx, IDParams{b.id}); err != nil {
		t.Error(err)
	}
}

func TestRejectedMessagesAreSelectedByTime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, sender := range []string{"1", "2", "3"} {
		if err := b.accept(sender, sender, "Hello"); !fault.Is(err, fault.Denied) {
			t.Fatal(err)
		}
		b.clock.add(time.Minute)
	}
	first, err := b.Rejected(b.ctx, RejectedParams{Limit: 2})
	if err != nil || len(first.Entries) != 2 || first.Entries[0].SenderID != "3" {
		t.Fatalf("%+v, %v", first, err)
	}
	rest, err := b.Rejected(b.ctx, RejectedParams{Before: &first.Entries[1].Timestamp})
	if err != nil || len(rest.Entries) != 1 || rest.Entries[0].SenderID != "1" {
		t.Errorf("%+v, %v", rest, err)
	}
	from, err := b.Rejected(b.ctx, RejectedParams{From: &first.Entries[0].Timestamp})
	if err != nil || len(from.Entries) != 1 {
		t.Errorf("%+v, %v", from, err)
	}
}

// A channel of another device does not run here, is not switched on, and is taken over only on request.
func TestChannelOfAnotherDeviceMustBeTakenOver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE channels SET device_id = ?`, storage.NewID())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.SetEnabled(b.ctx, EnabledParams{b.id, true}); !fault.Is(err, fault.Conflict) {
		t.Errorf("switched on: %v", err)
	}
	r, err := b.Test(b.ctx, IDParams{b.id})
	if err != nil || r.OK || len(r.Steps) != 1 || r.Steps[0].Step != "device" || r.Steps[0].Hint == "" {
		t.Errorf("%+v, %v", r, err)
	}
	if out, err := b.Update(b.ctx, UpdateParams{ID: b.id, Patch: Patch{TakeOver: true}}); err != nil || !out.Channel.Here {
		t.Errorf("%+v, %v", out, err)
	}
}
