// Package gateway serves typed Go functions as JSON-RPC 2.0 over any frame pipe: the
// window's bridge, WebSocket, HTTP and memory. It implements sessions, scopes, tokens, events and
// the Go client. It does not depend on any domain; permissions and audit are functions in Options.
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

// Protocol is the version of the protocol that this package implements.
const Protocol = 1

// Subprotocol is the WebSocket subprotocol.
const Subprotocol = "helix.rpc.v1"

// User is the person whose data the gateway serves.
type User struct {
	ID          uuid.UUID `json:"id"`
	DisplayName string    `json:"displayName"`
}

// Options configure New. The zero value serves in-process pipes for uuid.Nil as the user.
type Options struct {
	DB     *storage.DB  // for tokens and repeated calls; nil: neither
	Bus    *bus.Bus     // the source of events; nil: a new bus
	Logger *slog.Logger // nil: slog.Default()
	// User returns the local user, who owns tokens without an owner. It is called each time,
	// because restoring a backup can change the user. nil: the user is uuid.Nil.
	User func() User

	Web     fs.FS    // the web UI; nil: none
	Addr    string   // loopback host:port; "": 127.0.0.1:18789; port 0: any
	NoHTTP  bool     // only the bridge and in-process pipes
	Extra   []Extra  // additional loopback ports with some of the routes
	Origins []string // additional allowed origins, besides our own and the window's

	RootToken    string                                        // 64 hex characters; "": no root token
	TokenSource  string                                        // keyring or file, for the endpoint file
	RotateRoot   func(ctx context.Context, token string) error // stores a new root token
	EndpointFile string                                        // "": none is written

	Version, Commit string
	OpenRPC         []byte // the generated document in gzip; nil: built from the table, without comments

	Blobs    BlobSource                                       // nil: no blob URLs
	Gate     func(method string) error                        // refuses methods, for example in recovery mode
	Ready    func() string                                    // "", starting or recovery; nil: ""
	Audit    func(ctx context.Context, e AuditEvent)          // nil: nothing is recorded
	AuditTx  func(tx *storage.Tx, e AuditEvent) error         // like Audit, within the change's transaction
	Status   func(ctx context.Context, s *SystemStatus) error // fills in what the gateway does not know
	Stop     func()                                           // ends the program; nil: system.stop is unavailable
	Activate func(ctx context.Context, args []string) error   // shows the window; nil: app.activate is unavailable
	Services *Services                                        // nil: an empty registry
	Pause    *pause.Pause                                     // for system.status; nil: nothing is paused
	// SessionEnded is called once for each session of a user after it has ended and its last call
	// has returned; may be nil. The context carries the session's identity and is not canceled.
	SessionEnded func(ctx context.Context, id identity.Identity)
	Limits       Limits
}

// Extra is an additional loopback port that serves some routes under other paths.
type Extra struct {
	Port   int
	Routes map[string]string // path on this port → path of the route, for example "/ws" → "/sync"
}

// AuditEvent is an access event for the audit log.
type AuditEvent struct {
	User    uuid.UUID
	Actor   string // session id, or "" before authentication
	Action  string // token.created, token.revoked, root.rotated, lockout.began, …
	Subject string // the affected object
	Outcome string // ok or denied
	Details map[string]any
}

// Limits limit what clients can use. Zero fields have the defaults in brackets.
type Limits struct {
	PreAuthFrame    int           // bytes of a frame before authentication [64 KiB]
	MaxPayload      int           // bytes of a frame after it, in and out [16 MiB]
	AuthTime        time.Duration // [5 s]
	Unauthenticated int           // sockets that have not authenticated; one more closes the oldest [32]
	SessionsPerUser int           // [64]
	InFlight        int           // calls per session [64]
	QueueBytes      int           // outgoing queue per session [4 MiB]
	QueueEvents     int           // [1024]
	ReplayBytes     int           // replay buffer per user [4 MiB]
	ReplayEvents    int           // [4096]
	Tick            time.Duration // between pings [15 s]
	PongWithin      time.Duration // [10 s]
	CallDeadline    time.Duration // [60 s]
	WriteRate       float64       // writing calls per second and session [2000]
	WriteBurst      float64       // [twice the rate]
	CostlyRate      float64       // costly calls per second and user [20]
	CostlyBurst     float64       // [twice the rate]
	HeaderTime      time.Duration // for the header of an HTTP request [5 s]
	HeaderBytes     int           // [16 KiB]
	Idle            time.Duration // of a kept-alive HTTP connection [120 s]
	WriteBlocked    time.Duration // [30 s]
	StopWait        time.Duration // for running calls when stopping; the rest of a stop may take 2 s more [8 s]
	TicketsPerMin   float64       // [10]
	EndpointRetry   time.Duration // delay before a failed write of the endpoint file is retried [5 s]
	WrongTokens     int           // per peer and minute before it is locked out [5]
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

// Server serves one API. Its exported methods with a context and one struct are the RPC methods of
// the gateway itself; register them like those of any domain.
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
	waiting  []*session // sockets that have not authenticated, oldest first
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

// New returns a server for a. Entries may be added to a until the first session.
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

// Bus returns the bus with the events that clients receive.
func (s *Server) Bus() *bus.Bus { return s.bus }

// InstanceID identifies this start of the program; the endpoint file and /healthz contain it.
func (s *Server) InstanceID() uuid.UUID { return s.inst }

// attach starts forwarding events. Entries added to the table later are ignored.
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
