package permission

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/storage"
)

// subjectGrants is the stored state of one subject of one user.
type subjectGrants struct {
	grants   map[Capability][]grant
	denials  []rule
	approved map[[32]byte]bool
	seen     bool // a definition is stored
	bound    bool // grants exist for another definition, suspended or active
	unbound  bool // a run grant is reserved for the next run
	count    int
}

// approves reports whether the definition is approved.
func (sh *subjectGrants) approves(hash [32]byte, info *SubjectInfo) bool {
	return info.Draft || sh.approved[hash] || hash == [32]byte{} && info.DefinitionHash == hash
}

// firstIsApproved reports whether the user's own definition counts as approved without a question,
// because there is no grant of an earlier definition that it would inherit.
func (sh *subjectGrants) firstIsApproved(hash [32]byte, info *SubjectInfo) bool {
	return info.Approved && hash == info.DefinitionHash && !sh.bound
}

// holds reports whether the grant behind a permission of a run is still active.
func (sh *subjectGrants) holds(h holding, now int64, hash [32]byte) bool {
	for i := range sh.grants[h.cap] {
		if g := &sh.grants[h.cap][i]; g.id == h.grant {
			return g.live(now, hash)
		}
	}
	return false
}

func subjectKey(kind, id string) string { return kind + "\x00" + id }

// grantsOf returns the state of a subject, from the cache unless fresh is set. gen is the
// generation of the user's permissions that it reflects.
func (s *Service) grantsOf(ctx context.Context, user uuid.UUID, sub Subject, fresh bool) (*subjectGrants, uint64, error) {
	key := subjectKey(sub.Kind, sub.ID)
	s.mu.RLock()
	gen := s.gens[user]
	if b := s.caches[user]; b != nil && !fresh {
		if sh := b.shelves[key]; sh != nil {
			s.mu.RUnlock()
			return sh, gen, nil
		}
	}
	s.mu.RUnlock()
	found, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) ([]*subjectGrants, error) { return loadGrants(tx, user, []Subject{sub}, s.space()) })
	if err != nil {
		return nil, 0, err
	}
	s.cacheGrants(user, gen, []Subject{sub}, found)
	return found[0], gen, nil
}

// loadUncached caches the state of those of subs that are not cached yet.
func (s *Service) loadUncached(tx *storage.Tx, user uuid.UUID, subs []Subject) error {
	var missing []Subject
	listed := map[string]bool{}
	s.mu.RLock()
	gen, b := s.gens[user], s.caches[user]
	for _, sub := range subs {
		key := subjectKey(sub.Kind, sub.ID)
		if !listed[key] && (b == nil || b.shelves[key] == nil) {
			missing = append(missing, sub)
		}
		listed[key] = true
	}
	s.mu.RUnlock()
	if len(missing) == 0 {
		return nil
	}
	found, err := loadGrants(tx, user, missing, s.space())
	if err != nil {
		return err
	}
	s.cacheGrants(user, gen, missing, found)
	return nil
}

// cacheGrants caches what was read at generation gen, unless the user's permissions have changed since.
func (s *Service) cacheGrants(user uuid.UUID, gen uint64, subs []Subject, found []*subjectGrants) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gens[user] != gen {
		return
	}
	for i, sub := range subs {
		s.userCacheLocked(user).shelves[subjectKey(sub.Kind, sub.ID)] = found[i]
	}
}

// loadGrants returns the state of each of subs, with one query a table.
func loadGrants(tx *storage.Tx, user uuid.UUID, subs []Subject, sp *space) ([]*subjectGrants, error) {
	found := make([]*subjectGrants, len(subs))
	keys := make([][2]string, len(subs))
	for i, sub := range subs {
		found[i] = &subjectGrants{grants: map[Capability][]grant{}, approved: map[[32]byte]bool{}}
		keys[i] = [2]string{sub.Kind, sub.ID}
	}
	list, err := json.Marshal(keys)
	if err != nil {
		return nil, err
	}
	err = tx.Select(`SELECT s.key, g.id, definition_hash, capability, resource, scope, run_id, session_id, coalesce(uses_left, 0), coalesce(expires_at, 0), suspended_at IS NOT NULL, origin, created_at
		FROM json_each(?) s CROSS JOIN capability_grants g ON user_id = ? AND subject_kind = s.value ->> 0 AND subject_id = s.value ->> 1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?) ORDER BY created_at, g.id`,
		string(list), user, tx.Now).Each(func(row storage.Row) error {
		var i int
		var g grant
		var hash, run, session []byte
		var pattern string
		if err := row.Scan(&i, &g.id, &hash, &g.cap, &pattern, &g.scope, &run, &session, &g.uses, &g.expires, &g.suspended, &g.origin, &g.created); err != nil {
			return err
		}
		copy(g.hash[:], hash)
		copy(g.run[:], run)
		copy(g.session[:], session)
		g.rule = compile(g.cap, pattern, sp, subs[i])
		sh := found[i]
		sh.grants[g.cap] = append(sh.grants[g.cap], g)
		sh.count++
		spent := g.scope == "once" && g.uses == 0
		sh.bound = sh.bound || !spent && (g.suspended || g.hash != subs[i].DefinitionHash)
		sh.unbound = sh.unbound || g.scope == "run" && g.run == uuid.Nil
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = tx.Select(`SELECT s.key, capability, resource FROM json_each(?) s CROSS JOIN capability_denials
		ON user_id = ? AND subject_kind IN (s.value ->> 0, '*') AND subject_id IN (s.value ->> 1, '*') AND deleted_at IS NULL`, string(list), user).Each(func(row storage.Row) error {
		var i int
		var c Capability
		var pattern string
		if err := row.Scan(&i, &c, &pattern); err != nil {
			return err
		}
		r := rule{cap: c, raw: pattern, any: true}
		if pattern != "*" && c != State {
			// A pattern that cannot be parsed, such as one from another device, denies everything
			// of its capability, because a denial must never become ineffective.
			normal, err := Normalize(c, pattern)
			if r = compile(c, normal, sp, subs[i]); err != nil || r.none {
				r = rule{cap: c, raw: pattern, any: true}
			}
		}
		found[i].denials = append(found[i].denials, r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, tx.Select(`SELECT s.key, hash, approved_at IS NOT NULL FROM json_each(?) s CROSS JOIN definitions
		ON user_id = ? AND subject_kind = s.value ->> 0 AND subject_id = s.value ->> 1`, string(list), user).Each(func(row storage.Row) error {
		var i int
		var h []byte
		var ok bool
		if err := row.Scan(&i, &h, &ok); err != nil {
			return err
		}
		found[i].seen = true
		if ok {
			found[i].approved[[32]byte(h)] = true
		}
		return nil
	})
}

// saveDefinition stores a definition. If by is "" it is not approved yet.
func saveDefinition(tx *storage.Tx, user uuid.UUID, sub Subject, doc json.RawMessage, by string) error {
	if len(doc) == 0 {
		doc = json.RawMessage("{}")
	}
	if _, err := tx.Exec(`INSERT INTO definitions (id, user_id, subject_kind, subject_id, hash, document, first_seen) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (user_id, subject_kind, subject_id, hash) DO UPDATE SET document = excluded.document WHERE document = '{}'`,
		storage.NewID(), user, sub.Kind, sub.ID, sub.DefinitionHash, doc, tx.Now); err != nil || by == "" {
		return err
	}
	_, err := tx.Exec(`UPDATE definitions SET approved_at = ?, approved_by = ? WHERE user_id = ? AND subject_kind = ? AND subject_id = ? AND hash = ? AND approved_at IS NULL`,
		tx.Now, by, user, sub.Kind, sub.ID, sub.DefinitionHash)
	return err
}

// adopt stores the first definition of a subject created by the user, so that a later change can be
// compared with it.
func (s *Service) adopt(ctx context.Context, user uuid.UUID, sub Subject, doc json.RawMessage) error {
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		tx.AfterCommit(func() { s.invalidate(user) })
		return saveDefinition(tx, user, sub, doc, "author")
	})
}

// newGrant is a grant to be stored.
type newGrant struct {
	sub     Subject
	item    Item
	scope   string
	run     uuid.UUID
	session uuid.UUID
	expires time.Time
	origin  string
	pending uuid.UUID
	uses    any
}

func insertGrant(tx *storage.Tx, user uuid.UUID, g newGrant) (uuid.UUID, error) {
	id := storage.NewID()
	if _, err := tx.Exec(`INSERT INTO capability_grants (id, user_id, device_id, subject_kind, subject_id, definition_hash, capability, resource, scope, run_id, session_id, uses_left, expires_at, origin, pending_id, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		id, user, tx.Device().ID, g.sub.Kind, g.sub.ID, g.sub.DefinitionHash, string(g.item.Capability), g.item.Resource, g.scope, g.run, g.session, g.uses, g.expires, g.origin, g.pending, tx.Now); err != nil {
		return id, err
	}
	return id, audit.Append(tx, audit.Entry{User: user, Action: audit.GrantCreated, SubjectKind: g.sub.Kind, SubjectID: g.sub.ID, RunID: g.run,
		Details: map[string]any{"grant": id, "capability": g.item.Capability, "resource": g.item.Resource, "scope": g.scope, "definitionHash": hexHash(g.sub.DefinitionHash)}})
}

// changed publishes permissions.changed and drops the cache once tx has committed.
func (s *Service) changed(tx *storage.Tx, user uuid.UUID, subjectID string) {
	tx.AfterCommit(func() {
		s.invalidate(user)
		bus.Publish(s.bus, user, Changed{SubjectID: subjectID})
	})
}
