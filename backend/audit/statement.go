package audit

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"slices"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/storage"
)

// What a statement accounts for.
const (
	coversStart   = "start"   // in the first statement: details up to here that were missing before there were statements
	coversDetails = "details" // details that were erased
	coversEntries = "entries" // entries that were pruned with their segments
	coversAlarm   = "alarm"   // an acknowledged alarm
)

// statement is the details of an entry that accounts for something missing or wrong. The device
// signs it separately, because anyone who can write to the file could write an entry that no
// segment covers yet.
type statement struct {
	Covers    string            `json:"covers"`
	Through   int64             `json:"throughSeq"`
	Count     int64             `json:"count"`
	User      string            `json:"userId,omitempty"`    // only this user's entries
	SubjectID string            `json:"subjectId,omitempty"` // only entries about it; for an alarm its code
	Before    string            `json:"before,omitempty"`    // the requested time
	Device    uuid.UUID         `json:"deviceId"`
	Seq       int64             `json:"seq"` // the entry that contains it
	Prev      string            `json:"prevHash"`
	Key       ed25519.PublicKey `json:"publicKey"`
	Signature []byte            `json:"signature"`
}

func (st *statement) message() []byte {
	b := prefix(nil, []byte("helix-audit-statement-v1"))
	b = prefix(b, st.Device[:])
	for _, n := range [...]int64{st.Seq, st.Through, st.Count} {
		b = prefixInt(b, n)
	}
	for _, f := range [...]string{st.Covers, st.User, st.SubjectID, st.Before, st.Prev} {
		b = prefix(b, []byte(f))
	}
	return b
}

func (st *statement) valid() bool {
	return len(st.Key) == ed25519.PublicKeySize && st.Through < st.Seq && ed25519.Verify(st.Key, st.message(), st.Signature)
}

// sign sets the fields of st for the entry after h, signs it and returns its JSON.
func (st *statement) sign(tx *storage.Tx, h head) (_ []byte, err error) {
	d := tx.Device()
	st.Device, st.Key, st.Seq, st.Prev = d.ID, d.PublicKey, h.seq+1, hexOf(h.hash)
	if st.Signature, err = tx.Sign(st.message()); err != nil {
		return nil, err
	}
	return json.Marshal(st)
}

func parseStatement(details []byte) *statement {
	var st statement
	if json.Unmarshal(details, &st) != nil || st.Covers == "" || !st.valid() {
		return nil
	}
	return &st
}

// statementActions lists the actions whose details may be a statement. These are never erased, nor are those
// of a key change, which later signatures need.
const statementActions = `'audit.segment', 'data.erase', 'audit.pruned', 'audit.accepted'`
const keepsDetails = statementActions + `, 'auth.device_key'`

// statements returns the statements in the log that are signed by one of the keys and are at the
// position they name.
func statements(tx *storage.Tx, keys []ed25519.PublicKey) (out []statement, err error) {
	err = tx.Select(`SELECT l.seq, l.device_id, l.prev_hash, d.details FROM audit_log l INDEXED BY audit_log_action CROSS JOIN audit_details d ON d.seq = l.seq WHERE l.action IN (` + statementActions + `) ORDER BY l.seq`).Each(func(row storage.Row) error {
		var seq int64
		var dev, prev, details []byte
		if err := row.Scan(&seq, &dev, &prev, &details); err != nil {
			return err
		}
		st := parseStatement(details)
		if st == nil || st.Seq != seq || string(dev) != string(st.Device[:]) || st.Prev != hexBytes(prev) {
			return nil
		}
		if slices.ContainsFunc(keys, func(k ed25519.PublicKey) bool { return k.Equal(st.Key) }) {
			out = append(out, *st)
		}
		return nil
	})
	return out, err
}

// firstStatement returns the details of the first mark. From then on everything missing needs a
// statement. In a log of an earlier version it counts what was missing at that time.
func (s *Service) firstStatement(tx *storage.Tx, through int64) (any, error) {
	if s.statementSeq.Load() > 0 {
		return nil, nil
	}
	st := &statement{Covers: coversStart, Through: through}
	none := noDetails
	err := tx.QueryRow(`SELECT count(*) FROM audit_log l WHERE l.details_hash <> ? AND NOT EXISTS (SELECT 1 FROM audit_details d WHERE d.seq = l.seq)`, none[:]).Scan(&st.Count)
	return st, err
}

// findStatement sets statementSeq to the position of a statement in the log, or to 0 if there is none. It
// searches only if the statement found before no longer exists.
func (s *Service) findStatement(ctx context.Context, keys []ed25519.PublicKey) error {
	return s.db.Read(ctx, func(tx *storage.Tx) error {
		var there bool
		if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM audit_details WHERE seq = ?)`, s.statementSeq.Load()).Scan(&there); err != nil || there {
			return err
		}
		sts, err := statements(tx, keys)
		if err != nil {
			return err
		}
		s.statementSeq.Store(0)
		if n := len(sts); n > 0 {
			s.statementSeq.Store(sts[n-1].Seq)
		}
		return nil
	})
}

// Accept acknowledges an alarm, so that verification no longer reports it. A current problem with
// the head file is first recorded as an alarm, and a new head is written.
func (s *Service) Accept(ctx context.Context, p AcceptParams) (AcceptResult, error) {
	if err := s.Sign(ctx); err != nil {
		return AcceptResult{}, err
	}
	keys, err := s.trusted(ctx)
	if err != nil {
		return AcceptResult{}, err
	}
	var res AcceptResult
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		res = AcceptResult{}
		sts, err := statements(tx, keys)
		if err != nil {
			return err
		}
		var done int64
		for _, st := range sts {
			if st.Covers == coversAlarm && st.SubjectID == p.Problem {
				done = max(done, st.Through)
			}
		}
		st := &statement{Covers: coversAlarm, SubjectID: p.Problem}
		if err := tx.QueryRow(`SELECT count(*), coalesce(max(seq), 0) FROM audit_log WHERE seq > ?1 AND (action = ?2 AND subject_id = ?3 OR ?3 = ?4 AND action = ?5 AND outcome = ?6)`,
			done, Alarm, p.Problem, ProblemTruncated, SegmentClosed, Failed).Scan(&st.Count, &st.Through); err != nil {
			return err
		}
		if st.Count == 0 {
			return fault.NotFoundf("The log has no alarm of this kind to accept. Problems with entries or signatures can't be accepted.")
		}
		res.Seq = st.Through
		return Append(tx, Entry{Action: Accepted, SubjectKind: "head", SubjectID: p.Problem, Details: st})
	})
	if err != nil {
		return AcceptResult{}, err
	}
	return res, s.Sign(ctx)
}

// latest removes statements about users not in own, and those included in a later one of the same kind.
func latest(sts []statement, own []uuid.UUID) (out []statement) {
	type key struct{ covers, user, subject string }
	at := map[key]int{}
	for _, st := range sts {
		k := key{st.Covers, st.User, st.SubjectID}
		i, ok := at[k]
		switch {
		case st.User != "" && !slices.ContainsFunc(own, func(id uuid.UUID) bool { return id.String() == st.User }):
		case !ok:
			at[k] = len(out)
			out = append(out, st)
		case st.Covers != coversStart && st.Through >= out[i].Through:
			out[i] = st
		}
	}
	return out
}

// coverage is what statements account for, indexed for lookup by entry.
type coverage struct {
	all      int64 // details of all users up to here
	byUser   map[uuid.UUID]int64
	bySubj   map[subjectOf]int64
	entries  int64 // entries up to here were pruned
	alarms   map[string]int64
	start    *statement
	first    int64               // the first statement: earlier entries are of an earlier version
	at       map[int64]string    // required position of each: seq → previous hash
	keys     []ed25519.PublicKey // that signed them
	newest   int64
	complete bool // everything without a statement is a problem, even if there are no statements
}

type subjectOf struct {
	user uuid.UUID
	id   string
}

func newCoverage(sts []statement) (*coverage, error) {
	c := &coverage{byUser: map[uuid.UUID]int64{}, bySubj: map[subjectOf]int64{}, alarms: map[string]int64{}, at: map[int64]string{}, complete: len(sts) > 0}
	for i := range sts {
		st := &sts[i]
		if !st.valid() {
			return c, errors.New("a statement that nobody signed")
		}
		if c.first == 0 || st.Seq < c.first {
			c.first = st.Seq
		}
		c.at[st.Seq], c.newest = st.Prev, max(c.newest, st.Seq)
		if !slices.ContainsFunc(c.keys, func(k ed25519.PublicKey) bool { return k.Equal(st.Key) }) {
			c.keys = append(c.keys, st.Key)
		}
		var user uuid.UUID
		if st.User != "" {
			var err error
			if user, err = uuid.Parse(st.User); err != nil {
				return c, err
			}
		}
		switch {
		case st.Covers == coversStart && (c.start == nil || st.Seq < c.start.Seq):
			c.start = st
		case st.Covers == coversEntries:
			c.entries = max(c.entries, st.Through)
		case st.Covers == coversAlarm:
			c.alarms[st.SubjectID] = max(c.alarms[st.SubjectID], st.Through)
		case st.Covers == coversDetails && st.SubjectID != "":
			k := subjectOf{user, st.SubjectID}
			c.bySubj[k] = max(c.bySubj[k], st.Through)
		case st.Covers == coversDetails && user != uuid.Nil:
			c.byUser[user] = max(c.byUser[user], st.Through)
		case st.Covers == coversDetails:
			c.all = max(c.all, st.Through)
		}
	}
	return c, nil
}

// details reports whether a statement says that the details of r were erased.
func (c *coverage) details(r *row) bool {
	if kept(r.Action) {
		return false
	}
	return r.Seq <= c.all || r.Seq <= c.byUser[r.User] || r.Seq <= c.bySubj[subjectOf{r.User, r.SubjectID}]
}

// bearsStatement reports whether r was written with a statement. Entries of an earlier version have
// none: their subject is of another kind, or they are marks without details.
func bearsStatement(r *row) bool {
	switch r.Action {
	case SegmentClosed:
		return r.Outcome == OK
	case DataErase:
		return r.SubjectKind == coversDetails
	case Pruned:
		return r.SubjectKind == coversEntries
	case Accepted:
		return true
	}
	return false
}

func kept(action string) bool {
	switch action {
	case SegmentClosed, DataErase, Pruned, Accepted, KeyChanged:
		return true
	}
	return false
}
