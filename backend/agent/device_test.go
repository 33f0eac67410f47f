package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/providers"
	"helix/backend/providers/providerstest"
	"helix/backend/storage"
)

// synced puts the rows of a chat that devices exchange into the database of another device.
func synced(t *testing.T, from, to *talk, chat uuid.UUID) {
	t.Helper()
	var device uuid.UUID
	var title string
	type row struct {
		id, turn                     uuid.UUID
		seq, created                 int64
		role, content, origin, model any
	}
	var rows []row
	if err := from.db.Read(from.ctx, func(tx *storage.Tx) (err error) {
		if err := tx.QueryRow(`SELECT device_id, title FROM sessions WHERE id = ?`, chat).Scan(&device, &title); err != nil {
			return err
		}
		rows, err = storage.Collect(tx.Select(`SELECT id, turn_id, seq, created_at, role, content, origin, model FROM session_messages WHERE session_id = ?`, chat), func(r storage.Row) (x row, err error) {
			err = r.Scan(&x.id, &x.turn, &x.seq, &x.created, &x.role, &x.content, &x.origin, &x.model)
			return x, err
		})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	user := to.db.LocalUser().ID
	if err := to.db.Write(to.ctx, func(tx *storage.Tx) error {
		if _, err := tx.Exec(`INSERT OR IGNORE INTO sessions (id, user_id, device_id, title, created_at, updated_at) VALUES (?, ?, ?, ?, 1, 1)`, chat, user, device, title); err != nil {
			return err
		}
		for _, x := range rows {
			if _, err := tx.Exec(`INSERT OR IGNORE INTO session_messages (id, session_id, user_id, seq, turn_id, role, content, origin, model, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
				x.id, chat, user, x.seq, x.turn, x.role, x.content, x.origin, x.model, x.created, x.created); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// A chat of another device can be read and continued in a copy. Nothing is written to the original: neither
// by the copy nor by what is tried there.
func TestChatOfAnotherDeviceIsContinuedInACopy(t *testing.T) {
	t.Parallel()
	srv := providerstest.New(t, providerstest.Options{Repeat: true, Replies: []providers.ScriptedReply{{Text: "At the pier."}}})
	a, b := askServers(t, srv), askServers(t, srv)
	chat := a.begin()
	for _, text := range []string{"Where is the boat?", "And the ship?"} {
		if turn := a.say(chat, text); turn.State != Completed {
			t.Fatalf("%+v %+v", turn, turn.Error)
		}
	}
	synced(t, a, b, chat)
	written := func() (n int) {
		t.Helper()
		if err := b.db.Read(b.ctx, func(tx *storage.Tx) error {
			return tx.QueryRow(`SELECT (SELECT count(*) FROM session_messages WHERE session_id = ?1) + 100 * (SELECT count(*) FROM conversation_events WHERE session_id = ?1) + 100 * (SELECT count(*) FROM agent_turns WHERE session_id = ?1)`, chat).Scan(&n)
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if got, err := b.get(b.ctx, chat); err != nil || got.Session.Here || len(b.answers(chat)) != 2 {
		t.Fatalf("%+v, %v", got.Session, err)
	}
	before := written()
	if _, err := b.Send(b.ctx, SendParams{SessionID: chat, Text: "Go on"}); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "another device") {
		t.Errorf("an input in the original: %v", err)
	}
	list, err := b.Messages(b.ctx, MessagesParams{SessionID: chat})
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[int64]int{0: 2, list.Messages[0].Seq: 1} {
		copied, err := b.Fork(b.ctx, ForkParams{SessionID: chat, AtSeq: at})
		if err != nil {
			t.Fatal(err)
		}
		s := copied.Session
		if !s.Here || s.ForkedFrom == nil || *s.ForkedFrom != chat || len(b.answers(s.ID)) != want {
			t.Errorf("up to %d: %+v with %q", at, s, b.answers(s.ID))
		}
		if turn := b.say(s.ID, "And the raft?"); turn.State != Completed || len(b.answers(s.ID)) != want+1 {
			t.Errorf("%+v %+v, %q", turn, turn.Error, b.answers(s.ID))
		}
		requests := srv.Requests()
		if body := string(requests[len(requests)-1].Body); !strings.Contains(body, "Where is the boat?") || strings.Contains(body, "And the ship?") != (want == 2) {
			t.Errorf("the copy asked with %s", body)
		}
	}
	if n := written(); n != before {
		t.Errorf("the original has %d rows, had %d", n, before)
	}
	if got := a.answers(chat); !slices.Equal(got, []string{"At the pier.", "At the pier."}) {
		t.Errorf("%q", got)
	}
	// An input without an answer yet is not copied.
	fresh := a.begin()
	if err := a.db.Write(a.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`INSERT INTO session_messages (id, session_id, user_id, seq, turn_id, role, content, created_at, updated_at) VALUES (?, ?, ?, 2, ?, 'user', '[{"kind":"text","text":"Wait"}]', 1, 1)`, uuid.New(), fresh, a.db.LocalUser().ID, uuid.New())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	synced(t, a, b, fresh)
	if _, err := b.Fork(b.ctx, ForkParams{SessionID: fresh}); !fault.Is(err, fault.Conflict) {
		t.Errorf("a chat without an answer: %v", err)
	}
}
