package cloudsync

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/storage"
)

// Where a firewall blocks the database, a device that was set up by signing in calls the functions of the hub
// through its project, over HTTPS. There are no notifications, so it asks every ten seconds. What is no
// exchange of rows, keys and files, such as the list of devices, waits for the database.
const (
	askEvery    = 10 * time.Second
	directEvery = time.Minute // between attempts to reach the database meanwhile
	httpsRows   = 500         // entries of the feed per request, unless more belong together
	httpsSize   = 64 << 20    // bytes of an answer
	tokenSpare  = time.Minute // a token is replaced this long before it ends
)

// session is what a device keeps of a sign-in, stored as a secret.
type session struct {
	Refresh string `json:"refresh"` // token for the next session; the project accepts it once
	Proof   string `json:"proof"`   // proves to the hub which device calls

	token string // of the person
	ends  time.Time
}

// digest is what the hub stores to recognize the proof.
func (x session) digest() []byte {
	sum := sha256.Sum256([]byte(x.Proof))
	return sum[:]
}

// signedIn is the answer of a project to a sign-in.
type signedIn struct {
	Token   string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	Expires int64  `json:"expires_in"` // seconds
}

func (x *session) use(a signedIn) {
	x.token, x.Refresh, x.ends = a.Token, a.Refresh, time.Now().Add(duration.Of(min(a.Expires, 24*60*60), time.Second)-tokenSpare)
}

func newSession() session { return session{Proof: rand.Text()} }

func (s *Service) storeSession(ctx context.Context, x session) error {
	return s.db.Write(s.asUser(ctx), func(tx *storage.Tx) error { return s.secrets.SetTx(tx, sessionSecret, []byte(jsonText(x))) })
}

func (s *Service) readSession(ctx context.Context) (*session, error) {
	text, err := s.secrets.Value(s.asUser(ctx), sessionSecret)
	if err != nil {
		return nil, err
	}
	x := &session{}
	return x, json.Unmarshal(text, x)
}

// renewProof gives a device that has registered again a secret of its own, over its connection c.
func (s *Service) renewProof(ctx context.Context, c *pgx.Conn) error {
	x, err := s.readSession(ctx)
	if err != nil {
		return err
	}
	x.Proof = newSession().Proof
	if _, err := c.Exec(ctx, `select app.set_https_digest($1)`, x.digest()); err != nil {
		return err
	}
	s.account = x
	return s.storeSession(ctx, *x)
}

// https is a hub reached through its project.
type https struct {
	s       *Service
	project Project
	device  uuid.UUID
	session *session
	epoch   uuid.UUID
}

// reach returns a way to the hub that has completed hello. While HTTPS is in use, it tries the database once
// a minute, and as soon as the listening connection has reached it.
func (s *Service) reach(ctx context.Context) (h link, l local, err error) {
	defer func() {
		if err != nil {
			s.noteError(err)
		}
	}()
	if s.triedDirect.IsZero() || time.Since(s.triedDirect) > directEvery || s.reopened.Swap(false) {
		c, l, err := s.open(ctx)
		if err == nil {
			s.triedDirect = time.Time{}
			return direct{s, c}, l, nil
		}
		if l.hub == nil || l.hub.Project == nil || !unreachable(err) {
			return nil, l, err
		}
		s.triedDirect = time.Now()
	}
	if err := s.hangUp(); err != nil { // of another call, such as Invite
		s.o.Logger.Debug("close the connection to the hub", "err", err)
	}
	defer func() {
		if err != nil {
			s.triedDirect = time.Time{}
		}
	}()
	if l, err = s.prepare(ctx); err != nil {
		return nil, l, err
	}
	if s.account == nil {
		if s.account, err = s.readSession(ctx); err != nil {
			return nil, l, err
		}
	}
	w := &https{s: s, project: *l.hub.Project, device: l.hub.Device, session: s.account}
	if err := s.hello(ctx, w, &l); err != nil {
		return nil, l, hubError(w.project.host(), err)
	}
	w.epoch = l.greeting.Epoch
	if l.greeting.Calls {
		err = s.exchangeKeys(ctx, w, &l)
	}
	return w, l, hubError(w.project.host(), err)
}

// unreachable reports whether err is that the database did not answer at all.
func unreachable(err error) bool {
	var pg *pgconn.PgError
	return fault.Is(err, fault.Unavailable) && !errors.As(err, &pg)
}

// renew replaces the token.
func (h *https) renew(ctx context.Context) error {
	var a signedIn
	if err := h.project.call(ctx, "/auth/v1/token?grant_type=refresh_token", "", map[string]any{"refresh_token": h.session.Refresh}, &a); err != nil {
		return err
	}
	h.session.use(a)
	return h.s.storeSession(ctx, *h.session)
}

// rpc calls a function of the hub. An error of the database is a *pgconn.PgError, as over a connection.
func (h *https) rpc(ctx context.Context, name string, p map[string]any, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	p["device"], p["proof"], p["epoch"] = h.device, h.session.Proof, h.epoch
	for again := false; ; again = true {
		if time.Now().After(h.session.ends) {
			if err := h.renew(ctx); err != nil {
				return err
			}
		}
		status, text, err := h.project.post(ctx, "/rest/v1/rpc/"+name, h.session.token, map[string]any{"p": p}, httpsSize)
		h.s.traffic.down.Add(int64(len(text)))
		switch {
		case err != nil:
			return err
		case status/100 == 2:
			return json.Unmarshal(text, out)
		case status == http.StatusUnauthorized && !again:
			h.session.ends = time.Time{}
			continue
		}
		var e struct{ Code, Message string }
		if json.Unmarshal(text, &e) == nil && len(e.Code) == len(noAccess) {
			return &pgconn.PgError{Code: e.Code, Message: e.Message}
		}
		return h.project.refusal(status, text)
	}
}

func (h *https) call(ctx context.Context, name string, out any, args ...any) error {
	if out == nil {
		out = new(json.RawMessage)
	}
	return h.rpc(ctx, "sync_call", map[string]any{"call": name, "args": args}, out)
}

func (h *https) hello(ctx context.Context, p map[string]any) (g greeting, err error) {
	return g, h.rpc(ctx, "sync_hello", map[string]any{"hello": p}, &g)
}

// httpsRow is an entry of the feed, or a row.
type httpsRow struct {
	Seq   number64        `json:"seq"`
	Table string          `json:"table"`
	ID    *uuid.UUID      `json:"id"`
	Dot   number64        `json:"dot"`
	HLC   number64        `json:"hlc"`
	Row   json.RawMessage `json:"row"`
}

func (r httpsRow) remote(k rowKey) remote {
	x := remote{rowKey: k, seq: int64(r.Seq), dot: int64(r.Dot), hlc: int64(r.HLC), row: r.Row}
	if string(r.Row) == "null" {
		x.row = nil
	}
	return x
}

func (h *https) page(ctx context.Context, after int64) (page []remote, end int64, err error) {
	var rows []httpsRow
	if err := h.rpc(ctx, "sync_pull", map[string]any{"after": strconv.FormatInt(after, 10), "max": httpsRows}, &rows); err != nil {
		return nil, 0, err
	}
	end = after
	for _, r := range rows {
		if r.ID == nil {
			end = max(end, int64(r.Seq))
			continue
		}
		page = append(page, r.remote(rowKey{r.Table, *r.ID}))
	}
	return page, end, nil
}

func (h *https) ack(ctx context.Context, seq int64) error {
	return h.rpc(ctx, "sync_ack", map[string]any{"seq": strconv.FormatInt(seq, 10)}, new(json.RawMessage))
}

func (h *https) send(ctx context.Context, batch []sent) (before int64, answers []answer, err error) {
	text, err := pushText(batch)
	if err != nil {
		return 0, nil, err
	}
	h.s.traffic.up.Add(int64(len(text)))
	var got struct {
		Before  number64 `json:"before"`
		Answers []struct {
			N      int      `json:"n"`
			Result string   `json:"result"`
			Dot    number64 `json:"dot"`
		} `json:"answers"`
	}
	if err := h.rpc(ctx, "sync_push", map[string]any{"rows": json.RawMessage(text)}, &got); err != nil {
		return 0, nil, err
	}
	answers = make([]answer, len(batch))
	for _, a := range got.Answers {
		if a.N < 1 || a.N > len(answers) {
			return 0, nil, errAnswer
		}
		answers[a.N-1] = answer{a.Result, int64(a.Dot)}
	}
	return int64(got.Before), answers, nil
}

func (h *https) row(ctx context.Context, k rowKey) (*remote, error) {
	var r *httpsRow
	if err := h.rpc(ctx, "sync_row", map[string]any{"table": k.table, "id": k.id}, &r); err != nil || r == nil {
		return nil, err
	}
	x := r.remote(k)
	return &x, nil
}

func (h *https) heartbeat(ctx context.Context, platform, state string, counts map[string]any) error {
	return h.rpc(ctx, "sync_heartbeat", map[string]any{"platform": platform, "state": state, "counts": counts}, new(json.RawMessage))
}
