// Package channels lets people on an allow-list reach the agent from outside the window: each channel
// connects one messenger or webhook. Whoever is not on the list gets no answer. Accepted messages and
// replies are rows before anything else is done with them (channel_inbox, channel_outbox), so a crash
// loses none. A message acts for the channel's owner, unattended and without the right to approve.
// The package owns the tables channel*.
package channels

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/safehttp"
	"helix/backend/storage"
)

// Limits on channels and what passes through them.
const (
	maxChannels   = 8
	maxSenders    = 100
	maxContexts   = 50       // groups of a sender
	maxText       = 32 << 10 // bytes of an incoming message
	maxID         = 128      // bytes of an id of the service
	maxWaiting    = 1000     // messages that were not handed to the agent yet
	maxOutbox     = 1000     // unsent messages of a channel
	maxParts      = 10       // messages that one reply is split into
	replyLife     = 24 * time.Hour
	noticeLife    = 6 * time.Hour
	maxAnswerText = 256 << 10
)

// Adapter connects one channel to its service.
type Adapter interface {
	// Run receives messages until ctx ends, and returns nil then. Another error stops the channel
	// until a person changes it.
	Run(ctx context.Context, sink Sink) error
	// Send sends one message and returns the service's id of it. The error may be a *SendError.
	Send(ctx context.Context, m Outgoing) (ref string, err error)
	Health() Health
	Limits() Limits
}

// Sink takes what an adapter receives.
type Sink interface {
	// Accept returns after the message is stored. An error of the kinds Denied (not allowed),
	// Conflict (received before), Limit (too many) and Invalid (too large) is final; after another
	// one the message should be offered again.
	Accept(ctx context.Context, in Incoming) error
	// Reject counts a message that was refused before its sender was known.
	Reject(ctx context.Context, reason string)
	// SetCursor stores the position up to which all updates of the service were handled.
	SetCursor(ctx context.Context, cursor string) error
}

// Progress is an Adapter that can show that an answer is being written. Its failures have no effect.
type Progress interface {
	// Typing shows a sign that disappears after some seconds.
	Typing(ctx context.Context, contextID string) error
	// Status sends a text, or replaces the one that an earlier call returned ref of.
	Status(ctx context.Context, contextID, ref, text string) (newRef string, err error)
}

// Incoming is a message from a service. The ids are those of the service, never names.
type Incoming struct {
	MessageID, ContextID, SenderID, SenderLabel, Text string

	Edits     string // MessageID of the message whose new version this is
	Group     bool   // others read the context too
	Anonymous bool   // the service doesn't say which person wrote it
	Media     []Media
}

// Media is a file of a message.
type Media struct {
	Name  string // as the sender calls it, for display only
	Bytes int64  // as the service says; 0: unknown
	Audio bool
	Fetch func(ctx context.Context) ([]byte, error) // nil: Helix takes no files of this kind
}

// Outgoing is a message to a service.
type Outgoing struct {
	ID        uuid.UUID // stays the same when it is sent again
	ContextID string
	Text      string
	File      *File // Text is its caption
	Reply     bool
}

// File is a file that goes with a message.
type File struct {
	Name string `json:"name"`
	Data []byte `json:"data"`
}

// Limits describes what a service takes.
type Limits struct {
	Text       int              // largest text of a message
	Caption    int              // largest text of a message with a file
	Unit       func(string) int // length of a text as the service counts it
	Idempotent bool             // the service ignores a repeated Outgoing.ID
}

// Health is the state of an adapter.
type Health struct {
	State   string // connected, disconnected or error
	Detail  string // for people
	Since   time.Time
	Account string // name of the channel's account at the service, if it has one
}

// The states of a channel.
const (
	Connected    = "connected"
	Disconnected = "disconnected"
	Failed       = "error"
	Disabled     = "disabled"
)

// SendError says how to go on after a message was not sent.
type SendError struct {
	After   time.Duration // earliest time of the next attempt; 0: the usual delay
	Final   bool          // it will never be sent
	Disable bool          // the service wants no more messages of this channel
	Err     error
}

// Error implements error.
func (e *SendError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *SendError) Unwrap() error { return e.Err }

// Input is a message for the agent.
type Input struct {
	Turn   uuid.UUID // submitting it again does not repeat it
	Text   string
	Sender string // shown in the transcript
	Files  []StoredFile
}

// StoredFile is a file that Files has attached.
type StoredFile struct{ Blob, Name string }

// Files keeps the files of messages. An error of the kind Invalid is final, and for the sender.
type Files interface {
	// Attach stores an image or a document and returns its hash.
	Attach(ctx context.Context, name string, data []byte) (blob string, err error)
	// Record stores sound, to be transcribed.
	Record(ctx context.Context, name string, data []byte) (recording uuid.UUID, err error)
	// Transcript returns what a recording says, once that is known.
	Transcript(ctx context.Context, recording uuid.UUID) (text string, done bool, err error)
}

// Outcome is the state of a turn.
type Outcome struct {
	Ended         bool
	Text          string // the answer, or the reason why there is none
	NeedsApproval bool   // something was refused that a person can approve
	Failed        bool
}

// Sessions is the part of the agent that channels use.
type Sessions interface {
	// Ready reports whether a model is set up.
	Ready(ctx context.Context) (bool, error)
	// Ensure creates a session unless it exists.
	Ensure(ctx context.Context, session uuid.UUID, title string) error
	Submit(ctx context.Context, session uuid.UUID, in Input) error
	Outcome(ctx context.Context, turn uuid.UUID) (Outcome, error)
	Cancel(ctx context.Context, session uuid.UUID) error
}

// Clock is the time and timers of the service.
type Clock interface {
	Now() time.Time
	// After returns a channel that receives once after d; stop releases it.
	After(d time.Duration) (c <-chan time.Time, stop func())
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now().Round(0).UTC() }

func (systemClock) After(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// Options configure New. Sessions and Secrets are required.
type Options struct {
	Sessions Sessions
	Secrets  *storage.Secrets
	Files    Files                                   // nil: no files are taken
	HTTP     func(safehttp.Options) *safehttp.Client // nil: safehttp.New
	OwnPort  func(port int) bool                     // ports of this computer that Helix listens on
	HookURL  func(id uuid.UUID) string               // where the hook of a webhook channel is served
	// Scrub removes the secrets of the user in ctx from text; nil: nothing is removed.
	Scrub func(ctx context.Context, text string) string
	// Title returns the title of a chat of the user in ctx, "" if it was deleted; nil: chats have no titles.
	Title   func(ctx context.Context, session uuid.UUID) (string, error)
	Private bool // texts are stored encrypted
	Clock   Clock
	Logger  *slog.Logger // nil: slog.Default()
}

// Service runs the channels of all users of this device. It is safe for concurrent use.
type Service struct {
	db  *storage.DB
	bus *bus.Bus
	o   Options
	log *slog.Logger

	wake       chan struct{} // the processor has something to do
	newAdapter func(context.Context, *channelRow) (Adapter, error)
	crashPoint func(name string) // called between steps; tests end the process there

	mu         sync.Mutex
	life       context.Context // of Run; nil: it does not run
	running    map[uuid.UUID]*runner
	rates      map[rateKey]*rate
	rejections map[uuid.UUID]map[rejection]*counter
	seen       map[uuid.UUID]time.Time // when a window of a user last had the focus
	notes      []Note                  // not stored yet
	work       sync.WaitGroup
}

// New returns a Service. Nothing is received or sent until Run.
func New(db *storage.DB, o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Clock == nil {
		o.Clock = systemClock{}
	}
	if o.HTTP == nil {
		o.HTTP = safehttp.New
	}
	if o.Scrub == nil {
		o.Scrub = func(_ context.Context, text string) string { return text }
	}
	if o.Title == nil {
		o.Title = func(context.Context, uuid.UUID) (string, error) { return "", nil }
	}
	if o.HookURL == nil {
		o.HookURL = func(id uuid.UUID) string { return "/hooks/" + id.String() }
	}
	s := &Service{
		db: db, bus: db.Bus(), o: o, log: o.Logger, wake: make(chan struct{}, 1), crashPoint: func(string) {},
		running: map[uuid.UUID]*runner{}, rates: map[rateKey]*rate{}, rejections: map[uuid.UUID]map[rejection]*counter{},
		seen: map[uuid.UUID]time.Time{},
	}
	s.newAdapter = s.adapter
	return s
}

// flushEach is how often counted rejections are stored.
const flushEach = time.Minute

// Run runs the enabled channels of this device until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	s.life = ctx
	s.mu.Unlock()
	defer func() {
		cancel()
		s.mu.Lock()
		s.life = nil
		s.mu.Unlock()
		s.work.Wait()
		if err := s.flushRejections(context.WithoutCancel(ctx)); err != nil {
			s.log.Warn("store the counts of rejected messages", "err", err)
		}
	}()
	rows, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) ([]channelRow, error) {
		return channelRows(tx, `WHERE enabled AND device_id = ? AND deleted_at IS NULL`, s.db.Device().ID)
	})
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	for i := range rows {
		s.start(rows[i])
	}
	flush, stop := s.o.Clock.After(flushEach)
	defer func() { stop() }()
	for {
		if err := fault.Catch(func() error { return errors.Join(s.storeNotes(ctx), s.process(ctx)) }); err != nil && ctx.Err() == nil {
			s.log.Error("messages from channels wait", "err", err)
		}
		select {
		case <-s.wake:
		case <-flush:
			if err := s.flushRejections(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("store the counts of rejected messages", "err", err)
			}
			if err := s.purgeRemoved(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("delete removed channels", "err", err)
			}
			flush, stop = s.o.Clock.After(flushEach)
		case <-ctx.Done():
			return nil
		}
	}
}

// TurnEnded notes that a turn of the agent has ended, which may be one of a channel.
func (s *Service) TurnEnded(uuid.UUID) { signal(s.wake) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// as returns a context for what a channel does: for its owner, without the right to approve.
func as(ctx context.Context, user uuid.UUID) context.Context {
	return identity.With(ctx, identity.Identity{User: user, Scopes: identity.Write.Closed(), Client: identity.ClientProgram, Label: "channel", Pipe: "background"})
}

// Changed is published when the state of a channel changes.
type Changed struct {
	ID    uuid.UUID `json:"id"`
	State string    `json:"state"`
}

// Message is published when a message was received or sent.
type Message struct {
	ID        uuid.UUID `json:"id"`
	Direction string    `json:"direction"` // in or out
	ContextID string    `json:"contextId"`
}

// Rejected is published when messages were refused.
type Rejected struct {
	ID    uuid.UUID `json:"id"`
	Count int       `json:"count"`
}
