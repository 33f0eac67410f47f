package memory

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/memory/search"
	"helix/backend/storage"
)

// draft is a memory about to be stored, validated and normalized.
type draft struct {
	content    string
	hash       [32]byte
	typ        string
	layer      int
	tags       []string
	occurredAt *time.Time
	tier       string
	salience   float64
	pinned     bool
	source     string
	sourceRef  string
	metadata   json.RawMessage
	untrusted  bool
	dedupe     bool
	valence    *float64
	byAgent    bool     // an agent wants to store it
	byModel    bool     // a model wrote it, and may repeat what it was shown
	key        []string // natural key of the record in an import; the id is derived from it
	place      int      // position among the memories of one transaction, in listing order
}

// checkDraft validates and normalizes what a caller wants to store. at is the prefix of the field
// paths in errors.
func checkDraft(ctx context.Context, at string, p AddParams) (d *draft, err error) {
	d = &draft{typ: p.Type, tier: p.SalienceTier, pinned: p.Pinned, source: p.Source, sourceRef: p.SourceRef, occurredAt: p.OccurredAt,
		dedupe: p.Dedupe == nil || *p.Dedupe}
	if d.content, err = checkContent(at+"content", p.Content); err != nil {
		return nil, err
	}
	d.hash = textHash(d.content)
	if d.typ == "" {
		d.typ = "episodic"
	}
	if err := checkType(at+"type", d.typ); err != nil {
		return nil, err
	}
	if p.Layer != nil {
		if err := checkLayer(at+"layer", *p.Layer); err != nil {
			return nil, err
		}
		d.layer = *p.Layer
	}
	if d.tags, err = checkTags(at+"tags", p.Tags); err != nil {
		return nil, err
	}
	if err := checkTime(at+"occurredAt", d.occurredAt); err != nil {
		return nil, err
	}
	if d.source == "" {
		d.source = "manual"
	}
	if !slices.Contains(sources, d.source) {
		return nil, invalid(at+"source", "%q is not a memory source.", clip(d.source, 32))
	}
	if d.source == "manual" && !byPerson(ctx) {
		d.source = "agent" // only a person writes by hand
	}
	d.byAgent = d.source == "agent" || !byPerson(ctx)
	d.byModel = d.source == "agent" || p.byModel
	if d.byAgent && d.sourceRef == "" {
		d.sourceRef = p.Session // the session that produced it
	}
	if len(d.sourceRef) > maxRef {
		return nil, invalid(at+"sourceRef", "sourceRef is longer than 4 KiB.")
	}
	if d.tier == "" && p.Signals != nil {
		_, d.tier = Score(*p.Signals)
	}
	if d.tier == "" {
		d.tier = "medium"
	}
	if d.valence = p.EmotionalValence; d.valence != nil {
		if err := checkValence(at+"emotionalValence", *d.valence); err != nil {
			return nil, err
		}
	}
	if d.salience, err = salienceOf(at+"salienceTier", d.tier); err != nil {
		return nil, err
	}
	if d.tier == "critical" && (d.byAgent || d.source == "tool" || !mayTrust(ctx)) {
		return nil, errCritical()
	}
	d.untrusted = slices.Contains(foreign, d.source)
	if p.Untrusted != nil {
		if d.untrusted && !*p.Untrusted && !mayTrust(ctx) {
			return nil, errTrust()
		}
		d.untrusted = *p.Untrusted
	}
	d.metadata, err = checkMetadata(at+"metadata", p.Metadata)
	return d, err
}

// Add stores one memory. With Dedupe, a text that already exists is not stored again; the existing
// memory gets the missing tags and is returned with Deduplicated set. If the caller is a program or
// an agent and the text was returned to one in the last day, nothing is stored: the memory that the
// text repeats is reinforced, and the result has no item.
func (s *Service) Add(ctx context.Context, p AddParams) (AddResult, error) {
	d, err := checkDraft(ctx, "", p)
	if err != nil {
		return AddResult{}, err
	}
	return storage.Result(ctx, s.db.Write, func(tx *storage.Tx) (AddResult, error) { return s.addTx(tx, identity.UserID(ctx), d) })
}

// announce publishes "add" for the new memories in results and "update" for the deduplicated ones.
func announce(tx *storage.Tx, user uuid.UUID, results ...AddResult) {
	var added, known []uuid.UUID
	for _, r := range results {
		switch {
		case r.Item == nil:
		case r.Deduplicated:
			known = append(known, r.Item.ID)
		default:
			added = append(added, r.Item.ID)
		}
	}
	changed(tx, user, "add", added...)
	changed(tx, user, "update", known...)
}

// AddBatch stores several memories. A rejected item has its Error set and does not stop the others.
func (s *Service) AddBatch(ctx context.Context, p AddBatchParams) (AddBatchResult, error) {
	switch {
	case len(p.Items) == 0:
		return AddBatchResult{}, invalid("items", "Nothing to store.")
	case len(p.Items) > maxIDs:
		return AddBatchResult{}, invalid("items", "%d items are too many; %d are allowed at once.", len(p.Items), maxIDs)
	}
	out := AddBatchResult{Items: make([]AddBatchItem, len(p.Items))}
	drafts := make([]*draft, len(p.Items))
	for i, item := range p.Items {
		var err error
		if drafts[i], err = checkDraft(ctx, "", item); err != nil {
			f := fault.As(err)
			out.Items[i].Error = &ItemError{Kind: string(f.Kind), Message: f.Message}
		}
	}
	err := s.db.Write(ctx, func(tx *storage.Tx) (err error) {
		results := make([]AddResult, len(drafts))
		for i, d := range drafts {
			if d == nil {
				continue
			}
			if results[i], err = s.storeDraft(tx, identity.UserID(ctx), d); err != nil {
				return err
			}
			out.Items[i].AddResult = results[i]
		}
		announce(tx, identity.UserID(ctx), results...)
		return nil
	})
	if err != nil {
		return AddBatchResult{}, err
	}
	return out, nil
}

func (s *Service) addTx(tx *storage.Tx, user uuid.UUID, d *draft) (AddResult, error) {
	r, err := s.storeDraft(tx, user, d)
	if err == nil {
		announce(tx, user, r)
	}
	return r, err
}

// storeDraft stores a draft unless its text already exists or repeats text that memory returned recently.
func (s *Service) storeDraft(tx *storage.Tx, user uuid.UUID, d *draft) (AddResult, error) {
	if d.byAgent {
		if known, err := s.recalled(tx, user, d.content, d.byModel); err != nil || known {
			return AddResult{Deduplicated: known}, err
		}
	}
	if d.dedupe {
		m, err := s.sameText(tx, user, d)
		if err != nil {
			return AddResult{}, err
		}
		if m != nil {
			return AddResult{Item: &m.Item, Deduplicated: true}, nil
		}
	}
	m, err := s.insertTx(tx, user, d)
	if err != nil {
		return AddResult{}, err
	}
	return AddResult{Item: &m.Item}, nil
}

// sameText finds the memory with the same text as d, adds the tags it lacks and reinforces it. It
// returns nil if there is no such memory.
func (s *Service) sameText(tx *storage.Tx, user uuid.UUID, d *draft) (*memoryRow, error) {
	var id uuid.UUID
	err := tx.QueryRow(`SELECT id FROM memories INDEXED BY memories_hash
		WHERE user_id = ? AND content_hash = ? AND deleted_at IS NULL ORDER BY created_at, id LIMIT 1`, user, d.hash[:]).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := s.memory(tx, user, id)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, tag := range d.tags {
		if !slices.Contains(m.Tags, tag) && len(m.Tags)+len(missing) < maxTags {
			missing = append(missing, tag)
		}
	}
	if len(missing) > 0 {
		if err := s.retag(tx, m, missing, nil); err != nil {
			return nil, err
		}
		if err := s.search.Put(tx, m.entry()); err != nil {
			return nil, err
		}
	}
	if err := reinforce(tx, m, gainConfirm); err != nil {
		return nil, err
	}
	return m, nil
}

// insertTx inserts a draft as a new memory and indexes it for search. It publishes no event.
func (s *Service) insertTx(tx *storage.Tx, user uuid.UUID, d *draft) (*memoryRow, error) {
	id, err := s.insertRow(tx, user, d)
	if err != nil {
		return nil, err
	}
	for _, tag := range d.tags {
		if _, err := tx.Exec(`INSERT INTO memory_tags (memory_id, user_id, tag) VALUES (?, ?, ?)`, id, user, tag); err != nil {
			return nil, err
		}
	}
	m := &memoryRow{user: user, hash: d.hash, Item: Item{
		ID: id, Type: d.typ, Title: search.TitleOf(d.metadata), Content: d.content, Layer: d.layer, Tags: d.tags, Source: d.source, SourceRef: d.sourceRef,
		Untrusted: d.untrusted, Salience: d.salience, SalienceTier: d.tier, Pinned: d.pinned, EmotionalValence: d.valence, OccurredAt: micros(d.occurredAt), InitialStrength: 1,
		EmbeddingState: "none", Metadata: d.metadata, Version: 1, CreatedAt: d.at(tx), UpdatedAt: d.at(tx),
	}}
	if s.o.Embedder != nil {
		m.EmbeddingState = "queued"
	}
	if err := s.search.Put(tx, m.entry()); err != nil {
		return nil, err
	}
	return m, nil
}

// at returns the creation time of the new memory.
func (d *draft) at(tx *storage.Tx) time.Time {
	return tx.Now.Add(duration.Of(d.place, time.Microsecond))
}

// insertRow inserts the row of a draft and assigns its id.
func (s *Service) insertRow(tx *storage.Tx, user uuid.UUID, d *draft) (id uuid.UUID, err error) {
	for generation := 0; ; generation++ {
		if id = storage.NewID(); d.key != nil {
			id = s.rootID(user, generation, d.key...)
		}
		content, err := s.seal("memories", "content", id, d.content)
		if err != nil {
			return id, err
		}
		if done, err := updateRow(tx, `INSERT INTO memories (id, user_id, type, content, occurred_at, layer, source, source_ref, untrusted, content_hash,
			salience, salience_tier, pinned, emotional_valence, metadata, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
			id, user, d.typ, content, d.occurredAt, nullInt(d.layer), d.source, storage.NullText(d.sourceRef), d.untrusted, d.hash[:],
			d.salience, d.tier, d.pinned, d.valence, d.metadata, d.at(tx), d.at(tx)); done || err != nil {
			return id, err
		}
	}
}

// micros converts a time to its stored form: UTC, with microsecond precision.
func micros(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := time.UnixMicro(t.UnixMicro()).UTC()
	return &u
}

// Fractions of the lost retention that a reinforcement restores, 0 to 1.
const (
	gainReview  = 0.3 // the person opened it
	gainConfirm = 0.5 // it was pinned or stated again
	gainEdit    = 0.5
	gainUse     = 0.2 // an answer or a program used it

	useEvery = time.Hour // minimum time between two reinforcements by use
)

// reinforce records that a memory was pinned, confirmed, opened or cited. It increments the
// version, so that a retention computed from the previous row does not overwrite it.
func reinforce(tx *storage.Tx, m *memoryRow, gain float64) error {
	m.Version++
	return strengthen(tx, m, gain)
}

// strengthen is reinforce as part of a change that has already incremented m.Version.
func strengthen(tx *storage.Tx, m *memoryRow, gain float64) error {
	retained := m.InitialStrength // no decay has been computed yet
	if m.Retention != nil {
		retained = *m.Retention
	}
	strength := min(1, retained+gain*(1-retained))
	if _, err := tx.Exec(`UPDATE memories SET access_count = access_count + 1, last_accessed = ?, last_reinforced_at = ?, initial_strength = ?,
		retention = CASE WHEN retention IS NULL THEN NULL ELSE ? END, decayed_at = CASE WHEN retention IS NULL THEN decayed_at ELSE ? END, version = ? WHERE id = ?`,
		tx.Now, tx.Now, strength, strength, tx.Now, m.Version, m.ID); err != nil {
		return err
	}
	now := tx.Now
	m.AccessCount, m.LastAccessed, m.LastReinforcedAt, m.InitialStrength = m.AccessCount+1, &now, &now, strength
	if m.Retention != nil {
		m.Retention = &strength
	}
	if m.stored != nil {
		m.stored, m.decayedAt = &strength, &now
	}
	return nil
}

// use reinforces a memory that an answer or a program used, unless it was reinforced within the
// last hour. Repeated use within an hour must not strengthen it each time.
func use(tx *storage.Tx, m *memoryRow) error {
	if m.LastReinforcedAt != nil && tx.Now.Sub(*m.LastReinforcedAt) < useEvery {
		return nil
	}
	return reinforce(tx, m, gainUse)
}

// reinforceUndo holds the values of a memory before a reinforcement.
type reinforceUndo struct {
	ID        uuid.UUID  `json:"id"`
	Strength  float64    `json:"strength"`
	At        *time.Time `json:"at"`
	Retention *float64   `json:"retention"`
	Set       int64      `json:"set"` // the version after the reinforcement
}

// Reinforce records that memories were reviewed or confirmed. gain is the fraction of the lost retention
// to restore, 0 to 1. With hourly set, memories that were reinforced within the last hour are skipped.
func (s *Service) Reinforce(ctx context.Context, ids []uuid.UUID, gain float64, hourly bool) (ItemsResult, error) {
	return s.changeMany(ctx, ids, undoReinforce, func(tx *storage.Tx, m *memoryRow) (any, error) {
		if hourly && m.LastReinforcedAt != nil && tx.Now.Sub(*m.LastReinforcedAt) < useEvery {
			return nil, nil
		}
		u := reinforceUndo{m.ID, m.InitialStrength, m.LastReinforcedAt, m.stored, m.Version + 1}
		return u, reinforce(tx, m, gain)
	})
}

// Get returns one memory. Touch means that the person opened it, which reinforces it.
func (s *Service) Get(ctx context.Context, p GetParams) (Item, error) {
	id, err := parseID("id", p.ID)
	if err != nil {
		return Item{}, err
	}
	var m *memoryRow
	read := func(tx *storage.Tx) (err error) {
		m, err = s.memory(tx, identity.UserID(ctx), id)
		return err
	}
	caller, _ := identity.From(ctx)
	if !p.Touch || !caller.Scopes.Has(identity.Write) {
		err = s.db.Read(ctx, read)
	} else {
		err = s.db.Write(ctx, func(tx *storage.Tx) error {
			if err := read(tx); err != nil {
				return err
			}
			return reinforce(tx, m, gainReview)
		})
	}
	if err != nil {
		return Item{}, err
	}
	return m.Item, s.handedOut(ctx, search.Hit{ID: m.ID, Kind: KindMemory})
}

// CiteTx reinforces the memories of the caller that an agent's answer cites, each at most once an
// hour. Other ids are skipped.
func (s *Service) CiteTx(ctx context.Context, tx *storage.Tx, ids []uuid.UUID) error {
	ms, err := s.memoriesOf(tx, identity.UserID(ctx), ids)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	for i := 0; err == nil && i < len(ms); i++ {
		err = use(tx, ms[i])
	}
	return err
}
