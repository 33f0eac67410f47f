package meter

// Report describes a module.
type Report struct {
	Version         int      `json:"version"` // of the meter
	Imports         []Import `json:"imports"`
	Exports         []Export `json:"exports"`
	Memory          *Memory  `json:"memory,omitempty"` // nil: the module has none
	Tables          []Table  `json:"tables"`
	Globals         int      `json:"globals"`   // imported and defined, without those of the meter
	Functions       int      `json:"functions"` // defined, without those of the meter
	DataSegments    int      `json:"dataSegments"`
	ElementSegments int      `json:"elementSegments"`
	PassiveSegments int      `json:"passiveSegments"` // of the data segments
	Start           bool     `json:"start"`           // a start section exists
	StartExport     string   `json:"startExport"`     // set by Instrument: the export to call in its place, or empty
	SizeBefore      int      `json:"sizeBefore"`      // bytes
	SizeAfter       int      `json:"sizeAfter"`       // bytes; 0 if not rewritten
	Checks          int      `json:"checks"`          // number of checks; 0 if not rewritten
	ImportedMemory  bool     `json:"importedMemory"`
}

// Signature is the type of a function.
type Signature struct {
	Params  []string `json:"params"`
	Results []string `json:"results"`
}

// Import is something that the module imports.
type Import struct {
	Module    string     `json:"module"`
	Name      string     `json:"name"`
	Kind      string     `json:"kind"` // function, table, memory, global
	Signature *Signature `json:"signature,omitempty"`
}

// Export is something that the module exports.
type Export struct {
	Name      string     `json:"name"`
	Kind      string     `json:"kind"` // function, table, memory, global
	Signature *Signature `json:"signature,omitempty"`
}

// Memory is a linear memory, in pages of 64 KiB.
type Memory struct {
	Min uint32 `json:"min"`
	Max uint32 `json:"max"` // 65536 if none is declared
	// Exported is the name under which it is exported, or empty.
	Exported string `json:"exported"`
}

// Table is a table; sizes are in entries.
type Table struct {
	Type     string `json:"type"` // funcref, externref
	Min      uint32 `json:"min"`
	Max      uint32 `json:"max"` // as declared; 0 without HasMax
	HasMax   bool   `json:"hasMax"`
	Imported bool   `json:"imported"`
}

// scanAll reads every instruction.
func (m *module) scanAll() *Error {
	p := &planner{m: m}
	for f := range m.bodies {
		if p.scan(f); p.s.err != nil {
			return p.s.err
		}
	}
	return nil
}

func (m *module) report() Report {
	r := Report{
		Version: Version, Imports: []Import{}, Exports: []Export{}, Tables: []Table{},
		Globals: len(m.globals), Functions: len(m.bodies), DataSegments: len(m.segments),
		ElementSegments: m.elems, Start: m.start >= 0, SizeBefore: len(m.wasm), ImportedMemory: m.impMem,
	}
	for _, i := range m.imports {
		e := Import{Module: i.module, Name: i.name, Kind: kindName(i.kind)}
		if i.kind == kindFunc {
			e.Signature = m.signature(i.fn)
		}
		r.Imports = append(r.Imports, e)
	}
	if m.hasMem {
		r.Memory = &Memory{Min: m.mem.min, Max: 1 << 16}
		if m.mem.hasMax {
			r.Memory.Max = m.mem.max
		}
	}
	for _, x := range m.exports {
		e := Export{Name: x.name, Kind: kindName(x.kind)}
		switch x.kind {
		case kindFunc:
			e.Signature = m.signature(m.funcs[x.index])
		case kindMemory:
			if r.Memory.Exported == "" {
				r.Memory.Exported = x.name
			}
		}
		r.Exports = append(r.Exports, e)
	}
	for _, t := range m.tables {
		r.Tables = append(r.Tables, Table{
			Type: typeName(t.elem), Min: t.lim.min, Max: t.lim.max, HasMax: t.lim.hasMax, Imported: t.imported,
		})
	}
	for _, s := range m.segments {
		if s.passive {
			r.PassiveSegments++
		}
	}
	return r
}

func (m *module) signature(t uint32) *Signature {
	s := &Signature{Params: []string{}, Results: []string{}}
	for _, v := range m.types[t].params {
		s.Params = append(s.Params, typeName(v))
	}
	for _, v := range m.types[t].results {
		s.Results = append(s.Results, typeName(v))
	}
	return s
}

func typeName(t byte) string {
	switch t {
	case typeI32:
		return "i32"
	case typeI64:
		return "i64"
	case typeF32:
		return "f32"
	case typeF64:
		return "f64"
	case typeV128:
		return "v128"
	case typeFuncref:
		return "funcref"
	}
	return "externref"
}
