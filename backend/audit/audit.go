// Package audit records what was asked, decided and done so that an edit is detectable
// later, offline: one hash chain a device, signed in segments by the device key. Append
// writes an entry in the transaction of the act it describes. Everything above the
// foundation may import it, and permission.
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

// The actions of a run, and of the parts of Helix that this package knows. Other domains
// name their own in the same manner: noun, point, verb.
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
	Alarm             = "audit.alarm"    // the head file did not fit the log
	Accepted          = "audit.accepted" // somebody took notice of an alarm
	LogReplaced       = "audit.replaced" // a restored database brought its own log
	KeyChanged        = "auth.device_key"
	UserRekeyed       = "user.rekeyed" // the subject is an id that the user had before
)

// The outcomes this package and permission write; domains may add others.
const (
	OK      = "ok"
	Denied  = "denied"
	Failed  = "error"
	Pending = "pending"
)

// TokenActor is the kind of an actor who came in with a created token; the id is the token's.
const TokenActor = "token"

// Entry is one thing that happened.
type Entry struct {
	User        uuid.UUID // whose log; zero: the caller of the transaction, else the local user
	ActorKind   string    // user, token, tool, skill, agent, schedule, system …; "" with ActorID "": the caller
	ActorID     string
	Action      string // required
	SubjectKind string // what it was done to or by
	SubjectID   string
	Outcome     string    // "" is OK
	RunID       uuid.UUID // the run it belongs to, or zero
	Details     any       // JSON, redacted, at most 8 KiB of it is kept; nil: none
}

// Appended is the event of one committed entry.
type Appended struct {
	Seq     int64       `json:"seq"`
	Action  string      `json:"action"`
	Subject WireSubject `json:"subject"`
	Outcome string      `json:"outcome"`
}

const maxName = 256 // bytes of a kind or an id

// Append writes e as the next entry of this device's chain, in tx: the entry and the act
// stand or fall together. Secret values in the details are replaced before they are hashed.
// An act outside the database needs two entries, Start committed before it and Complete or
// Error after it; Service.Record commits one on its own.
//
// It is Unavailable while this installation has no device key (locked or in recovery mode),
// and Invalid for an entry without action or with a name above 256 bytes.
func Append(tx *storage.Tx, e Entry) error {
	_, err := appendEntry(tx, e)
	return err
}

func appendEntry(tx *storage.Tx, e Entry) (int64, error) {
	dev := tx.Device().ID
	if dev == uuid.Nil {
		return 0, fault.Unavailablef("The audit log can't be written because this device's key is locked.")
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
		// A savepoint that was rolled back leaves the cached head ahead of the table, which
		// then refuses the gap.
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

// Rekey is storage's, with an entry that says which user became which. The entries written
// before keep the id that is under their hash, and are the user's all the same.
func Rekey(tx *storage.Tx, from, to uuid.UUID) error {
	if err := tx.Rekey(from, to); err != nil {
		return err
	}
	return Append(tx, Entry{User: to, Action: UserRekeyed, SubjectKind: "user", SubjectID: from.String(), Details: map[string]any{"from": from, "to": to}})
}

// insert writes r behind h.
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
			if id.Token != uuid.Nil { // several may hold tokens of one user
				e.ActorKind, e.ActorID = TokenActor, id.Token.String()
			}
		}
	}
	if e.ActorKind == "user" && e.ActorID == e.User.String() {
		e.ActorID = "" // the row says whose it is; the id says where the person was
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

// head is where the next entry goes.
type head struct {
	seq  int64    // of the newest entry, 0 when there is none
	at   int64    // its time in microseconds
	hash [32]byte // what the next entry of this device chains to
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
		// The newest entry is another device's: this file came back from there. Our chain goes
		// on where it ended, or starts.
		err = tx.QueryRow(`SELECT hash FROM audit_log WHERE device_id = ? ORDER BY seq DESC LIMIT 1`, dev).Scan(&own)
		if errors.Is(err, sql.ErrNoRows) {
			return h, nil
		}
	}
	copy(h.hash[:], own)
	return h, err
}

// localUser is the user of this installation, for entries of background work.
func localUser(tx *storage.Tx) (u uuid.UUID, err error) {
	err = tx.QueryRow(`SELECT user_id FROM sync_local`).Scan(&u)
	return u, err
}

// timeOf turns microseconds into a time on the wire.
func timeOf(us int64) time.Time { return time.UnixMicro(us).UTC() }
