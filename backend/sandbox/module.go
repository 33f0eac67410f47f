package sandbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"helix/backend/sandbox/linear"
	"helix/backend/sandbox/meter"
)

// The ways in which a module can be called. Both read their input, one JSON document, from WASI's
// standard input and write their output, another one, to standard output. Lines on standard error
// go to the run's log with level info. There are no arguments and no environment. The only folders
// are those that the Host provides (see OpFolders), and they are read-only.
const (
	ABIExecute = "execute" // exports execute() and memory; _initialize is called first
	ABICommand = "command" // exports _start, like a C, Rust or Go program; must exit with 0
)

// Module is a WASM module that was validated, metered and compiled. It is safe for use by
// many goroutines; its code is freed when it is no longer referenced.
type Module struct {
	info     ModuleInfo
	prepared *preparedModule // for a child process

	linking sync.Mutex
	code    *moduleCode // nil: loaded on the first run in this process
}

func (*Module) runnable() {}

// ModuleInfo describes a module.
type ModuleInfo struct {
	ABI     string   `json:"abi"` // execute, command
	Exports []string `json:"exports"`
	Imports []string `json:"imports"` // as module.name
	Memory  uint32   `json:"memory"`  // initial pages of 64 KiB
	Tables  int      `json:"tables"`
	Size    int64    `json:"size"` // bytes
	SHA256  string   `json:"sha256"`
}

// Info describes the module.
func (m *Module) Info() ModuleInfo { return m.info }

// ModuleDetail is the Details of a compile Error about a module: the position in the file in bytes
// and what was rejected, such as "threads", "import" or "malformed".
type ModuleDetail struct {
	Offset  int    `json:"offset"`
	Feature string `json:"feature"`
}

// ExportsDetail is the Details of a missing_export Error.
type ExportsDetail struct {
	Exports []string `json:"exports"`
}

// compileDeadline is how long a module may take to compile.
const compileDeadline = 60 * time.Second

var errCompileDeadline = errors.New("compiling took too long")

// CompileWASM validates, instruments and compiles a module, or returns the one compiled earlier
// from the same bytes. Errors have class compile, with a ModuleDetail if the position is known,
// missing_export, canceled, or unavailable.
func (e *Engine) CompileWASM(ctx context.Context, wasm []byte) (*Module, error) {
	if err := e.begin(); err != nil {
		return nil, err
	}
	defer e.runs.Done()
	if max := meter.DefaultLimits().Bytes; len(wasm) > max {
		return nil, &Error{
			Class: ClassCompile, Message: fmt.Sprintf("The module is larger than %s.", size(int64(max))),
			Details: ModuleDetail{max, "module limits"},
		}
	}
	m, err := e.modules.compile(ctx, e, wasm)
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (s *modules) compile(ctx context.Context, e *Engine, wasm []byte) (*Module, *Error) {
	key := hashOf(wasm)
	if m, ok := s.kept.Get(key); ok {
		return m, nil
	}
	select { // one at a time: compiling already uses two cores
	case s.compiling <- struct{}{}:
		defer func() { <-s.compiling }()
	case <-ctx.Done():
		return nil, contextError(ctx)
	}
	if m, ok := s.kept.Get(key); ok {
		return m, nil
	}
	if err := s.open(e); err != nil {
		return nil, &Error{Class: ClassUnavailable, Message: "The engine for WASM modules could not be started.", Err: err}
	}
	within, cancel := context.WithTimeoutCause(ctx, compileDeadline, errCompileDeadline)
	defer cancel()
	p := s.load(e, key)
	cached := p != nil
	if !cached {
		var err *Error
		if p, err = prepareModule(within, wasm, key); err != nil {
			return nil, err
		}
	}
	m := &Module{info: p.Info, prepared: p}
	if !cached {
		if err := m.load(within, e); err != nil {
			return nil, err
		}
		s.store(e, key, p)
	}
	s.kept.Put(key, m)
	return m, nil
}

// hashOf returns the SHA-256 of a module. It hashes in pieces, because one long call would delay a
// garbage collection.
func hashOf(wasm []byte) (key [sha256.Size]byte) {
	h := sha256.New()
	for piece := range slices.Chunk(wasm, 1<<20) {
		_, _ = h.Write(piece) // never fails
	}
	h.Sum(key[:0])
	return key
}

// load loads the module's machine code, or compiles it again if the cache no longer has it.
func (m *Module) load(ctx context.Context, e *Engine) *Error {
	m.linking.Lock()
	defer m.linking.Unlock()
	if m.code != nil {
		return nil
	}
	if m.prepared == nil {
		return failf(ClassUnavailable, "Nothing to run.")
	}
	within, cancel := context.WithTimeoutCause(ctx, compileDeadline, errCompileDeadline)
	defer cancel()
	code, err := e.modules.link(within, e, m.prepared)
	switch {
	case err == nil:
		m.code = code
		runtime.AddCleanup(m, e.modules.forget, code)
		return nil
	case within.Err() != nil:
		return compileEnded(within)
	}
	return &Error{Class: ClassCompile, Message: "The module cannot be compiled: " + firstLine(err.Error()), Err: err}
}

// compileEnded returns the error for a compilation whose context has ended.
func compileEnded(ctx context.Context) *Error {
	if errors.Is(context.Cause(ctx), errCompileDeadline) {
		return failf(ClassCompile, "The module takes longer than %s to compile.", compileDeadline)
	}
	return contextError(ctx)
}

// preparedModule is everything known about a module before it is compiled to machine code. It is
// the content of the disk cache.
type preparedModule struct {
	Info       ModuleInfo
	Calls      []string // the exports to call, in order
	Globals    []string
	Restorable bool
	MaxPages   uint32
	Pages      [][2]int       // offset and size of each piece of data
	data       []linear.Chunk // the initial content of memory; they are in encoded
	wasm       []byte
	encoded    []byte // all of it; contains data and wasm
}

func prepareModule(ctx context.Context, wasm []byte, key [32]byte) (*preparedModule, *Error) {
	known := importable()
	limits := meter.DefaultLimits()
	limits.Imports = func(module, name string) bool {
		_, ok := known[module][name]
		return ok
	}
	if err := meter.Validate(wasm, limits); err != nil {
		return nil, meterError(err)
	}
	if ctx.Err() != nil {
		return nil, compileEnded(ctx)
	}
	metered, report, err := meter.Instrument(wasm, meter.Options{CountStack: true})
	if err != nil {
		return nil, meterError(err)
	}
	ready, err := meter.Prepare(metered)
	if err != nil {
		return nil, meterError(err)
	}
	p := &preparedModule{Globals: ready.Globals, Restorable: ready.Restorable, wasm: ready.Wasm, MaxPages: 1}
	p.Info = ModuleInfo{
		Exports: []string{}, Imports: []string{}, Tables: len(report.Tables),
		Size: int64(len(wasm)), SHA256: hex.EncodeToString(key[:]),
	}
	if report.Memory != nil {
		p.Info.Memory = report.Memory.Min
		p.MaxPages = min(report.Memory.Max, limits.MemoryPages)
	}
	first := make([]byte, int(p.Info.Memory)<<16)
	for _, d := range ready.Data {
		copy(first[d.Offset:], d.Bytes)
	}
	p.data = linear.Chunks(first)
	for _, d := range p.data {
		p.Pages = append(p.Pages, [2]int{d.At, len(d.Data)})
	}
	for _, i := range report.Imports {
		p.Info.Imports = append(p.Info.Imports, i.Module+"."+i.Name)
		if f := known[i.Module][i.Name]; !f.fits(i.Signature) {
			return nil, &Error{
				Class:   ClassCompile,
				Message: fmt.Sprintf("The module imports %s.%s with another signature than it has.", i.Module, i.Name),
				Details: ModuleDetail{Feature: "import"},
			}
		}
	}
	if err := p.findEntry(report); err != nil {
		return nil, err
	}
	p, err = decodePrepared(encodePrepared(p)) // keeps only one copy of the bytes
	if err != nil {
		return nil, &Error{Class: ClassTrap, Message: "The module could not be prepared.", Err: err}
	}
	return p, nil
}

// fits reports whether the function has the signature that a module's import declares.
func (f importedFunction) fits(s *meter.Signature) bool {
	if s == nil || len(s.Params) != len(f.params) || (len(s.Results) == 1) != f.result || len(s.Results) > 1 {
		return false
	}
	for i, c := range f.params {
		if want := map[rune]string{'i': "i32", 'I': "i64"}[c]; s.Params[i] != want {
			return false
		}
	}
	return !f.result || s.Results[0] == "i32"
}

// findEntry determines how the module is called.
func (p *preparedModule) findEntry(r meter.Report) *Error {
	plain := map[string]bool{} // functions without parameters and results
	var listed []string
	for _, x := range r.Exports {
		p.Info.Exports = append(p.Info.Exports, x.Name)
		listed = append(listed, describeExport(x))
		if s := x.Signature; s != nil && len(s.Params)+len(s.Results) == 0 {
			plain[x.Name] = true
		}
	}
	if r.StartExport != "" {
		p.Calls = append(p.Calls, r.StartExport)
	}
	memory := r.Memory != nil && r.Memory.Exported != ""
	switch {
	case plain["execute"] && memory:
		p.Info.ABI = ABIExecute
		if plain["_initialize"] {
			p.Calls = append(p.Calls, "_initialize")
		}
		p.Calls = append(p.Calls, "execute")
		return nil
	case plain["_start"] && !plain["execute"]:
		p.Info.ABI = ABICommand
		p.Calls = append(p.Calls, "_start")
		return nil
	}
	what := "neither execute() nor _start()"
	if plain["execute"] {
		what = "execute() but not its memory"
	}
	all := "nothing"
	if len(listed) > 0 {
		const most = 20
		all = strings.Join(listed[:min(len(listed), most)], ", ")
		if n := len(listed) - most; n > 0 {
			all += fmt.Sprintf(" and %d more", n)
		}
	}
	return &Error{
		Class: ClassMissingExport, Message: fmt.Sprintf("The module exports %s. It exports %s.", what, all),
		Details: ExportsDetail{p.Info.Exports},
	}
}

func describeExport(x meter.Export) string {
	name := []rune(x.Name)
	if len(name) > 60 {
		name = append(name[:60:60], '…')
	}
	if x.Signature == nil {
		return string(name) + " (" + x.Kind + ")"
	}
	s := string(name) + "(" + strings.Join(x.Signature.Params, ", ") + ")"
	if len(x.Signature.Results) > 0 {
		s += " " + strings.Join(x.Signature.Results, ", ")
	}
	return s
}

func meterError(err error) *Error {
	var m *meter.Error
	if !errors.As(err, &m) {
		return &Error{Class: ClassCompile, Message: "The module cannot be compiled: " + firstLine(err.Error()), Err: err}
	}
	return &Error{
		Class: ClassCompile, Message: fmt.Sprintf("The module is refused (%s, at byte %d): %s.", m.Feature, m.Offset, strings.TrimSuffix(firstLine(m.Message), ".")),
		Details: ModuleDetail{m.Offset, m.Feature}, Err: err,
	}
}

func firstLine(s string) string {
	line, _, _ := bytes.Cut([]byte(s), []byte("\n"))
	return head(line)
}
