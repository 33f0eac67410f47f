package memory

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/memory/search"
	"helix/backend/storage"
)

// storeState is the state of the memory store in a Service.
type storeState struct{ words wordsSize }

func (s *Service) initStore() {
	s.background = append(s.background, s.runSealing, s.runCleanup)
}

// memoryRow is a row of memories with its tags.
type memoryRow struct {
	Item
	user      uuid.UUID
	hash      [32]byte
	decayedAt *time.Time
	stored    *float64 // the retention of the last run; Retention is the current one
}

// rowColumns lists the columns that scanMemory reads, of memories m. The embedding state is that of
// the active model.
const rowColumns = `m.id, m.user_id, m.type, m.content, m.layer, m.source, m.source_ref, m.untrusted, m.content_hash, m.salience, m.salience_tier,
	m.pinned, m.emotional_valence, m.access_count, m.occurred_at, m.last_accessed, m.last_reinforced_at, m.initial_strength, m.retention, m.decayed_at,
	m.metadata, m.version, m.created_at, m.updated_at, m.deleted_at,
	(SELECT json_group_array(t.tag ORDER BY t.tag) FROM memory_tags t WHERE t.memory_id = m.id),
	CASE
		WHEN EXISTS (SELECT 1 FROM item_vectors v JOIN vector_meta g ON g.model_id = v.model_id AND g.state = 'active'
			WHERE v.item_kind = 'memory' AND v.item_id = m.id AND v.text_hash = m.content_hash) THEN 'ready'
		WHEN EXISTS (SELECT 1 FROM search_items i JOIN embedding_jobs j ON j.item = i.item WHERE i.kind = 'memory' AND i.item_id = m.id AND j.error IS NULL) THEN 'queued'
		WHEN EXISTS (SELECT 1 FROM search_items i JOIN embedding_jobs j ON j.item = i.item WHERE i.kind = 'memory' AND i.item_id = m.id) THEN 'failed'
		WHEN EXISTS (SELECT 1 FROM item_vectors v WHERE v.item_kind = 'memory' AND v.item_id = m.id) THEN 'stale'
		ELSE 'none' END`

func (s *Service) scanMemory(r storage.Row) (*memoryRow, error) {
	m := &memoryRow{}
	var content, hash []byte
	var layer sql.NullInt64
	var ref sql.NullString
	var valence, retention sql.NullFloat64
	err := r.Scan(&m.ID, &m.user, &m.Type, &content, &layer, &m.Source, &ref, &m.Untrusted, &hash, &m.Salience, &m.SalienceTier,
		&m.Pinned, &valence, &m.AccessCount, storage.TimePtr(&m.OccurredAt), storage.TimePtr(&m.LastAccessed), storage.TimePtr(&m.LastReinforcedAt),
		&m.InitialStrength, &retention, storage.TimePtr(&m.decayedAt), storage.JSON(&m.Metadata), &m.Version,
		storage.Time(&m.CreatedAt), storage.Time(&m.UpdatedAt), storage.TimePtr(&m.DeletedAt), storage.JSON(&m.Tags), &m.EmbeddingState)
	if err != nil {
		return nil, err
	}
	copy(m.hash[:], hash)
	m.Layer, m.SourceRef = int(layer.Int64), ref.String
	if valence.Valid {
		m.EmotionalValence = &valence.Float64
	}
	if retention.Valid {
		m.Retention, m.stored = &retention.Float64, &retention.Float64
	}
	m.Title = search.TitleOf(m.Metadata)
	m.Content, err = s.open("memories", "content", m.ID, content)
	return m, err
}

// memoriesWhere reads the rows of memories m that rest selects.
func (s *Service) memoriesWhere(tx *storage.Tx, rest string, args ...any) ([]*memoryRow, error) {
	list, err := storage.Collect(tx.Select(`SELECT `+rowColumns+` FROM memories m `+rest, args...), s.scanMemory)
	if err != nil {
		return nil, err
	}
	return list, s.fade(tx, list...)
}

func errNoMemory() error { return fault.NotFoundf("Memory not found.") }

// memory returns a memory of user, or a NotFound error if it does not exist or is in the trash.
func (s *Service) memory(tx *storage.Tx, user, id uuid.UUID) (*memoryRow, error) {
	m, err := s.scanMemory(tx.QueryRow(`SELECT `+rowColumns+` FROM memories m WHERE m.id = ? AND m.user_id = ? AND m.deleted_at IS NULL`, id, user))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoMemory()
	}
	if err != nil {
		return nil, err
	}
	return m, s.fade(tx, m)
}

// memoriesOf returns those of ids that belong to user and are not in the trash, in the order of
// ids. If there are none the error is NotFound.
func (s *Service) memoriesOf(tx *storage.Tx, user uuid.UUID, ids []uuid.UUID) ([]*memoryRow, error) {
	out := make([]*memoryRow, 0, len(ids))
	for _, id := range ids {
		m, err := s.memory(tx, user, id)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	if len(out) == 0 {
		return nil, errNoMemory()
	}
	return out, nil
}

// entry returns the memory as a search entry.
func (m *memoryRow) entry() *search.Entry {
	return &search.Entry{
		Kind: KindMemory, ID: m.ID, User: m.user, Title: m.Title, Tags: m.Tags, Text: m.Content, Hash: m.hash, Type: m.Type, Layer: m.Layer,
		Source: m.Source, Untrusted: m.Untrusted, Pinned: m.Pinned, Salience: m.Salience, Retention: m.stored, OccurredAt: m.OccurredAt, CreatedAt: m.CreatedAt,
	}
}

// attributes is entry for a memory whose words did not change.
func (m *memoryRow) attributes() *search.Entry {
	e := m.entry()
	e.AlreadyKnown = true
	return e
}

// parseID parses the id of a memory: a UUID with or without hyphens, or note-<uuid>.
func parseID(field, text string) (uuid.UUID, error) {
	id, err := uuid.Parse(strings.TrimPrefix(strings.TrimSpace(text), "note-"))
	if err != nil || id == uuid.Nil {
		return uuid.Nil, invalid(field, "%q is not the id of a memory.", clip(text, 64))
	}
	return id, nil
}

// parseIDs parses 1 to 1,000 ids and removes duplicates.
func parseIDs(one string, many []string) ([]uuid.UUID, error) {
	if one != "" {
		many = append([]string{one}, many...)
	}
	switch {
	case len(many) == 0:
		return nil, invalid("ids", "Give at least one memory.")
	case len(many) > maxIDs:
		return nil, invalid("ids", "%d ids are too many; %d are allowed at once.", len(many), maxIDs)
	}
	out := make([]uuid.UUID, 0, len(many))
	seen := make(map[uuid.UUID]bool, len(many))
	for _, text := range many {
		id, err := parseID("ids", text)
		if err != nil {
			return nil, err
		}
		if !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out, nil
}

const (
	maxIDs   = 1000
	eventIDs = 100
	pageSize = 50
	maxPage  = 200
)

func invalid(field, format string, args ...any) error {
	return fault.InvalidField(field, fault.CodeInvalid, format, args...)
}

// clip truncates a text for a message.
func clip(text string, n int) string {
	r := []rune(text)
	if len(r) <= n {
		return text
	}
	return string(r[:n]) + "…"
}

// changed publishes memory.changed once tx has committed, with at most 100 ids.
func changed(tx *storage.Tx, user uuid.UUID, op string, ids ...uuid.UUID) {
	if len(ids) == 0 {
		return
	}
	e := Changed{IDs: slices.Clone(ids), Op: op}
	if len(ids) > eventIDs {
		e.IDs, e.Many = e.IDs[:eventIDs], true
	}
	tx.AfterCommit(func() { bus.Publish(tx.Bus(), user, e) })
}

// byPerson reports whether a person makes the call.
func byPerson(ctx context.Context) bool {
	id, _ := identity.From(ctx)
	return id.Person()
}

// mayTrust reports whether the caller can mark a text as trusted, or a memory as critical. This
// requires a person with the scope to approve, such as in the window, in the browser or at the
// command line. A program that can only write cannot, whatever it claims to be.
func mayTrust(ctx context.Context) bool {
	id, _ := identity.From(ctx)
	return id.MayApprove()
}

func errTrust() error {
	return fault.Deniedf("Only a person can mark a source as trusted. Nothing was changed.")
}

// origin returns who makes a change, for its revision.
func origin(ctx context.Context) string {
	if byPerson(ctx) {
		return "person"
	}
	return "agent"
}

func nullInt(n int) any {
	if n == 0 {
		return nil
	}
	return n
}
