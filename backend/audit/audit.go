// Package audit records what was requested, decided and done so that later changes to the log are
// detectable, even offline: one hash chain per device, signed in segments by the device key. Append
// writes an entry in the transaction of the action it describes. Permission and everything above
// the foundation may import it.
package audit

import (
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// The actions of runs, and of the parts of Helix that this package knows. Other domains define
// their own in the same form: noun, period, verb.
const (
	Start           = "start"
	PermissionCheck = "permission_check"
	ResourceAccess  = "resource_access"
	NetworkCall     = "network_call"
	Complete        = "complete"
	Error           = "error"

	ApprovalRequested = "approval.requested"
	ApprovalDecided   = "approval.decided"
	ApprovalExpired   = "approval.expired"
	GrantCreated      = "grant.created"
	GrantRevoked      = "grant.revoked"
	GrantSuspended    = "grant.suspended"
	DefinitionChanged = "definition.changed"
	SecretUsed        = "secret.used"
	DataErase         = "data.erase"
	DataExport        = "data.export"
	SegmentClosed     = "audit.segment"
	Pruned            = "audit.pruned"
	Alarm             = "audit.alarm"    // the head file did not match the log
	Accepted          = "audit.accepted" // a person acknowledged an alarm
	LogReplaced       = "audit.replaced" // a restored database has a log of its own
	KeyChanged        = "auth.device_key"
	UserRekeyed       = "user.rekeyed" // the subject is the user's former id
)

// The outcomes that this package and permission write. Domains may add others.
const (
	OK      = "ok"
	Denied  = "denied"
	Failed  = "error"
	Pending = "pending"
)

// TokenActor is the kind of an actor who authenticated with a created token. The actor id
// is that of the token.
const TokenActor = "token"

// Entry is one event in the log.
type Entry struct {
	User        uuid.UUID // owner of the entry; zero: the caller of the transaction, else the local user
	ActorKind   string    // user, token, tool, skill, agent, schedule, system …; "" with ActorID "": the caller
	ActorID     string
	Action      string // required
	SubjectKind string // what the action was performed on or by
	SubjectID   string
	Outcome     string    // "" is OK
	RunID       uuid.UUID // zero: none
	Details     any       // JSON, redacted and truncated to 8 KiB; nil: none
}

// Appended is published for each committed entry.
type Appended struct {
	Seq     int64       `json:"seq"`
	Action  string      `json:"action"`
	Subject WireSubject `json:"subject"`
	Outcome string      `json:"outcome"`
}

const maxName = 256 // bytes of a kind or an id

// Append writes e as the next entry of this device's chain, in tx, so that the entry is committed
// together with the action. Secret values in the details are replaced before hashing. An action
// outside the database needs two entries: Start, committed before it, and Complete or Error after
// it; Service.Record commits entries in a transaction of their own.
//
// The error is Unavailable while this installation has no device key (locked or in recovery mode),
// and Invalid for an entry without an action or with a name above 256 bytes.
func Append(tx *storage.Tx, e Entry) error {
	_, err := appendEntry(tx, e)
	return err
}

func appendEntry(tx *storage.Tx, e Entry) (int64, error) {
	dev := tx.Device().ID
	if dev == uuid.Nil {
		return 0, fault.Unavailablef("The audit log cannot be written because the key of this device is locked.")
	}
	if err := e.fill(tx); err != nil {
		return 0, err
	}
	s := serviceOf(tx)
	st, stated := e.Details.(*statement)
	var details []byte
	var err error
	if !stated {
		if details, err = encodeDetails(e.Details, s.redactor()); err != nil {
			return 0, err
		}
	}
	r := row{
		ID: storage.NewID(), User: e.User, Device: dev, ActorKind: e.ActorKind, ActorID: e.ActorID, Action: e.Action,
		SubjectKind: e.SubjectKind, SubjectID: e.SubjectID, Outcome: e.Outcome, Run: e.RunID,
	}
	insert := func(h head) (err error) {
		if stated {
			if details, err = st.sign(tx, h); err != nil {
				return err
			}
		}
		r.DetailsHash = hashDetails(details)
		return r.insert(tx, h)
	}
	h, cached := s.cachedHead(tx)
	if !cached {
		if h, err = loadHead(tx, dev); err != nil {
			return 0, err
		}
	}
	if err := insert(h); err != nil {
		// After a savepoint was rolled back, the cached head is ahead of the table, which rejects the gap.
		now, err2 := loadHead(tx, dev)
		if err2 != nil || !cached || now.hash == h.hash {
			return 0, err
		}
		if err := insert(now); err != nil {
			return 0, err
		}
	}
	if details != nil {
		if _, err := tx.Exec(`INSERT INTO audit_details (seq, details) VALUES (?, ?)`, r.Seq, string(details)); err != nil {
			return 0, err
		}
	}
	s.advance(tx, head{seq: r.Seq, at: r.At, hash: r.Hash})
	ev := Appended{Seq: r.Seq, Action: r.Action, Subject: WireSubject{Kind: r.SubjectKind, ID: r.SubjectID}, Outcome: r.Outcome}
	b, user := tx.Bus(), e.User
	tx.AfterCommit(func() { bus.Publish(b, user, ev) })
	return r.Seq, nil
}

// Rekey is storage.Rekey with an entry that records the change of the user's id. Earlier entries
// keep the old id, which their hash covers, but still belong to the user.
func Rekey(tx *storage.Tx, from, to uuid.UUID) error {
	if err := tx.Rekey(from, to); err != nil {
		return err
	}
	return Append(tx, Entry{User: to, Action: UserRekeyed, SubjectKind: "user", SubjectID: from.String(), Details: map[string]any{"from": from, "to": to}})
}

// insert inserts r after h.
func (r *row) insert(tx *storage.Tx, h head) error {
	r.Seq, r.Prev, r.At = h.seq+1, h.hash, max(tx.Now.UnixMicro(), h.at)
	r.Hash = r.sum()
	_, err := tx.Exec(`INSERT INTO audit_log (seq, id, user_id, device_id, at, actor_kind, actor_id, action, subject_kind, subject_id, outcome, run_id, details_hash, prev_hash, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.Seq, r.ID, r.User, r.Device, r.At, r.ActorKind, r.ActorID, r.Action, r.SubjectKind, r.SubjectID, r.Outcome, r.Run, r.DetailsHash, r.Prev, r.Hash)
	return err
}

func (e *Entry) fill(tx *storage.Tx) error {
	id, ok := identity.From(tx.Context())
	if e.User == uuid.Nil {
		e.User = id.User
	}
	if e.User == uuid.Nil {
		var err error
		if e.User, err = localUser(tx); err != nil {
			return err
		}
	}
	if e.ActorKind == "" && e.ActorID == "" {
		if e.ActorKind = "system"; ok {
			e.ActorKind, e.ActorID = "user", id.User.String()
			if id.Token != uuid.Nil { // several programs may have tokens of one user
				e.ActorKind, e.ActorID = TokenActor, id.Token.String()
			}
		}
	}
	if e.ActorKind == "user" && e.ActorID == e.User.String() {
		e.ActorID = "" // the user is in the row; the id is that of the client
		if ok && id.User == e.User && id.Token == uuid.Nil && id.Client != identity.ClientProgram {
			e.ActorID = id.Client.String()
		}
	}
	if e.Outcome == "" {
		e.Outcome = OK
	}
	if e.Action == "" || len(e.Action) > 64 {
		return fault.Invalidf("An audit entry needs an action of at most 64 bytes.")
	}
	if e.User == uuid.Nil {
		return fault.Invalidf("An audit entry needs a user.")
	}
	for _, s := range []*string{&e.ActorKind, &e.ActorID, &e.SubjectKind, &e.SubjectID, &e.Outcome} {
		if len(*s) > maxName {
			return fault.Invalidf("A name in an audit entry is longer than %d bytes.", maxName)
		}
		*s = plain(*s)
	}
	e.Action = plain(e.Action)
	return nil
}

// head is the end of the chain.
type head struct {
	seq  int64    // of the newest entry; 0 if there is none
	at   int64    // its time in microseconds
	hash [32]byte // hash to which this device's next entry is chained
}

func loadHead(tx *storage.Tx, dev uuid.UUID) (head, error) {
	h := head{hash: genesis(dev)}
	var newest uuid.UUID
	var own []byte
	err := tx.QueryRow(`SELECT seq, device_id, at, hash FROM audit_log ORDER BY seq DESC LIMIT 1`).Scan(&h.seq, &newest, &h.at, &own)
	if errors.Is(err, sql.ErrNoRows) {
		return h, nil
	}
	if err == nil && newest != dev {
		// The newest entry is from another device, from which this file was restored. Our chain
		// continues where it ended, or starts.
		err = tx.QueryRow(`SELECT hash FROM audit_log WHERE device_id = ? ORDER BY seq DESC LIMIT 1`, dev).Scan(&own)
		if errors.Is(err, sql.ErrNoRows) {
			return h, nil
		}
	}
	copy(h.hash[:], own)
	return h, err
}

// localUser returns the user of this installation, for entries of background work.
func localUser(tx *storage.Tx) (u uuid.UUID, err error) {
	err = tx.QueryRow(`SELECT user_id FROM sync_local`).Scan(&u)
	return u, err
}

// timeOf converts microseconds to a time on the wire.
func timeOf(us int64) time.Time { return time.UnixMicro(us).UTC() }
