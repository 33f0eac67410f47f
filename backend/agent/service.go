// Package agent runs conversations with a model that may use tools. It logs every step as an event
// before taking it, survives crashes without repeating an effect, stays within its budgets, and asks
// before it acts. The state of a session is a fold of its log (reduce.go), the request of a step is a
// function of that state (plan.go), and one goroutine per session carries out the effects (run.go).
// The agent reaches models only through package providers, tools through callable, and permissions
// through permission.
package agent

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"io"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/providers"
	"helix/backend/storage"
)

// DefaultAgent is the name of the agent that answers when no agent is named.
const DefaultAgent = "helix"

const (
	chatLane       = 10 // concurrent turns of a user
	backgroundLane = 2  // concurrent unattended turns of a user
	maxQueued      = 32 // waiting inputs of a session
	maxText        = 256 << 10
	defaultSteps   = 100
	defaultWall    = 30 * time.Minute
	longestWait    = 2 * time.Minute
)

// Models is the part of providers that the agent uses.
type Models interface {
	Stream(ctx context.Context, q providers.Request) iter.Seq2[providers.Event, error]
	providers.Completer
	Describe(ctx context.Context, q providers.Request) (providers.ModelInfo, error)
	Prepare(ctx context.Context, q providers.Request) (providers.ModelInfo, error)
	Roles(ctx context.Context, _ struct{}) (providers.RolesResult, error)
}

// Gate is the part of permission that the agent uses.
type Gate interface {
	Begin(ctx context.Context, caller *permission.Authority, sub permission.Subject, run uuid.UUID) (*permission.Authority, error)
	EndRun(ctx context.Context, run uuid.UUID) error
	Decide(ctx context.Context, r permission.Request) (permission.Decision, error)
	ApprovalStatus(ctx context.Context, id uuid.UUID) (string, error)
	AskTx(tx *storage.Tx, a permission.QuestionRequest) error
	CloseTx(tx *storage.Tx, run uuid.UUID, ref, choice string, token uuid.UUID) error
	WithdrawTx(tx *storage.Tx, user uuid.UUID, sub permission.Subject, ids []uuid.UUID) error
}

// Memory is the agent's interface to the person's memory.
type Memory interface {
	// Recall returns memories relevant to a text, with ids and dates, or "" if there are none. It
	// leaves out what was said in the session itself.
	Recall(ctx context.Context, session uuid.UUID, text string) (string, error)
	// Said stores one message of a conversation, within the transaction that adds it to the
	// transcript.
	Said(ctx context.Context, tx *storage.Tx, session uuid.UUID, role, id, text string, at time.Time) error
	// Shown records a text that the model reads and nobody said: the prompt, or the output of a tool.
	// The model can't save it as a memory.
	Shown(ctx context.Context, tx *storage.Tx, session uuid.UUID, prompt bool, text string) error
}

// Files is the agent's interface to the files of the workspace.
type Files interface {
	// Save writes a file below /shared or /tmp.
	Save(ctx context.Context, r callable.Request, path string, data []byte) (any, error)
	// Load reads a file, if the caller is permitted to.
	Load(ctx context.Context, r callable.Request, path string, most int64) ([]byte, error)
}

// Options configures New. Models, Gate, Callables and Ledger are required.
type Options struct {
	Models    Models
	Gate      Gate
	Callables *callable.Registry
	Ledger    *Ledger
	Memory    Memory // nil: no memory
	Skills    Skills // nil: runs can't be converted to skills
	Files     Files  // nil: no file exchange between chats and the workspace
	// Soul returns what the person has written about themselves for agents; nil: nothing.
	Soul       func(ctx context.Context) (string, error)
	Workspaces string // folder of the users' workspaces, where added documents are kept; "": none
	// ClaudeSkills reports whether to search .claude/skills too; nil: never.
	ClaudeSkills func() bool
	UserDir      string // the person's own files: agents, skills, SYSTEM.md; "": none
	// Scrub removes the secrets of the user in ctx from text; nil: no secrets to remove.
	Scrub func(ctx context.Context, text string) string
	// Ended is called when a turn ends or waits for a person.
	Ended     func(turn uuid.UUID)
	Private   bool             // texts are stored encrypted
	Telemetry *Telemetry       // nil: off
	Now       func() time.Time // nil: time.Now
	Logger    *slog.Logger     // nil: slog.Default()
}

// Service runs the conversations of all users of this device. It is safe for concurrent use.
type Service struct {
	db   *storage.DB
	bus  *bus.Bus
	o    Options
	log  *slog.Logger
	life context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup
	off  func()

	crashPoint func() // called before and after each commit; tests kill the process there
	heartbeat  time.Duration

	starting sync.Mutex // scheduled runs and subagents start one at a time

	mu    sync.Mutex
	all   map[uuid.UUID]*live
	lanes map[laneKey]*laneState
	asked map[uuid.UUID]*live // by the question that the session waits for
	// callers holds the permissions of the callers of turns. A turn without an entry has the person's
	// permissions.
	callers map[uuid.UUID]*permission.Authority
	waits   map[uuid.UUID][]chan struct{}
}

type laneKey struct {
	user       uuid.UUID
	background bool
	tree       uuid.UUID // root session of the subagents in the lane
}

// size returns how many turns may work in the lane at once.
func (k laneKey) size() int {
	switch {
	case k.tree != uuid.Nil:
		return subagentLane
	case k.background:
		return backgroundLane
	}
	return chatLane
}

// laneState is a lane in use: the places taken, and the turns waiting for one.
type laneState struct {
	places chan struct{}
	users  int
}

// New returns the service. It calls no model by itself; Run continues the turns that a shutdown
// interrupted.
func New(db *storage.DB, b *bus.Bus, o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Ended == nil {
		o.Ended = func(uuid.UUID) {}
	}
	if o.Scrub == nil {
		o.Scrub = func(_ context.Context, text string) string { return text }
	}
	s := &Service{db: db, bus: b, o: o, log: o.Logger, all: map[uuid.UUID]*live{}, lanes: map[laneKey]*laneState{}, asked: map[uuid.UUID]*live{}, callers: map[uuid.UUID]*permission.Authority{}, waits: map[uuid.UUID][]chan struct{}{}, crashPoint: func() {}, heartbeat: heartbeat}
	s.life, s.stop = context.WithCancel(context.Background())
	s.off = bus.Subscribe(b, func(_ uuid.UUID, e permission.ApprovalChanged) {
		s.mu.Lock()
		l := s.asked[e.ID]
		if l != nil && e.Status != "pending" {
			delete(s.asked, e.ID)
		}
		s.mu.Unlock()
		if l != nil && e.Status != "pending" {
			go s.wake(l) // the answer may be written while the session is locked
		}
	})
	return s
}

// Close stops the turns where they are and waits for them to return; the next start continues them.
func (s *Service) Close() error {
	s.off()
	s.stop()
	s.wg.Wait()
	return nil
}

// Run continues the turns that the last shutdown interrupted, and returns when ctx ends.
func (s *Service) Run(ctx context.Context) error {
	if err := s.resume(ctx); err != nil {
		return err
	}
	each := time.NewTicker(lookEach)
	defer each.Stop()
	for {
		select {
		case <-each.C:
			s.unload(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *Service) resume(ctx context.Context) error {
	if err := s.o.Ledger.Recover(ctx); err != nil {
		return err
	}
	// The callers of agents ended with the last process, and so did their permissions.
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`WITH RECURSIVE above(turn, session) AS (SELECT id, session_id FROM agent_turns WHERE state IN ('queued', 'running', 'waiting')
				UNION SELECT above.turn, s.parent_session_id FROM above JOIN sessions s ON s.id = above.session WHERE s.parent_session_id IS NOT NULL)
			UPDATE agent_turns SET cancel_requested_at = ? WHERE cancel_requested_at IS NULL AND created_at < ?
			AND id IN (SELECT above.turn FROM above JOIN sessions s ON s.id = above.session AND s.kind = 'run')`, tx.Now, s.o.Ledger.began)
		return err
	})
	if err != nil {
		return err
	}
	type open struct{ session, user uuid.UUID }
	list, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) ([]open, error) {
		return storage.Collect(tx.Select(`SELECT DISTINCT t.session_id, t.user_id FROM agent_turns t INDEXED BY agent_turns_open JOIN sessions s ON s.id = t.session_id
			WHERE t.state IN ('queued', 'running', 'waiting') AND s.device_id = ?`, s.db.Device().ID), func(row storage.Row) (o open, err error) {
			err = row.Scan(&o.session, &o.user)
			return o, err
		})
	})
	if err != nil {
		return err
	}
	for _, o := range list {
		l, err := s.session(s.asUser(ctx, o.user), o.session)
		if err != nil {
			s.log.Error("a chat can't be continued", "session", o.session, "err", err)
			continue
		}
		l.mu.Lock()
		if t := l.state.Turn; t != nil {
			s.mu.Lock()
			for _, id := range t.waitsFor() {
				s.asked[id] = l
			}
			s.mu.Unlock()
		}
		l.mu.Unlock()
		if err := s.readCanceled(ctx, l); err != nil {
			return err
		}
		s.wake(l)
	}
	return s.reportAll(ctx)
}

// readCanceled loads the turns that a person had canceled before the shutdown.
func (s *Service) readCanceled(ctx context.Context, l *live) error {
	return s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.Select(`SELECT id FROM agent_turns WHERE session_id = ? AND cancel_requested_at IS NOT NULL AND state IN ('queued', 'running', 'waiting')`, l.id).Each(func(row storage.Row) error {
			var id uuid.UUID
			err := row.Scan(&id)
			l.mu.Lock()
			l.canceled[id] = true
			l.mu.Unlock()
			return err
		})
	})
}

// session returns a session of the caller, loading it from its log if it is not in memory.
func (s *Service) session(ctx context.Context, id uuid.UUID) (*live, error) {
	user := identity.UserID(ctx)
	s.mu.Lock()
	l := s.all[id]
	if l != nil && l.user == user {
		l.used.Store(time.Now().UnixNano())
	}
	s.mu.Unlock()
	if l != nil && l.user == user {
		return l, nil
	}
	var st *State
	var row Session
	err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if row, err = s.sessionRow(tx, user, id); err != nil {
			return err
		}
		st, err = s.load(tx, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.all[id]; l != nil { // another call loaded it first
		return l, nil
	}
	l = &live{s: s, id: id, user: user, remember: row.Remember, state: st, canceled: map[uuid.UUID]bool{}, children: map[uuid.UUID]struct{}{}}
	l.used.Store(time.Now().UnixNano())
	s.all[id] = l
	return l, nil
}

// sessionOfTurn returns the session of a turn of the caller.
func (s *Service) sessionOfTurn(ctx context.Context, turn uuid.UUID) (*live, error) {
	var id uuid.UUID
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT session_id FROM agent_turns WHERE id = ? AND user_id = ?`, turn, identity.UserID(ctx)).Scan(&id)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NotFoundf("Turn not found.")
	}
	if err != nil {
		return nil, err
	}
	return s.session(ctx, id)
}

// turn reads a turn with the questions that it waits for.
func (s *Service) turn(ctx context.Context, user, id uuid.UUID) (t Turn, err error) {
	read := func() error {
		return s.db.Read(ctx, func(tx *storage.Tx) error {
			list, err := turnRows(tx, `WHERE id = ? AND user_id = ?`, id, user)
			if err == nil && len(list) == 0 {
				return fault.NotFoundf("Turn not found.")
			}
			if err == nil {
				t = list[0]
			}
			return err
		})
	}
	if err := read(); err != nil {
		return t, err
	}
	s.mu.Lock()
	l := s.all[t.SessionID]
	s.mu.Unlock()
	if l == nil {
		return t, nil
	}
	var asked, below []uuid.UUID
	l.mu.Lock()
	if st := l.state.Turn; st != nil && st.ID == id && !l.canceled[id] { // an answer changes nothing once it is canceled
		asked, below = st.waitsFor(), slices.Collect(maps.Keys(l.children))
	}
	l.mu.Unlock()
	if len(asked) > 0 && t.State != Waiting { // the question came after the row was read
		if err := read(); err != nil {
			return t, err
		}
	}
	t.Approvals = append(t.Approvals, asked...)
	for _, child := range below { // a turn also waits for the questions of its subagents
		c, err := s.turn(ctx, user, child)
		if err != nil {
			return t, err
		}
		if c.State == Waiting {
			t.State, t.WaitReason = Waiting, c.WaitReason
			t.Approvals = append(t.Approvals, c.Approvals...)
		}
	}
	return t, nil
}

// readBlob reads a stored file.
func (s *Service) readBlob(sum string) ([]byte, error) {
	raw, err := hex.DecodeString(sum)
	if err != nil || len(raw) != 32 {
		return nil, fault.NotFoundf("The file is not there.")
	}
	r, err := s.db.Blobs().Open(storage.Ref{SHA256: [32]byte(raw)})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// keepBlob links a file to a session, so that it is kept with it.
func (s *Service) keepBlob(tx *storage.Tx, l *live, sum, name, mime string, size int64, direction string) error {
	_, err := tx.Exec(`INSERT INTO session_blobs (session_id, user_id, sha256, name, mime, bytes, direction, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		l.id, l.user, "sha256:"+sum, name, mime, size, direction, tx.Now)
	return err
}
