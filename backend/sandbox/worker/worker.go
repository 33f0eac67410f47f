// Package worker is the child process of the sandbox's tier t1: the frames that it and its
// parent exchange, how the parent starts it, and how it locks itself down. What runs inside is up
// to package sandbox.
//
// The parent starts the child with the argument sandbox-worker, an empty environment and
// the descriptors 0 to 2. Frames go over standard input and output. The child trusts its parent.
// The parent does not trust the child, since a guest may have taken it over, so it checks the
// limits of the child's frames when it reads them.
//
// Only backend/sandbox may import it.
package worker

import (
	"encoding/json"
	"time"
)

// Argument is the only argument of a program that is started as the child.
const Argument = "sandbox-worker"

// ProbeArgument makes the child end at once with code 0, to find out whether it can be
// started in a certain way. It comes after Argument, as the last.
const ProbeArgument = "probe"

// Kinds of child: what it loads before its run arrives.
const (
	KindJS   = "js"
	KindWASM = "wasm"
	// KindCompile compiles sources, one after the other, and runs nothing.
	KindCompile = "compile"
)

// ToChild is a frame for the child. Exactly one field is set; the frame's body is what the
// field says.
type ToChild struct {
	Hello   *Hello   `json:"hello,omitempty"`
	Run     *Run     `json:"run,omitempty"`
	Answer  *Answer  `json:"answer,omitempty"`
	Cancel  *Cancel  `json:"cancel,omitempty"`
	Compile *Compile `json:"compile,omitempty"`
}

// FromChild is a frame of the child. Exactly one field is set.
type FromChild struct {
	Ready    *Ready    `json:"ready,omitempty"`
	Log      *Log      `json:"log,omitempty"`
	Call     *Call     `json:"call,omitempty"`
	End      *End      `json:"end,omitempty"`
	Compiled *Compiled `json:"compiled,omitempty"`
}

// Hello is the first frame: what to get ready for. Of KindWASM the body is the prepared module.
type Hello struct {
	Kind       string `json:"kind"`
	CacheDir   string `json:"cacheDir,omitempty"` // of compiled code, read before the lock
	Crosscheck bool   `json:"crosscheck,omitempty"`
	// UnitTime is how many nanoseconds a unit of fuel takes, where threads have no clock.
	UnitTime float64 `json:"unitTime,omitempty"`
}

// Run is the one run. The body is the bytecode, CodeSize bytes and none for a module, and
// then the input.
type Run struct {
	CodeSize int    `json:"codeSize,omitempty"`
	Limits   Limits `json:"limits"`
	Name     string `json:"name,omitempty"`
	Version  string `json:"version,omitempty"`
	Author   string `json:"author,omitempty"`
	Seed     []byte `json:"seed,omitempty"` // eight bytes or none
}

// Limits of the run, as in the sandbox package; durations in nanoseconds.
type Limits struct {
	Wall        time.Duration `json:"wall"`
	CPU         time.Duration `json:"cpu"`
	Fuel        uint64        `json:"fuel"`
	MemoryBytes int64         `json:"memoryBytes"`
	StackBytes  int64         `json:"stackBytes"`
	InputBytes  int64         `json:"inputBytes"`
	OutputBytes int64         `json:"outputBytes"`
	LogBytes    int64         `json:"logBytes"`
	HostCalls   int           `json:"hostCalls"`
}

// Answer ends a host call. The body is the response when Error is nil. Charge is what
// inner runs have taken up to now.
type Answer struct {
	ID     int64      `json:"id"`
	Error  *HostError `json:"error,omitempty"`
	Charge *Charge    `json:"charge,omitempty"`
}

// HostError is a failed host call as the guest may see it. Kind is a fault kind; the
// reason, capability and resource are those of a refusal.
type HostError struct {
	Kind       string `json:"kind"`
	Message    string `json:"message"`
	Reason     string `json:"reason,omitempty"`
	Capability string `json:"capability,omitempty"`
	Resource   string `json:"resource,omitempty"`
}

// Charge is the usage of inner runs.
type Charge struct {
	CPU       time.Duration `json:"cpu"`
	Fuel      uint64        `json:"fuel"`
	HostCalls int           `json:"hostCalls"`
}

// Cancel asks the child to end its run; it answers with End all the same.
type Cancel struct{}

// Compile asks a child of KindCompile to compile a source, which is the body.
type Compile struct {
	TypeScript  bool `json:"typescript,omitempty"`
	KeepImports bool `json:"keepImports,omitempty"`
	Forms       bool `json:"forms,omitempty"`
	// CPU is the most processor time that it may take, where the system tells it.
	CPU time.Duration `json:"cpu"`
}

// Compiled answers Compile. The body is the code, CodeSize bytes, and then its source map.
type Compiled struct {
	CodeSize int       `json:"codeSize,omitempty"`
	TooLarge bool      `json:"tooLarge,omitempty"`
	Errors   []Message `json:"errors,omitempty"`
	Warnings []Message `json:"warnings,omitempty"`
	Forms    *Forms    `json:"forms,omitempty"`
}

// Message is an error or a warning of the compiler. Line and Column count from 1, Column in
// characters; both are 0 when it has no place.
type Message struct {
	Text     string `json:"text"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
	LineText string `json:"lineText,omitempty"`
}

// Forms are the entry forms that compiled code has, and the first module that it imports.
type Forms struct {
	Default  bool   `json:"default,omitempty"`
	Execute  bool   `json:"execute,omitempty"`
	Main     bool   `json:"main,omitempty"`
	Exports  bool   `json:"exports,omitempty"`
	Imported bool   `json:"imported,omitempty"`
	Import   string `json:"import,omitempty"`
}

// Ready says that the child has loaded what it needs, is locked down, and waits for its
// run.
type Ready struct {
	Lock LockReport    `json:"lock"`
	CPU  time.Duration `json:"cpu"` // used so far
}

// LockReport is what the child could do to itself. Landlock is the ABI version in force, 0
// for none. Reasons are codes of what is missing.
type LockReport struct {
	Landlock int      `json:"landlock"`
	Seccomp  bool     `json:"seccomp"`
	Reasons  []string `json:"reasons,omitempty"`
}

// Log is one line of the guest's log. Its text and then its fields, which are JSON or
// nothing, are the body; TextSize is the length of the first.
type Log struct {
	Level    string `json:"level"`
	TextSize int    `json:"textSize"`
}

// Call asks for a host operation; the body is the request. IDs count from 1.
type Call struct {
	ID int64  `json:"id"`
	Op string `json:"op"`
}

// End is the last frame. The body is the output when Error is nil.
type End struct {
	Error *RunError `json:"error,omitempty"`
	Usage Usage     `json:"usage"`
}

// RunError says how the run failed. Call is the host call whose refusal ended it, 0 for
// none. Details is one of the sandbox's detail types, by class.
type RunError struct {
	Class   string          `json:"class"`
	Message string          `json:"message"`
	Stack   string          `json:"stack,omitempty"`
	Details json.RawMessage `json:"details,omitempty"`
	Call    int64           `json:"call,omitempty"`
	Cause   string          `json:"cause,omitempty"` // for the log
}

// Usage of the run, without inner runs.
type Usage struct {
	CPU        time.Duration `json:"cpu"`
	Fuel       uint64        `json:"fuel"`
	PeakMemory int64         `json:"peakMemory"`
}
