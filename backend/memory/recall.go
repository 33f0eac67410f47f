package memory

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"golang.org/x/text/unicode/norm"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/memory/search"
	"helix/backend/storage"
)

const (
	recallAge     = 24 * time.Hour
	shingleWords  = 5
	recallOverlap = 0.6     // fraction of the shingles of a text from which on it is recalled text
	maxLogged     = 1 << 20 // bytes of hashes per item; above this, only the newest text is kept
)

// unspaced lists the scripts without spaces between words.
var unspaced = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar}

// shingles returns the hashes of all runs of five words of a text, sorted and distinct. Case,
// punctuation and accents are ignored. A shorter text is one run.
func shingles(text string) []uint64 { return runs(words(text), shingleWords) }

// words returns the words of a text, in lower case and without accents. In scripts without spaces
// between words each character is a word.
func words(text string) []string {
	var b strings.Builder
	for _, r := range norm.NFKD.String(text) {
		switch {
		case unicode.Is(unicode.Mn, r), r == '\'', r == '’':
		case unicode.In(r, unspaced...):
			b.WriteByte(' ')
			b.WriteRune(r)
			b.WriteByte(' ')
		case unicode.IsLetter(r), unicode.IsNumber(r):
			b.WriteRune(unicode.ToLower(r))
		default:
			b.WriteByte(' ')
		}
	}
	return strings.Fields(b.String())
}

func runs(words []string, n int) []uint64 {
	if len(words) == 0 {
		return nil
	}
	n = min(n, len(words))
	out := make([]uint64, 0, len(words)-n+1)
	for i := 0; i+n <= len(words); i++ {
		h := fnv.New64a()
		for _, w := range words[i : i+n] {
			_, _ = h.Write([]byte(w))
			_, _ = h.Write([]byte{0})
		}
		out = append(out, h.Sum64())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// logged returns the hashes that recall_log stores for a text: its shingles, and the shorter runs,
// so that texts of fewer than five words can be recognized too. They are sorted.
func logged(text string) []byte {
	w := words(text)
	var all []uint64
	for n := 1; n <= shingleWords; n++ {
		if n <= len(w) {
			all = append(all, runs(w, n)...)
		}
	}
	return packed(all)
}

// union merges two sorted logs of hashes.
func union(a, b []byte) []byte {
	all := make([]uint64, 0, (len(a)+len(b))/8)
	for _, log := range [][]byte{a, b} {
		for ; len(log) >= 8; log = log[8:] {
			all = append(all, binary.LittleEndian.Uint64(log))
		}
	}
	return packed(all)
}

// packed encodes hashes for the log, sorted and distinct.
func packed(all []uint64) []byte {
	slices.Sort(all)
	all = slices.Compact(all)
	out := make([]byte, 0, 8*len(all))
	for _, h := range all {
		out = binary.LittleEndian.AppendUint64(out, h)
	}
	return out
}

// containment returns the fraction of the shingles in want that logged contains. Both are sorted.
func containment(want []uint64, logged []byte) float64 {
	if len(want) == 0 {
		return 0
	}
	found, i := 0, 0
	for at := 0; at+8 <= len(logged) && i < len(want); at += 8 {
		h := binary.LittleEndian.Uint64(logged[at:])
		for i < len(want) && want[i] < h {
			i++
		}
		if i < len(want) && want[i] == h {
			found++
			i++
		}
	}
	return float64(found) / float64(len(want))
}

// Kinds of text in the log that are not items: what a model was shown.
const (
	ShownPrompt = "prompt"
	ShownTool   = "tool"
)

// recalled reports whether a text repeats, entirely or almost, what was returned to a program or an
// agent of the user within the last day, or, with shown, what a model was shown. The memory that it
// repeats is reinforced.
func (s *Service) recalled(tx *storage.Tx, user uuid.UUID, text string, shown bool) (found bool, err error) {
	want := shingles(text)
	if len(want) == 0 {
		return false, nil
	}
	rows, err := tx.Query(`SELECT kind, item_id, shingles FROM recall_log WHERE user_id = ? AND at >= ? AND (? OR kind NOT IN (?, ?)) ORDER BY at DESC`,
		user, tx.Now.Add(-recallAge), shown, ShownPrompt, ShownTool)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	for rows.Next() {
		var kind string
		var item uuid.UUID
		var stored []byte
		if err := rows.Scan(&kind, &item, &stored); err != nil {
			return false, err
		}
		log, err := s.shinglesOf(item, stored)
		if err != nil {
			return false, err
		}
		if containment(want, log) < recallOverlap {
			continue
		}
		if kind == ShownPrompt || kind == ShownTool { // perhaps a memory too, which counts as used
			found = true
			continue
		}
		if kind != KindMemory {
			return true, nil
		}
		m, err := s.memory(tx, user, item)
		if fault.Is(err, fault.NotFound) { // deleted since
			return true, nil
		}
		if err != nil {
			return false, err
		}
		return true, use(tx, m)
	}
	return found, rows.Err()
}

// handedOut logs the items that a call is about to return to a program. Items shown to a
// person are not logged.
func (s *Service) handedOut(ctx context.Context, hits ...search.Hit) error {
	if byPerson(ctx) || identity.UserID(ctx) == uuid.Nil {
		return nil
	}
	id, _ := identity.From(ctx)
	session := id.Pipe
	if id.Session != uuid.Nil {
		session = id.Session.String()
	}
	return s.LogRecall(ctx, session, hits)
}

// shinglesOf decodes the hashes that noteRecall stored.
func (s *Service) shinglesOf(item uuid.UUID, stored []byte) ([]byte, error) {
	text, err := s.open("recall_log", "shingles", item, stored)
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(text)
}

// LogRecall records what a search returned to an agent, so that the agent does not store it again.
// It must be called before hits are passed to an agent. session is the agent's session.
func (s *Service) LogRecall(ctx context.Context, session string, hits []search.Hit) error {
	if len(hits) == 0 {
		return nil
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error { return s.logRecall(tx, identity.UserID(ctx), session, hits) })
}

// LogShown records a text that a model was shown and did not write, within the transaction that shows
// it. A model cannot store a near-copy of it as a memory; programs can. kind is ShownPrompt or ShownTool.
func (s *Service) LogShown(ctx context.Context, tx *storage.Tx, session, kind, text string) error {
	user, hash := identity.UserID(ctx), textHash(search.NormalText(text))
	id := uuid.UUID(hash[:16])
	done, err := tx.Exec(`UPDATE recall_log SET at = ? WHERE user_id = ? AND kind = ? AND item_id = ? AND session_id = ?`, tx.Now, user, kind, id, session)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n > 0 {
		return err
	}
	// Without the shorter runs: a few words may stand in a long output by chance.
	return s.storeRecall(tx, user, session, kind, id, packed(shingles(text)))
}

func (s *Service) logRecall(tx *storage.Tx, user uuid.UUID, session string, hits []search.Hit) error {
	for _, h := range hits {
		text, err := s.textOf(tx, user, h.Kind, h.ID)
		if err != nil {
			return err
		}
		for _, n := range h.Context { // neighbors are returned too
			text += "\n" + n.Text
		}
		if text == "" {
			continue
		}
		if err := s.noteRecall(tx, user, session, h.Kind, h.ID, text); err != nil {
			return err
		}
	}
	return nil
}

// noteRecall stores the hashes of a text together with those logged earlier for the same item, which may
// have been edited since or had other neighbors. Hashes reveal words, so private storage seals them.
func (s *Service) noteRecall(tx *storage.Tx, user uuid.UUID, session, kind string, id uuid.UUID, text string) error {
	log := logged(text)
	var stored []byte
	err := tx.QueryRow(`SELECT shingles FROM recall_log WHERE user_id = ? AND kind = ? AND item_id = ? AND session_id = ? AND at >= ?`,
		user, kind, id, session, tx.Now.Add(-recallAge)).Scan(&stored)
	switch {
	case errors.Is(err, sql.ErrNoRows):
	case err != nil:
		return err
	default:
		before, err := s.shinglesOf(id, stored)
		if err != nil {
			return err
		}
		if log = union(before, log); len(log) > maxLogged {
			log = logged(text)
		}
	}
	return s.storeRecall(tx, user, session, kind, id, log)
}

func (s *Service) storeRecall(tx *storage.Tx, user uuid.UUID, session, kind string, id uuid.UUID, log []byte) error {
	hashes, err := s.seal("recall_log", "shingles", id, base64.StdEncoding.EncodeToString(log))
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO recall_log (user_id, session_id, kind, item_id, shingles, at) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (user_id, kind, item_id, session_id) DO UPDATE SET shingles = excluded.shingles, at = excluded.at`, user, session, kind, id, hashes, tx.Now)
	return err
}

// textOf returns the full text of an item of the user, or "" if it does not exist.
func (s *Service) textOf(tx *storage.Tx, user uuid.UUID, kind string, id uuid.UUID) (string, error) {
	table := search.Table(kind)
	if table == "" {
		return "", nil
	}
	var text string
	err := tx.Select(`SELECT content FROM `+table+` WHERE id = ? AND user_id = ?`, id, user).Each(func(row storage.Row) error {
		var content []byte
		err := row.Scan(&content)
		if err == nil {
			text, err = s.open(table, "content", id, content)
		}
		return err
	})
	return text, err
}

// purgeRecall deletes the log of an item of a user, because the hashes reveal its words.
func purgeRecall(tx *storage.Tx, user uuid.UUID, kind string, id uuid.UUID) error {
	_, err := tx.Exec(`DELETE FROM recall_log WHERE user_id = ? AND kind = ? AND item_id = ?`, user, kind, id)
	return err
}
