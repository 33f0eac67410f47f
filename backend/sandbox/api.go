package sandbox

import (
	"encoding/json"
	"io"
	"time"
)

// Options of Open. The zero value works: no disk cache, sizes from the number of cores.
type Options struct {
	// CacheDir keeps compiled engine code between starts. It must belong to the user with
	// mode 0700, else it is not used and Status says why. Empty: no disk cache.
	CacheDir string
	Workers  int // runs at a time, not counting half as many more that the queue may add; 0: 2 × cores, between 2 and 16
	Queue    int // runs that may wait for a worker; 0: 256
	Idle     int // prepared instances kept ready; 0: 4, negative: none
	// WorkerCommand starts the child of tier t1: what ServeWorker returned. nil: no code runs
	// in a child.
	WorkerCommand []string
	// MinIsolation is the weakest isolation in which tier t1 may run, one of the Isolation
	// constants; empty: process.
	MinIsolation string
	Now          func() time.Time // nil: time.Now; the clock that guests see
	Rand         io.Reader        // nil: crypto/rand
	// Lazy has Open return at once; the first use of the engine loads it, and Status says
	// whether that worked.
	Lazy bool
	// Crosscheck turns on the slower way of stopping runs beside the normal one, so that
	// tests can compare results.
	Crosscheck bool

	modulesOnly bool    // in the child process of a module: nothing of JavaScript is loaded
	unitTime    float64 // in a child: what the parent has measured, see Engine.unitTime
}

// Language of a Source.
type Language string

// The languages.
const (
	TypeScript Language = "typescript"
	JavaScript Language = "javascript"
)

// Source is a program's text. Name appears in stack traces; empty: tool.ts or tool.js.
// An empty Language is JavaScript.
type Source struct {
	Name     string
	Text     string
	Language Language
}

// Runnable is a *Program or a *Module.
type Runnable interface{ runnable() }

// Trust says where a program comes from; it decides the tier of a Module. JavaScript runs
// in process whatever its trust.
type Trust string

// The levels of trust. The zero value is TrustForeign.
const (
	TrustForeign Trust = ""
	TrustOwn     Trust = "own"    // made on this installation
	TrustSigned  Trust = "signed" // by a trusted key
)

// Meta describes a run: Name, Version and Author become the guest's skillName,
// skillVersion and skillAuthor. User keys the fair queue.
type Meta struct {
	Name, Version, Author string
	User                  string
}

// Call is one run. Only Input is looked at by most guests; everything has a default.
type Call struct {
	Input  json.RawMessage // the guest's params; nil: {}
	Limits Limits          // zero fields: the standard profile, of a module wasm; never above permissive
	Host   Host            // nil: every operation is refused
	Trust  Trust
	Meta   Meta
	Tier   string        // empty: by trust; t1 forces the separate process; t0 is for a person at the keyboard only
	Seed   *[8]byte      // makes Math.random repeatable
	Log    func(LogLine) // hears each log line as it is written; must not block
}

// LogLine is one line a guest logged. Level is debug, info, warn or error.
type LogLine struct {
	Time    time.Time       `json:"time"`
	Level   string          `json:"level"`
	Message string          `json:"message"`
	Fields  json.RawMessage `json:"fields,omitempty"`
}

// Result of a run. Logs and Usage are filled also when the run failed. Logs is never nil.
type Result struct {
	Output json.RawMessage
	Logs   []LogLine
	Usage  Usage
	Tier   string // t0 or t1
	// Isolation is what stood between the run and the system, one of the Isolation
	// constants; Reasons name the layers that are missing here. Reasons is never nil.
	Isolation string
	Reasons   []string
}

// The kinds of isolation, weakest first.
const (
	IsolationInProcess = "inprocess"
	IsolationProcess   = "process"
	IsolationLandlock  = "process+landlock"
	IsolationBwrap     = "process+landlock+bwrap"
)

// Usage is what a run took. A unit of Fuel is one instruction of the machine that runs
// guests, or the part of a longer operation that takes as long.
type Usage struct {
	Wall, CPU   time.Duration
	Fuel        uint64
	PeakMemory  int64 // bytes of linear memory
	OutputBytes int64
	HostCalls   int
}

// Limits of one run. A zero field means the standard profile's value.
type Limits struct {
	Wall, CPU   time.Duration
	Fuel        uint64
	MemoryBytes int64
	StackBytes  int64 // JavaScript stack
	InputBytes  int64
	OutputBytes int64
	LogBytes    int64
	HostCalls   int
}

// ProfileNames lists the profiles, tightest first; wasm is for modules.
var ProfileNames = [...]string{"strict", "standard", "permissive", "wasm"}

const (
	mebibyte = int64(1) << 20
	kibibyte = int64(1) << 10
)

// Profile returns the limits of a named profile: strict, standard, permissive or wasm.
func Profile(name string) (Limits, bool) {
	l := Limits{
		CPU: 10 * time.Second, Fuel: 2e11, StackBytes: 256 * kibibyte,
		InputBytes: 4 * mebibyte, OutputBytes: mebibyte, LogBytes: 64 * kibibyte, HostCalls: 1000,
	}
	switch name {
	case "strict":
		l.Wall, l.MemoryBytes = 10*time.Second, 64*mebibyte
	case "standard":
		l.Wall, l.MemoryBytes = 30*time.Second, 128*mebibyte
	case "permissive":
		l.Wall, l.MemoryBytes = 60*time.Second, 256*mebibyte
	case "wasm":
		l.Wall, l.CPU, l.MemoryBytes = 5*time.Second, 5*time.Second, 128*mebibyte
	default:
		return Limits{}, false
	}
	return l, true
}

// NoHostCalls as a limit lets a run make none. Zero means the default.
const NoHostCalls = -1

// Lower returns the smaller of l and m field by field; zero fields of m leave l as it is.
func (l Limits) Lower(m Limits) Limits {
	lower(&l.Wall, m.Wall)
	lower(&l.CPU, m.CPU)
	lower(&l.Fuel, m.Fuel)
	lower(&l.MemoryBytes, m.MemoryBytes)
	lower(&l.StackBytes, m.StackBytes)
	lower(&l.InputBytes, m.InputBytes)
	lower(&l.OutputBytes, m.OutputBytes)
	lower(&l.LogBytes, m.LogBytes)
	if lower(&l.HostCalls, m.HostCalls); m.HostCalls == NoHostCalls {
		l.HostCalls = NoHostCalls
	}
	return l
}

func lower[T time.Duration | uint64 | int64 | int](v *T, m T) {
	if m > 0 && (*v == 0 || m < *v) {
		*v = m
	}
}

// effective fills in defaults and caps a caller's limits: JavaScript may have what the
// profile permissive gives, a module what wasm gives but a minute and 256 MiB.
func (l Limits) effective(module bool) Limits {
	std, _ := Profile("standard")
	top, _ := Profile("permissive")
	if module {
		std, _ = Profile("wasm")
		wall, memory := top.Wall, top.MemoryBytes
		top = std
		top.Wall, top.MemoryBytes = wall, memory
	}
	fill(&l.Wall, std.Wall)
	fill(&l.CPU, std.CPU)
	fill(&l.Fuel, std.Fuel)
	fill(&l.MemoryBytes, std.MemoryBytes)
	fill(&l.StackBytes, std.StackBytes)
	fill(&l.InputBytes, std.InputBytes)
	fill(&l.OutputBytes, std.OutputBytes)
	fill(&l.LogBytes, std.LogBytes)
	if l.HostCalls != NoHostCalls {
		fill(&l.HostCalls, std.HostCalls)
	}
	return l.Lower(top)
}

func fill[T time.Duration | uint64 | int64 | int](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}
