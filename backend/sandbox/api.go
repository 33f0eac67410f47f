package sandbox

import (
	"encoding/json"
	"io"
	"time"
)

// Options configure Open. The zero value works: no disk cache, sizes derived from the number of
// cores.
type Options struct {
	// CacheDir keeps compiled engine code between starts. It must belong to the user with
	// mode 0700, otherwise it is not used and Status reports why. Empty: no disk cache.
	CacheDir string
	Workers  int // concurrent runs, besides up to half as many that the queue may add; 0: 2 × cores, between 2 and 16
	Queue    int // runs that may wait for a worker; 0: 256
	Idle     int // prepared instances kept ready; 0: 4, negative: none
	// WorkerCommand starts the child of tier t1; it is the result of ServeWorker. nil: no code runs
	// in a child.
	WorkerCommand []string
	// MinIsolation is the weakest isolation in which tier t1 may run, one of the Isolation
	// constants; empty: process.
	MinIsolation string
	Now          func() time.Time // nil: time.Now; the clock that guests see
	Rand         io.Reader        // nil: crypto/rand
	// Lazy makes Open return at once; the engine is loaded on first use, and Status reports whether
	// that worked.
	Lazy bool
	// Crosscheck enables a second, slower way of stopping runs besides the normal one, so that
	// tests can compare the results.
	Crosscheck bool

	modulesOnly bool    // in the child process of a module: do not load the JavaScript engine
	unitTime    float64 // in a child: the parent's measurement, see Engine.unitTime
}

// Language is the language of a Source.
type Language string

// The languages.
const (
	TypeScript Language = "typescript"
	JavaScript Language = "javascript"
)

// Source is the text of a program. Name appears in stack traces; empty: tool.ts or tool.js. An
// empty Language is JavaScript.
type Source struct {
	Name     string
	Text     string
	Language Language
}

// Runnable is a *Program or a *Module.
type Runnable interface{ runnable() }

// Trust is where a program comes from; it determines the tier of a Module. JavaScript runs in
// process regardless of its trust.
type Trust string

// The levels of trust. The zero value is TrustForeign.
const (
	TrustForeign Trust = ""
	TrustOwn     Trust = "own"    // created on this installation
	TrustSigned  Trust = "signed" // by a trusted key
)

// Meta describes a run: Name, Version and Author become the guest's skillName,
// skillVersion and skillAuthor. The queue is fair between values of User.
type Meta struct {
	Name, Version, Author string
	User                  string
}

// Call describes one run. Most guests use only Input; every field has a default.
type Call struct {
	Input  json.RawMessage // the guest's params; nil: {}
	Limits Limits          // zero fields: the standard profile, or wasm for a module; capped at permissive
	Host   Host            // nil: every operation is refused
	Trust  Trust
	Meta   Meta
	Tier   string        // empty: by trust; t1 forces the separate process; t0 is only for runs started by the user
	Seed   *[8]byte      // makes Math.random reproducible
	Log    func(LogLine) // called with each log line as it is written; must not block
}

// LogLine is one line that a guest logged. Level is debug, info, warn or error.
type LogLine struct {
	Time    time.Time       `json:"time"`
	Level   string          `json:"level"`
	Message string          `json:"message"`
	Fields  json.RawMessage `json:"fields,omitempty"`
}

// Result is the result of a run. Logs and Usage are also set if the run failed. Logs is never nil.
type Result struct {
	Output json.RawMessage
	Logs   []LogLine
	Usage  Usage
	Tier   string // t0 or t1
	// Isolation is how the run was isolated from the system, one of the Isolation constants.
	// Reasons name the layers that are missing here; it is never nil.
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

// Usage is what a run used. A unit of Fuel is one instruction of the virtual machine that runs
// guests, or a part of a longer operation that takes as long.
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

// ProfileNames lists the profiles, strictest first; wasm is for modules.
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

// NoHostCalls as Limits.HostCalls forbids host calls. Zero means the default.
const NoHostCalls = -1

// Lower returns the smaller of l and m field by field; zero fields of m leave l unchanged.
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

// effective fills in defaults and caps a caller's limits: JavaScript may have the limits of the
// profile permissive, a module those of wasm, but with one minute and 256 MiB.
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
