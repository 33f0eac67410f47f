package memory

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"helix/backend/memory/search"
)

// Records of one file with the same id are all kept: none replaces another, and a second import
// matches each of them.
func TestImportKeepsRecordsOfOneID(t *testing.T) {
	t.Parallel()
	chat := func(text string) string {
		return fmt.Sprintf(`{"conversation_id":"same","title":"T","current_node":"m","mapping":{"m":{"message":{"author":{"role":"user"},"content":{"parts":[%q]}}}}}`, text)
	}
	claude := func(text string) string {
		return fmt.Sprintf(`{"uuid":"same","name":"T","chat_messages":[{"uuid":"m","sender":"human","text":%q},{"uuid":"n","sender":"assistant","text":"Tell me of %s."}]}`, text, text)
	}
	memory := func(text string) string { return fmt.Sprintf(`{"id":"a-long-enough-id","content":%q}`, text) }
	locomo := func(text string) string {
		return fmt.Sprintf(`{"sample_id":"same","speaker_a":"Ann","speaker_b":"Bob","session_1":[{"speaker":"Ann","dia_id":"D1:1","text":%q}]}`, text)
	}
	words := []string{"zeppelin", "quagmire", "zeppelin", "hollyhock"}
	for name, c := range map[string]struct {
		record     func(string) string
		a, sep, z  string
		ofZeppelin int64 // number of items
	}{
		"chatgpt.json": {chat, "[", ",", "]", 1}, "claude.json": {claude, "[", ",", "]", 2}, "memories.jsonl": {memory, "", "\n", "\n", 1}, "locomo.json": {locomo, "[", ",", "]", 1},
	} {
		b := newBundle(t, Options{})
		var records []string
		for _, w := range words {
			records = append(records, c.record(w))
		}
		path := writeFile(t, t.TempDir(), name, c.a+strings.Join(records, c.sep)+c.z)
		n := c.ofZeppelin
		wantCounts(t, b.imported(t, ImportParams{Path: path}), "completed", 4*n, 3*n, 0, n, 0)
		log := b.count(t, `SELECT count(*) FROM change_log`)
		wantCounts(t, b.imported(t, ImportParams{Path: path}), "completed", 4*n, 0, 0, 4*n, 0)
		if now := b.count(t, `SELECT count(*) FROM change_log`); now != log {
			t.Errorf("%s: importing again changed %d rows", name, now-log)
		}
		for _, w := range words {
			if r := must(b.Search(b.ctx, search.Params{Query: w}))(t); int64(len(r.Results)) != n {
				t.Errorf("%s: %d results for %s, want %d", name, len(r.Results), w, n)
			}
		}
		// The file changes: each record is updated from its own.
		writeFile(t, filepath.Dir(path), name, strings.ReplaceAll(c.a+strings.Join(records, c.sep)+c.z, "hollyhock", "snapdragon"))
		wantCounts(t, b.imported(t, ImportParams{Path: path}), "completed", 4*n, 0, n, 3*n, 0)
		if r := must(b.Search(b.ctx, search.Params{Query: "quagmire"}))(t); int64(len(r.Results)) != n {
			t.Errorf("%s: another record has changed: %d results", name, len(r.Results))
		}
	}
}
