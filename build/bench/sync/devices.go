package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"helix/backend/cloudsync"
	"helix/backend/identity"
	"helix/backend/storage"
)

// device is one installation.
type device struct {
	*cloudsync.Service
	db  *storage.DB
	ctx context.Context
}

func openDevice(path string) *device {
	db, err := storage.Open(context.Background(), storage.Options{Path: path, Keys: storage.NewKeys(&memRoot{})})
	check(err)
	d := &device{Service: cloudsync.New(db, storage.NewSecrets(db), cloudsync.Options{Version: "bench"}), db: db}
	d.identify()
	return d
}

func (d *device) identify() {
	d.ctx = identity.With(context.Background(), identity.Identity{User: d.db.LocalUser().ID, Scopes: identity.Admin.Closed(), Client: identity.ClientWindow, Pipe: "memory"})
}

func (d *device) close() {
	check(d.Close())
	check(d.db.Close())
}

// memRoot keeps the root key in memory.
type memRoot struct{ key []byte }

func (r *memRoot) Candidates() [][]byte {
	if r.key == nil {
		return nil
	}
	return [][]byte{r.key}
}
func (r *memRoot) Create(context.Context) ([]byte, error) {
	r.key = make([]byte, storage.RootKeySize)
	return r.key, nil
}
func (r *memRoot) Replace(_ context.Context, key []byte) error { r.key = key; return nil }
func (r *memRoot) Place([]byte) string                         { return "memory" }

// hub creates an empty database and returns the connection string of its administrator.
func (b *bench) hub() string {
	c, err := pgx.Connect(b.ctx, b.pg.DSN("postgres"))
	check(err)
	defer c.Close(b.ctx) //nolint:errcheck // the statement has succeeded
	b.hubs++
	name := fmt.Sprintf("bench%d", b.hubs)
	_, err = c.Exec(b.ctx, "create database "+name)
	check(err)
	return b.pg.DSN(name)
}

func (b *bench) device(name string) *device {
	return openDevice(filepath.Join(b.dir, fmt.Sprintf("%s-%s.db", name, uuid.NewString())))
}

// first returns a device that has set up a hub.
func (b *bench) first(dsn string, encrypt bool) *device {
	d := b.device("first")
	_, err := d.Setup(d.ctx, cloudsync.SetupParams{AdminDSN: dsn, Encrypt: &encrypt, Name: "first"})
	check(err)
	d.now("")
	return d
}

// second returns another device of the hub, with nothing copied yet.
func (b *bench) second(of *device) *device {
	d := b.device("second")
	link, err := of.Invite(of.ctx, cloudsync.InviteParams{})
	check(err)
	_, err = d.Enroll(d.ctx, cloudsync.EnrollParams{Code: link.Link})
	check(err)
	d.identify()
	return d
}

func (d *device) now(action string) cloudsync.CoordinateResult {
	r, err := d.Coordinate(d.ctx, cloudsync.CoordinateParams{Action: action})
	check(err)
	return r
}

const words = "Some text of a note, as people write it, with a few words that say where and when it was. "

// text returns a note of n bytes that differs from all other rows.
func text(i, n int) string {
	return (fmt.Sprintf("%08d ", i) + strings.Repeat(words, n/len(words)+1))[:n]
}

const perTx, perStatement = 5000, 25

// fill stores n memories with texts of size bytes.
func (d *device) fill(n, size int) {
	user := d.db.LocalUser().ID
	for done := 0; done < n; {
		check(d.db.Write(d.ctx, func(tx *storage.Tx) error {
			for end := min(n, done+perTx); done < end; done++ {
				s := text(done, size)
				sum := sha256.Sum256([]byte(s))
				if _, err := tx.Exec(`INSERT INTO memories (id, user_id, content, content_hash, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)`, storage.NewID(), user, s, sum[:], tx.Now, tx.Now); err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

func (d *device) count(query string, args ...any) (n int) {
	check(d.db.Read(d.ctx, func(tx *storage.Tx) error { return tx.QueryRow(query, args...).Scan(&n) }))
	return n
}

func freePort() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	defer l.Close() //nolint:errcheck // nothing was served
	return l.Addr().(*net.TCPAddr).Port
}

// through returns dsn with another port.
func through(dsn, addr string) string {
	u, err := url.Parse(dsn)
	check(err)
	u.Host = addr
	return u.String()
}

func hostOf(dsn string) string {
	u, err := url.Parse(dsn)
	check(err)
	return u.Host
}
