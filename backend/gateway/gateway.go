// Package gateway serves typed Go functions as JSON-RPC 2.0 over any frame pipe: the
// window's bridge, WebSocket, HTTP and memory. It owns sessions, scopes, tokens, events and
// the Go client. It knows no domain; rights and audit reach it as functions in Options.
package gateway

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/identity"
	"helix/backend/pause"
	"helix/backend/storage"
)

// Protocol is the version of the wire that this package speaks.
const Protocol = 1

// Subprotocol is the WebSocket subprotocol.
const Subprotocol = "helix.rpc.v1"

// User is the person whose data the gateway serves.
type User struct {
	ID          uuid.UUID `json:"id"`
	DisplayName string    `json:"displayName"`
}

// Options configure New. The zero value serves in-process pipes for the nil user.
type Options struct {
	DB     *storage.DB  // tokens and repeated calls; nil: neither
	Bus    *bus.Bus     // where events come from; nil: a new one
	Logger *slog.Logger // nil: slog.Default()
	// User is the local user; tokens without an owner of their own are this user's. It is
	// asked each time, because restoring a backup can change it. nil: the nil user.
	User func() User

	Web     fs.FS    // the web UI; nil: none
	Addr    string   // loopback host:port; "": 127.0.0.1:18789; port 0: any
	NoHTTP  bool     // only the bridge and in-process pipes
	Extra   []Extra  // more loopback ports with some of the routes
	Origins []string // origins allowed besides our own and the window's

	RootToken    string                                        // 64 hex characters; "": no root token
	TokenSource  string                                        // keyring or file, for the endpoint file
	RotateRoot   func(ctx context.Context, token string) error // stores a new root token
	EndpointFile string                                        // "": none is written

	Version, Commit string
	OpenRPC         []byte // the generated document; nil: built from the table, without comments

	Blobs    BlobSource                                       // nil: no blob URLs
	Gate     func(method string) error                        // refuses methods, for example in recovery mode
	Ready    func() string                                    // "", starting or recovery; nil: ""
	Audit    func(ctx context.Context, e AuditEvent)          // nil: nothing is recorded
	AuditTx  func(tx *storage.Tx, e AuditEvent) error         // the same, inside the change's own transaction
	Status   func(ctx context.Context, s *SystemStatus) error // fills what the gateway cannot know
	Stop     func()                                           // ends the program; nil: system.stop is unavailable
	Activate func(ctx context.Context, args []string) error   // shows the window; nil: app.activate is unavailable
	Services *Services                                        // nil: an empty registry
	Pause    *pause.Pause                                     // what system.status shows of it; nil: nothing is paused
	// SessionEnded hears once of each session of a user that has ended, after its last call;
	// nil: nobody does. The context carries the session's identity and is not canceled.
	SessionEnded func(ctx context.Context, id identity.Identity)
	Limits       Limits
}

// Extra is one more loopback port that serves some routes under names of its own.
type Extra struct {
	Port   int
	Routes map[string]string // path on this port → path of the route, for example "/ws" → "/sync"
}

// AuditEvent is something about access that belongs in the audit log.
type AuditEvent struct {
	User    uuid.UUID
	Actor   string // session id, or "" before authentication
	Action  string // token.created, token.revoked, root.rotated, lockout.began, …
	Subject string // what it was done to
	Outcome string // ok or denied
	Details map[string]any
}

// Limits bound what clients can take. Zero fields have the defaults in brackets.
type Limits struct {
	PreAuthFrame    int           // bytes of a frame before authentication [64 KiB]
	MaxPayload      int           // bytes of a frame after it, in and out [16 MiB]
	AuthTime        time.Duration // [5 s]
	Unauthenticated int           // sockets that have not authenticated; one more ends the oldest [32]
	SessionsPerUser int           // [64]
	InFlight        int           // calls a session [64]
	QueueBytes      int           // outgoing queue a session [4 MiB]
	QueueEvents     int           // [1024]
	ReplayBytes     int           // replay buffer a user [4 MiB]
	ReplayEvents    int           // [4096]
	Tick            time.Duration // between pings [15 s]
	PongWithin      time.Duration // [10 s]
	CallDeadline    time.Duration // [60 s]
	WriteRate       float64       // writing calls a second a session [2000]
	WriteBurst      float64       // [twice the rate]
	CostlyRate      float64       // costly calls a second a user [20]
	CostlyBurst     float64       // [twice the rate]
	HeaderTime      time.Duration // for the head of an HTTP request [5 s]
	HeaderBytes     int           // [16 KiB]
	Idle            time.Duration // of a kept HTTP connection [120 s]
	WriteBlocked    time.Duration // [30 s]
	StopWait        time.Duration // for running calls when stopping; the rest of a stop has two seconds more [8 s]
	TicketsPerMin   float64       // [10]
	EndpointRetry   time.Duration // before an endpoint file that could not be written is tried again [5 s]
	WrongTokens     int           // a peer may present in a minute before it has to wait [5]
}

func (l *Limits) defaults() {
	def(&l.PreAuthFrame, 64<<10)
	def(&l.MaxPayload, 16<<20)
	def(&l.AuthTime, 5*time.Second)
	def(&l.Unauthenticated, 32)
	def(&l.SessionsPerUser, 64)
	def(&l.InFlight, 64)
	def(&l.QueueBytes, 4<<20)
	def(&l.QueueEvents, 1024)
	def(&l.ReplayBytes, 4<<20)
	def(&l.ReplayEvents, 4096)
	def(&l.Tick, 15*time.Second)
	def(&l.PongWithin, 10*time.Second)
	def(&l.CallDeadline, time.Minute)
	def(&l.WriteRate, 2000)
	def(&l.WriteBurst, 2*l.WriteRate)
	def(&l.CostlyRate, 20)
	def(&l.CostlyBurst, 2*l.CostlyRate)
	def(&l.HeaderTime, 5*time.Second)
	def(&l.HeaderBytes, 16<<10)
	def(&l.Idle, 2*time.Minute)
	def(&l.WriteBlocked, 30*time.Second)
	def(&l.StopWait, 8*time.Second)
	def(&l.TicketsPerMin, 10)
	def(&l.EndpointRetry, 5*time.Second)
	def(&l.WrongTokens, 5)
}

func def[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// Server serves one API. Its exported methods with a context and one struct are the RPC
// methods of the gateway itself; register them like any other.
type Server struct {
	api   *API
	o     Options
	log   *slog.Logger
	bus   *bus.Bus
	epoch string // new at each start
	inst  uuid.UUID
	began time.Time

	attachOnce sync.Once
	detach     []func()
	stopping   atomic.Bool

	mu       sync.Mutex
	sessions map[uuid.UUID]*session
	waiting  []*session // sockets that have not authenticated, the oldest first
	perUser  map[uuid.UUID]int
	https    map[string]*session // the standing session of each credential on POST /rpc
	hubs     map[uuid.UUID]*hub
	running  inFlight
	workers  workers

	auth     *authority
	costly   keyed[uuid.UUID]
	tickets  keyed[uuid.UUID]
	lockouts lockouts
	repeats  repeats
	blobKey  [32]byte
	net      listeners
	routes   map[string][]route
	docOnce  sync.Once
	doc      []byte
}

// New prepares a server for a. Lines may still be added to a until the first session.
func New(a *API, o Options) *Server {
	o.Limits.defaults()
	if o.User == nil {
		o.User = func() User { return User{} }
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Bus == nil {
		o.Bus = bus.New()
	}
	if o.Addr == "" {
		o.Addr = "127.0.0.1:18789"
	}
	if o.Services == nil {
		o.Services = NewServices(o.Bus, o.Logger)
	}
	s := &Server{api: a, o: o, log: o.Logger, bus: o.Bus, inst: storage.NewID(), epoch: storage.NewID().String(), began: time.Now(),
		sessions: map[uuid.UUID]*session{}, perUser: map[uuid.UUID]int{}, https: map[string]*session{}, hubs: map[uuid.UUID]*hub{},
		costly:  keyed[uuid.UUID]{rate: o.Limits.CostlyRate, burst: o.Limits.CostlyBurst},
		tickets: keyed[uuid.UUID]{rate: o.Limits.TicketsPerMin / 60, burst: o.Limits.TicketsPerMin},
		routes:  map[string][]route{}}
	s.net.again = make(chan struct{}, 1)
	s.workers.idle = make(chan func())
	s.lockouts.perMinute = o.Limits.WrongTokens
	s.auth = newAuthority(s)
	s.blobKey = randomKey()
	s.repeats.running = map[repeatKey]bool{}
	if !o.NoHTTP {
		o.Services.addExternal("gateway", control{s})
	}
	return s
}

// Bus is where the events that clients hear come from.
func (s *Server) Bus() *bus.Bus { return s.bus }

// InstanceID names this start of the program; the endpoint file and /healthz carry it.
func (s *Server) InstanceID() uuid.UUID { return s.inst }

// attach begins to forward events. Later lines of the table are not seen.
func (s *Server) attach() {
	s.attachOnce.Do(func() {
		for _, e := range s.api.events {
			if e.attach == nil {
				continue
			}
			s.detach = append(s.detach, e.attach(s.bus, func(user uuid.UUID, data any) { s.publish(e, user, data) }))
		}
	})
}

// checkLoopback refuses addresses that another machine could reach.
func checkLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("gateway.addr %q: %w", addr, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("gateway.addr %q is not a loopback address: Helix never listens on the network", addr)
	}
	return nil
}
