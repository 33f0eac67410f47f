package meter

import "fmt"

// Error describes why a module was refused, and where.
type Error struct {
	// Offset is the position in the file in bytes.
	Offset int
	// Feature is what was refused, for example "threads" or "module limits"; it is "malformed" if
	// the bytes are not WebAssembly.
	Feature string
	// Message is for people.
	Message string
}

// Error returns the message with its position.
func (e *Error) Error() string {
	return fmt.Sprintf("%s at offset %d: %s", e.Feature, e.Offset, e.Message)
}

// Names of what can be refused, as they appear in Error.Feature.
const (
	featMalformed  = "malformed"
	featLimits     = "module limits"
	featImport     = "import"
	featReserved   = "reserved name"
	featInvalid    = "invalid"
	featThreads    = "threads"
	featMemory64   = "memory64"
	featTailCall   = "tail calls"
	featExceptions = "exceptions"
	featGC         = "GC types"
	featFuncRefs   = "typed function references"
	featMultiMem   = "multi-memory"
	featComponent  = "component model"
	featRelaxed    = "relaxed SIMD"
	featExtConst   = "extended constant expressions"
	featPageSize   = "custom page sizes"
	featWide       = "wide arithmetic"
	featUnknown    = "unknown opcode"
)

// ModuleLimits limits what a module may contain. A field of zero or less means the value in
// DefaultLimits.
type ModuleLimits struct {
	Bytes        int    // whole file; 32 MiB
	Functions    int    // imported and defined together; 100,000
	BodyBytes    int    // one function body; 1 MiB
	Locals       int    // of one function, without parameters; 50,000
	Globals      int    // imported and defined together; 10,000
	Segments     int    // data segments, and the same number of element segments; 100,000
	TableEntries int    // all tables together, and all entries of element segments together; 1,000,000
	MemoryPages  uint32 // initial memory in pages of 64 KiB; 4096 (256 MiB)
	// Imports reports whether a function may be imported. Nil allows the functions of
	// wasi_snapshot_preview1 and helix.
	Imports func(module, name string) bool
}

// DefaultLimits returns the limits for modules from outside Helix.
func DefaultLimits() ModuleLimits {
	return ModuleLimits{
		Bytes:        32 << 20,
		Functions:    100_000,
		BodyBytes:    1 << 20,
		Locals:       50_000,
		Globals:      10_000,
		Segments:     100_000,
		TableEntries: 1_000_000,
		MemoryPages:  4096,
		Imports: func(module, _ string) bool {
			return module == "wasi_snapshot_preview1" || module == "helix"
		},
	}
}

// filled returns l with defaults for missing fields.
func (l ModuleLimits) filled() ModuleLimits {
	d := DefaultLimits()
	for _, f := range []struct {
		have *int
		def  int
	}{
		{&l.Bytes, d.Bytes}, {&l.Functions, d.Functions}, {&l.BodyBytes, d.BodyBytes}, {&l.Locals, d.Locals},
		{&l.Globals, d.Globals}, {&l.Segments, d.Segments}, {&l.TableEntries, d.TableEntries},
	} {
		if *f.have <= 0 {
			*f.have = f.def
		}
	}
	if l.MemoryPages == 0 {
		l.MemoryPages = d.MemoryPages
	}
	if l.Imports == nil {
		l.Imports = d.Imports
	}
	return l
}

// unlimited returns limits for modules that were checked before and grew when they were
// instrumented.
func unlimited() ModuleLimits {
	const much = 1 << 30
	return ModuleLimits{
		Bytes: much, Functions: much, BodyBytes: much, Locals: much, Globals: much, Segments: much, TableEntries: much,
		MemoryPages: 1 << 16,
	}
}

// maxArity limits the parameters, and the results, of one type. Without it, validation time would
// not be linear in the size of a module: a block is three bytes, and each has to be checked value
// by value.
const maxArity = 1000
