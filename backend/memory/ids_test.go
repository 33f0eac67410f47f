package memory

import (
	"context"
	"slices"
	"testing"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/storage"
)

// asUser returns a bundle whose local user has several devices.
func (b *bundle) asUser(t testing.TB, user uuid.UUID) {
	t.Helper()
	if err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`INSERT INTO users (id, display_name, created_at) VALUES (?, 'Anna', ?)`, user, tx.Now)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	id, _ := identity.From(b.ctx)
	id.User = user
	b.ctx = identity.With(context.WithoutCancel(b.ctx), id)
}

func TestSameExportHasSameIDsOnEveryDevice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := map[string]string{
		"conversations.json": `[{"uuid":"c1","name":"Garden","chat_messages":[{"uuid":"m1","sender":"human","text":"When do I plant beans?"},{"uuid":"m2","sender":"assistant","text":"In May."}]}]`,
		"memories.jsonl":     `{"content":"a line without an id"}` + "\n" + `{"id":"a-long-enough-id","content":"a line with an id","tags":["x"]}` + "\n",
		"locomo.json":        `[{"sample_id":"s","speaker_a":"Ann","speaker_b":"Bo","session_1":[{"speaker":"Ann","dia_id":"D1:1","text":"yes"},{"speaker":"Bo","dia_id":"D1:2","text":"yes"},{"speaker":"Ann","dia_id":"D1:3","text":"yes"}]}]`,
		"note.md":            "# Compost\n\nTurn it twice a year.\n\n# Water\n\nIn the evening.\n",
	}
	// The first two devices have different local users, the others the same user of a hub.
	users := []uuid.UUID{uuid.Nil, uuid.Nil, uuid.New()}
	users = append(users, users[2])
	var devices [4]map[string][]uuid.UUID
	var places []uuid.UUID
	for i := range devices {
		b := newBundle(t, Options{})
		if users[i] != uuid.Nil {
			b.asUser(t, users[i])
		}
		if i%2 == 1 { // rows from other devices come first
			b.add(t, "something that only this device has")
		}
		for name, text := range files {
			b.imported(t, ImportParams{Path: writeFile(t, dir, name, text)})
		}
		devices[i] = map[string][]uuid.UUID{}
		for _, table := range []string{"conversations", "conversation_turns", "documents", "chunks", "memories"} {
			query := `SELECT id FROM ` + table
			if table == "memories" {
				query += ` WHERE source <> 'manual'`
			}
			devices[i][table] = b.idsOf(t, query+` ORDER BY id`)
		}
		places = b.idsOf(t, `SELECT t.id FROM conversation_turns t JOIN conversations c ON c.id = t.conversation_id WHERE c.source = 'locomo' ORDER BY t.seq`)
	}
	for table, want := range map[string]int{"conversations": 2, "conversation_turns": 5, "documents": 1, "chunks": 2, "memories": 2} {
		for i := range 2 {
			a, b := devices[2*i][table], devices[2*i+1][table]
			if len(a) != want || !slices.Equal(a, b) {
				t.Errorf("%s: %d rows, want %d; ids %v and %v", table, len(a), want, a, b)
			}
		}
	}
	if !slices.IsSortedFunc(places, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }) {
		t.Errorf("the turns of a conversation are not in the order of their ids: %v", places)
	}
}

// A text that reappears after it was replaced is a new row, because removed rows keep their ids.
func TestTextThatComesBackGetsANewRow(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	dir := t.TempDir()
	for _, text := range []string{"first", "second", "first", "second"} {
		b.imported(t, ImportParams{Path: writeFile(t, dir, "c.json", `[{"uuid":"c1","name":"T","chat_messages":[{"uuid":"m1","sender":"human","text":"`+text+` text"}]}]`)})
		b.imported(t, ImportParams{Path: writeFile(t, dir, "n.md", "# Note\n\nThe "+text+" form.\n")})
		if got := b.number(t, `SELECT count(*) FROM conversation_turns WHERE deleted_at IS NULL AND content LIKE '`+text+`%'`); got != 1 {
			t.Fatalf("%s: %d turns", text, got)
		}
		if got := b.number(t, `SELECT count(*) FROM chunks WHERE deleted_at IS NULL AND content LIKE '%`+text+`%'`); got != 1 {
			t.Fatalf("%s: %d chunks", text, got)
		}
	}
}
