// Package cloudsync keeps the rows of one person identical on all devices, through a hub, which is
// the person's own PostgreSQL database. Each device works offline on its SQLite database. The hub
// accepts a version of a row only if it was derived from the hub's current version; otherwise the
// device merges the two first. storage.Synced declares what is synced; the packages that own the
// tables need no sync code. Only package backend imports cloudsync.
package cloudsync

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// Options configure New. The zero value is valid.
type Options struct {
	Logger  *slog.Logger
	Version string // version of Helix, reported to the hub
	// Private also encrypts, in the local database, the columns that are encrypted only in private
	// mode. It mirrors the setting storage.private.
	Private bool
	// Platform is web, desktop, ios, android or cli; default desktop.
	Platform string
	// Exports is the folder to which discarded items are written. If it is empty, items cannot be
	// discarded.
	Exports string
	// Partial is the folder for blobs that are being downloaded.
	Partial string
	// KeepBlobs reports whether this device downloads all blobs of synced rows, instead of each when it
	// is first opened; nil: it does not.
	KeepBlobs func() bool
	// Vectors reports whether this device sends the embeddings of memories to a hub without
	// encryption; nil: it does not.
	Vectors func() bool
	// ChangedUser, if not nil, is called after joining a hub has changed the id of the local user.
	ChangedUser func(from, to uuid.UUID)
}

// Service syncs one database. Sync failures don't stop it; Status reports them.
type Service struct {
	db      *storage.DB
	secrets *storage.Secrets
	o       Options

	turn   chan struct{} // semaphore, held while using the hub's connection
	conn   *pgx.Conn     // guarded by turn
	cipher Cipher        // guarded by turn
	staged staged        // guarded by turn

	account     *session  // of HTTPS; guarded by turn
	triedDirect time.Time // when the database was last found unreachable, while HTTPS is used; guarded by turn
	reopened    atomic.Bool

	greeted time.Time // when conn last completed hello; guarded by turn
	acked   time.Time // when the hub last heard from live up to where the feed is stored; guarded by turn
	heard   int64     // the position of the last exchange that the hub has confirmed; guarded by turn
	counts  counts    // guarded by turn
	traffic traffic
	blobs   blobState   // guarded by turn
	vectors vectorState // guarded by turn

	receiving chan struct{} // semaphore, held while downloading a blob

	relay relay

	copyRows  int // rows per transaction of the first copy
	manyFresh int // new rows that are sent in batches of pushFresh

	loading sync.Mutex
	tables  []table // set once by loadTables

	mu      sync.Mutex // guards the fields below
	state   State
	err     *fault.Error
	head    int64
	offset  time.Duration
	noted   time.Time // when wrote last published the state
	missed  bool      // notifications may have been missed
	initial *Progress // progress of the first copy; nil when none is running
}

// New returns a Service for db. It opens no connection.
func New(db *storage.DB, secrets *storage.Secrets, o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Platform == "" {
		o.Platform = "desktop"
	}
	s := &Service{db: db, secrets: secrets, o: o, turn: make(chan struct{}, 1), receiving: make(chan struct{}, 1), copyRows: copyRows, manyFresh: manyFresh}
	db.Blobs().SetFetch(s.FetchBlob)
	s.relay = relay{s: s, wake: make(chan struct{}, 1), sockets: map[*relaySocket]bool{}, last: map[uuid.UUID]int64{}}
	return s
}

// Close closes the connection to the hub.
func (s *Service) Close() error {
	s.relay.pump.Wait() // the sockets end with their HTTP requests
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	return s.hangUp()
}

func (s *Service) hangUp() error {
	if s.conn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.conn.Close(ctx)
	s.conn = nil
	return err
}

// exclusive runs fn while holding turn, so that fn has the hub's connection to itself.
func (s *Service) exclusive(ctx context.Context, fn func() error) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.turn }()
	if err := s.loadTables(ctx); err != nil {
		return err
	}
	return fn()
}

// loaded runs fn after loading the tables. fn must not use the hub.
func (s *Service) loaded(ctx context.Context, fn func() error) error {
	if err := s.loadTables(ctx); err != nil {
		return err
	}
	return fn()
}

// loadTables reads the definitions of the synced tables on the first call.
func (s *Service) loadTables(ctx context.Context) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	if s.tables != nil {
		return nil
	}
	return s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		s.tables, err = readTables(tx)
		return err
	})
}

// table returns the synced table with the given name.
func (s *Service) table(name string) (table, bool) {
	i := slices.IndexFunc(s.tables, func(t table) bool { return t.Table == name })
	if i < 0 {
		return table{}, false
	}
	return s.tables[i], true
}

// column returns the column with the given name, which may be deleted_at.
func (t table) column(name string) (storage.SyncedColumn, bool) {
	if name == deletedAt {
		return storage.SyncedColumn{SyncedField: deletedColumn.SyncedField, Hub: "timestamptz"}, true
	}
	i := slices.IndexFunc(t.columns, func(c storage.SyncedColumn) bool { return c.Name == name })
	if i < 0 {
		return storage.SyncedColumn{}, false
	}
	return t.columns[i], true
}

// asUser returns ctx with the identity of the local user.
func (s *Service) asUser(ctx context.Context) context.Context {
	return identity.With(ctx, identity.Identity{User: s.db.LocalUser().ID, Scopes: identity.Write.Closed(), Label: "sync", Pipe: "background"})
}

func (s *Service) local(ctx context.Context) (l local, err error) {
	return storage.Result(ctx, s.db.Read, readLocal)
}

// Names of the secrets that sync stores.
const (
	passwordSecret = "sync/password"
	keySecret      = "sync/key"
	boxSecret      = "sync/box"
	sessionSecret  = "sync/session"
)

// SecretNames returns the names of the secrets that sync stores.
func SecretNames() []string { return []string{passwordSecret, keySecret, boxSecret, sessionSecret} }

var errRegister = fault.Unavailablef("This data was copied or restored, so this device has to register again. That needs a connection to the database, which a firewall blocks.")

var errNotEnrolled = fault.Unavailablef("This device isn't connected to a hub. Run `helix sync setup` here, or `helix sync enroll` with a link from another device.")

// open returns a connection that has completed hello. If the counters show that the data folder is
// a copy of one in use elsewhere, or a restored backup, it first registers this device again under
// a new site.
func (s *Service) open(ctx context.Context) (_ *pgx.Conn, l local, err error) {
	defer func() {
		if err != nil && !(l.hub != nil && l.hub.Project != nil && unreachable(err)) { // then HTTPS is tried
			s.noteError(err)
		}
	}()
	if l, err = s.prepare(ctx); err != nil {
		return nil, l, err
	}
	fresh := s.conn == nil || s.conn.IsClosed()
	if fresh {
		if s.triedDirect.IsZero() {
			s.setState(Connecting, nil)
		}
		password, err := s.secrets.Value(s.asUser(ctx), passwordSecret)
		if err != nil {
			return nil, l, err
		}
		l.hub.traffic = &s.traffic
		if s.conn, err = l.hub.connect(ctx, string(password)); err != nil {
			s.conn = nil
			return nil, l, hubError(l.hub.Host, err)
		}
		if err := checkPooler(ctx, s.conn); err != nil {
			return nil, l, errors.Join(hubError(l.hub.Host, err), s.hangUp())
		}
	}
	if err := s.hello(ctx, direct{s, s.conn}, &l); err != nil {
		return nil, l, hubError(l.hub.Host, err)
	}
	if err := s.exchangeKeys(ctx, direct{s, s.conn}, &l); err != nil {
		return nil, l, hubError(l.hub.Host, err)
	}
	s.greeted = time.Now()
	if fresh {
		s.setState(Live, nil)
	}
	return s.conn, l, nil
}

// prepare returns the local state for an exchange.
func (s *Service) prepare(ctx context.Context) (l local, err error) {
	if l, err = s.local(ctx); err != nil {
		return l, err
	}
	if l.hub == nil {
		return l, errNotEnrolled
	}
	if err := s.loadKey(ctx, l); err != nil {
		return l, err
	}
	return l, s.settleBatches(ctx) // before anything from the hub is merged with its rows
}

// loadKey reads the keys again. After an error, such as that of a canceled call, the keys stay as they were.
func (s *Service) loadKey(ctx context.Context, l local) error {
	c, err := s.readKey(ctx, l)
	if err == nil {
		s.cipher = c
	}
	return err
}

// canSeal returns an error if texts would go to an encrypted hub as they are.
func (s *Service) canSeal(l local) error {
	if l.hub.Private && s.cipher.aeads[s.cipher.version] == nil {
		return errNoKey
	}
	return nil
}

var errNoKey = fault.Deniedf("The key to your synced data is not on this device. Disconnect, then enter a code from another device.").WithDetails(problemDetails{ProblemKey})

// readKey returns the cipher for the person's data; the zero value when the hub is not encrypted.
func (s *Service) readKey(ctx context.Context, l local) (Cipher, error) {
	if !l.hub.Private {
		return Cipher{}, nil
	}
	ring, err := s.ring(ctx, l)
	if fault.Is(err, fault.NotFound) {
		return Cipher{}, errNoKey
	}
	if err != nil {
		return Cipher{}, err
	}
	return ring.cipher(l.keyVersion)
}

// hello reports this device's counters to the hub and measures the offset to the hub's clock.
func (s *Service) hello(ctx context.Context, h link, l *local) error {
	for again := false; ; again = true {
		if l.nextEpoch == uuid.Nil {
			l.nextEpoch = uuid.UUID(storage.NewID())
			if err := s.db.Write(ctx, func(tx *storage.Tx) error {
				_, err := tx.Exec(`UPDATE sync_local SET next_epoch = ?`, l.nextEpoch)
				return err
			}); err != nil {
				return err
			}
		}
		before := time.Now()
		g, err := h.hello(ctx, map[string]any{
			"deviceId": l.hub.Device, "epoch": l.epoch, "nextEpoch": l.nextEpoch, "lastCtr": l.ctr, "hlc": l.high, "localTime": before.UnixMicro(), "schemaVersion": SchemaVersion, "appVersion": s.o.Version,
		})
		if err != nil {
			return err
		}
		took := time.Since(before)
		offset := time.UnixMicro(int64(g.ServerTime)).Sub(before.Add(took / 2))
		s.mu.Lock()
		s.head, s.offset = int64(g.Head), offset
		s.mu.Unlock()
		if g.MinRead > SchemaVersion {
			return fault.Unavailablef("The hub needs a newer version of Helix. Update Helix on this device; its changes are kept until then.").WithDetails(problemDetails{ProblemSchema})
		}
		if g.Known && g.Site == l.site {
			l.greeting = g
			return s.db.Write(ctx, func(tx *storage.Tx) error {
				_, err := tx.Exec(`UPDATE sync_local SET epoch = ?, next_epoch = NULL, hub_id = ?, offset_us = CASE WHEN abs(offset_us - ?3) > 50000 THEN ?3 ELSE offset_us END`, g.Epoch, g.HubID, offset.Microseconds())
				return err
			})
		}
		if again {
			return errors.New("cloudsync: the hub does not know the new registration")
		}
		if connection(h) == nil {
			return errRegister
		}
		if err := s.registerAgain(ctx, l); err != nil {
			return err
		}
		h = direct{s, s.conn}
	}
}
