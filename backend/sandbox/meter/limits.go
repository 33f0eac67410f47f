package meter

import "fmt"

// Error says why a module was refused and where.
type Error struct {
	// Offset is the position in the file, in bytes.
	Offset int
	// Feature names what was refused, for example "threads" or "module limits"; it is
	// "malformed" when the bytes are not WebAssembly at all.
	Feature string
	// Message is for a person.
	Message string
}

// Error gives the message with its place.
func (e *Error) Error() string {
	return fmt.Sprintf("%s at offset %d: %s", e.Feature, e.Offset, e.Message)
}

// Names of what is refused, as they appear in Error.Feature.
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

// ModuleLimits bounds what a module may contain. A number of zero or less means the number
// of DefaultLimits.
type ModuleLimits struct {
	Bytes        int    // whole file; 32 MiB
	Functions    int    // imported and defined together; 100,000
	BodyBytes    int    // one function body; 1 MiB
	Locals       int    // of one function, without parameters; 50,000
	Globals      int    // imported and defined together; 10,000
	Segments     int    // data segments, and as many element segments; 100,000
	TableEntries int    // all tables together, and all entries of element segments together; 1,000,000
	MemoryPages  uint32 // initial memory in pages of 64 KiB; 4096 (256 MiB)
	// Imports says whether a function may be imported. Nil allows the functions of
	// wasi_snapshot_preview1 and helix.
	Imports func(module, name string) bool
}

// DefaultLimits are the limits for modules that Helix did not make.
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

// filled puts the defaults where l has nothing.
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

// unlimited are limits for modules that were judged before and grew when they were
// instrumented.
func unlimited() ModuleLimits {
	const much = 1 << 30
	return ModuleLimits{
		Bytes: much, Functions: much, BodyBytes: much, Locals: much, Globals: much, Segments: much, TableEntries: much,
		MemoryPages: 1 << 16,
	}
}

// maxArity bounds the parameters, and the results, of one type. Without it the work of a
// validator is not linear in the size of a module: a block is three bytes, and each has to
// be checked value by value.
const maxArity = 1000
