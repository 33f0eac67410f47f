package cloudsync

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"helix/backend/fault"
)

// hubConfig is the connection of this device to its hub, stored in sync_local.hub. The password is
// stored as a secret.
type hubConfig struct {
	Host     string    `json:"host"`
	Port     int       `json:"port"`
	Database string    `json:"database"`
	Role     string    `json:"role"`
	Device   uuid.UUID `json:"device"` // id of this device at the hub
	Name     string    `json:"name"`
	Channel  string    `json:"channel"`
	Private  bool      `json:"encrypted"`
	Paused   bool      `json:"paused,omitempty"`
	Project  *Project  `json:"project,omitempty"` // through which the hub can be reached over HTTPS
	Vectors  bool      `json:"vectors,omitempty"` // the hub can store vectors
	Sent     bool      `json:"sent,omitempty"`    // this device has sent vectors, and removes them when sync.vectors is turned off

	traffic *traffic // counts bytes; may be nil
}

const (
	connectTime = 10 * time.Second
	callTime    = 60 * time.Second
)

// connect opens a connection to the hub as this device.
func (h hubConfig) connect(ctx context.Context, password string) (*pgx.Conn, error) {
	c, err := pgx.ParseConfig("")
	if err != nil {
		return nil, err
	}
	c.Host, c.Port, c.Database, c.User, c.Password = h.Host, uint16(h.Port), h.Database, h.Role, password
	c.Tracer = deadline{callTime}
	if h.traffic != nil {
		c.DialFunc = h.traffic.dial
	}
	return dial(ctx, c)
}

// dial opens a connection with the settings that all connections share. Unless the server is on
// this computer, it requires TLS and verifies the certificate.
func dial(ctx context.Context, c *pgx.ConnConfig) (*pgx.Conn, error) {
	c.TLSConfig, c.Fallbacks = nil, nil
	if !onThisComputer(c.Host) {
		c.TLSConfig = &tls.Config{ServerName: c.Host, MinVersion: tls.VersionTLS12}
	}
	c.ConnectTimeout = connectTime
	c.DefaultQueryExecMode = pgx.QueryExecModeExec // transaction poolers lose prepared statements
	c.RuntimeParams = map[string]string{"application_name": "helix"}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	return pgx.ConnectConfig(ctx, c)
}

func onThisComputer(host string) bool {
	ip := net.ParseIP(host)
	return strings.HasPrefix(host, "/") || host == "localhost" || ip != nil && ip.IsLoopback()
}

// deadline limits the time of each statement of a connection, because a hub can stop answering without
// closing the connection, as when its computer was suspended.
type deadline struct{ limit time.Duration }

type cancelKey struct{}

// TraceQueryStart returns the context of a statement.
func (d deadline) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	ctx, cancel := context.WithTimeout(ctx, d.limit)
	return context.WithValue(ctx, cancelKey{}, cancel)
}

// TraceQueryEnd releases the context of a statement.
func (deadline) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	ctx.Value(cancelKey{}).(context.CancelFunc)()
}

// TraceBatchStart returns the context of a batch of statements.
func (d deadline) TraceBatchStart(ctx context.Context, c *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return d.TraceQueryStart(ctx, c, pgx.TraceQueryStartData{})
}

// TraceBatchQuery implements pgx.BatchTracer.
func (deadline) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd releases the context of a batch.
func (d deadline) TraceBatchEnd(ctx context.Context, c *pgx.Conn, _ pgx.TraceBatchEndData) {
	d.TraceQueryEnd(ctx, c, pgx.TraceQueryEndData{})
}

// SQLSTATEs of the hub's functions: this device was removed; a copy of this device is connected.
const (
	noAccess   = "HX001"
	copyActive = "HX002"
)

// hubError converts an error from the hub to one that can be shown to a person. It never contains a
// password.
func hubError(host string, err error) error {
	var pg *pgconn.PgError
	var coded *fault.Error
	switch {
	case err == nil, errors.As(err, &coded), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &pg) && (pg.Code == "28P01" || pg.Code == "28000"):
		return fault.Deniedf("The hub %s refused this device: it was removed or its invitation has expired. Data on this device is kept.", host).WithCause(err).WithDetails(problemDetails{ProblemRemoved})
	case errors.As(err, &pg) && (pg.Code == "3F000" || pg.Code == "42883"):
		return fault.Unavailablef("This project has no Helix schema. Its owner must run `helix sync setup`.").WithCause(err)
	case errors.As(err, &pg) && pg.Code == noAccess:
		return fault.Deniedf("This device was removed from the hub %s. Data on this device is kept.", host).WithCause(err).WithDetails(problemDetails{ProblemRemoved})
	case errors.As(err, &pg) && pg.Code == copyActive:
		return fault.Unavailablef("A copy of this device is connected to the hub %s. This one registers again at the next sync.", host).WithCause(err)
	case errors.As(err, &pg) && strings.HasPrefix(pg.Code, "57P"):
		return fault.Unavailablef("Couldn't reach the hub %s: the database was stopped or is starting.", host).WithCause(err)
	case errors.As(err, &pg):
		return fault.Unavailablef("The hub %s reported an error: %s (%s).", host, pg.Message, pg.Code).WithCause(err)
	}
	return fault.Unavailablef("Couldn't reach the hub %s: %s.", host, reason(err)).WithCause(err)
}

// reason returns the cause of a failed connection, without the connection string that pgx adds.
func reason(err error) string {
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return dns.Err
	case errors.As(err, &op):
		return op.Err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	}
	var cert *tls.CertificateVerificationError
	if errors.As(err, &cert) {
		return cert.Err.Error()
	}
	return "the connection was lost"
}

// retryable reports whether a failed push can be sent again unchanged, because the error is not
// about its rows.
func retryable(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return true
	}
	switch pg.Code[:2] {
	case "22", "23", "42":
		return false
	}
	return true
}

// number64 is a 64-bit integer that is encoded as a decimal string in JSON.
type number64 int64

// UnmarshalJSON accepts a decimal string or a number.
func (n *number64) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseInt(strings.Trim(string(b), `"`), 10, 64)
	*n = number64(v)
	return err
}

// greeting is the hub's answer to hello.
type greeting struct {
	Known         bool      `json:"known"` // false: this data is a copy of one in use elsewhere, or a restored backup
	Epoch         uuid.UUID `json:"epoch"`
	HubID         uuid.UUID `json:"hubId"`
	Stable        number64  `json:"stable"`
	AckedSeq      number64  `json:"ackedSeq"`
	LastCtr       number64  `json:"lastCtr"`
	Site          int64     `json:"site"`
	Head          number64  `json:"head"`
	ServerTime    number64  `json:"serverTime"`
	MinWrite      int       `json:"minWrite"`
	MinRead       int       `json:"minRead"`
	SchemaVersion int       `json:"schemaVersion"`
	Channel       string    `json:"channel"`
	KeyVersion    int       `json:"keyVersion"`
	BoxVersion    int       `json:"boxVersion"` // version of the key with which this device's box was published
	KeyWanted     bool      `json:"keyWanted"`  // another device lacks the newest key
	Calls         bool      `json:"calls"`      // over HTTPS: the hub has sync_call
}

// callJSON calls a hub function that takes and returns JSON, and decodes the result into out.
func callJSON(ctx context.Context, c *pgx.Conn, query string, out any, args ...any) error {
	var text []byte
	if err := c.QueryRow(ctx, query, args...).Scan(&text); err != nil {
		return err
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("answer of the hub: %w", err)
	}
	return nil
}
