package meter

// The sections of a module, one function each.

func (m *module) importSection(r *reader, strict bool) {
	n := r.count(-1, "imports")
	for i := 0; i < n && r.err == nil; i++ {
		at := r.p
		e := importEntry{module: r.name(), name: r.name()}
		kindAt := r.p
		e.kind = r.byte()
		if r.err != nil {
			return
		}
		switch e.kind {
		case kindFunc:
			e.fn = m.typeIndex(r)
			m.funcs = append(m.funcs, e.fn)
			m.impFuncs++
		case kindTable:
			e.table = m.readTable(r)
			e.table.imported = true
			m.tables = append(m.tables, e.table)
			m.impTabs++
		case kindMemory:
			m.readMemory(r)
			e.mem, m.impMem = m.mem, true
		case kindGlobal:
			e.global = readGlobalType(r)
			m.globals = append(m.globals, e.global)
			m.impGlobs++
		case kindTag:
			r.fail(kindAt, featExceptions, "an imported tag")
		default:
			r.fail(kindAt, featMalformed, "import kind %#x", e.kind)
		}
		if r.err == nil && strict && (e.kind != kindFunc || !m.lim.Imports(e.module, e.name)) {
			r.fail(at, featImport, "%s %q of module %q cannot be imported", kindName(e.kind), cut(e.name), cut(e.module))
		}
		m.imports = append(m.imports, e)
	}
	m.limit(r, len(m.funcs), m.lim.Functions, "functions")
	m.limit(r, len(m.globals), m.lim.Globals, "globals")
}

func (m *module) limit(r *reader, have, max int, what string) {
	if have > max {
		r.fail(r.p, featLimits, "%d %s, at most %d are allowed", have, what, max)
	}
}

// cut shortens names of a guest for messages.
func cut(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}

func kindName(k byte) string {
	return [...]string{"function", "table", "memory", "global", "tag"}[k]
}

func (m *module) functionSection(r *reader) {
	n := r.count(m.lim.Functions-len(m.funcs), "functions")
	for i := 0; i < n && r.err == nil; i++ {
		m.funcs = append(m.funcs, m.typeIndex(r))
	}
}

func (m *module) tableSection(r *reader) {
	n := r.count(-1, "tables")
	for i := 0; i < n && r.err == nil; i++ {
		m.tables = append(m.tables, m.readTable(r))
	}
}

func (m *module) memorySection(r *reader) {
	n := r.count(-1, "memories")
	for i := 0; i < n && r.err == nil; i++ {
		m.readMemory(r)
	}
}

func (m *module) globalSection(r *reader) {
	n := r.count(m.lim.Globals-len(m.globals), "globals")
	for i := 0; i < n && r.err == nil; i++ {
		t := readGlobalType(r)
		m.constExpr(r)
		m.globals = append(m.globals, t)
	}
}

// constExpr reads one constant instruction and its end.
func (m *module) constExpr(r *reader) {
	at := r.p
	switch op := r.byte(); op {
	case 0x41:
		r.signed(32)
	case 0x42:
		r.signed(64)
	case 0x43:
		r.skip(4)
	case 0x44:
		r.skip(8)
	case 0x23:
		m.index(r, len(m.globals), "global")
	case 0xd0:
		refType(r)
	case 0xd2:
		m.take(m.funcIndex(r))
	case 0xfd:
		if sub := r.u32(); sub != 12 && r.err == nil {
			r.fail(at, featInvalid, "not a constant instruction")
		}
		r.skip(16)
	case 0xfb:
		r.fail(at, featGC, "constant instruction")
	default:
		r.fail(at, featInvalid, "opcode %#x is not a constant instruction", op)
	}
	at = r.p
	if op := r.byte(); op != 0x0b && r.err == nil {
		r.fail(at, featExtConst, "a constant expression has more than one instruction")
	}
}

func (m *module) take(f uint32) {
	if m.taken == nil {
		// All functions are known here, except if globals come too early, which is rejected.
		m.taken = make([]bool, len(m.funcs))
	}
	if int(f) < len(m.taken) {
		m.taken[f] = true
	}
}

// index reads an index that must be below n.
func (m *module) index(r *reader, n int, what string) uint32 {
	at := r.p
	i := r.u32()
	if r.err == nil && int64(i) >= int64(n) {
		r.fail(at, featInvalid, "%s %d does not exist", what, i)
		return 0
	}
	return i
}

func (m *module) typeIndex(r *reader) uint32 { return m.index(r, len(m.types), "type") }
func (m *module) funcIndex(r *reader) uint32 { return m.index(r, len(m.funcs), "function") }

func (m *module) exportSection(r *reader) {
	n := r.count(-1, "exports")
	seen := make(map[string]struct{}, n)
	for i := 0; i < n && r.err == nil; i++ {
		at := r.p
		e := exportEntry{at: at, name: r.name()}
		kindAt := r.p
		e.kind = r.byte()
		if r.err != nil {
			return
		}
		switch e.kind {
		case kindFunc:
			e.index = m.funcIndex(r)
		case kindTable:
			e.index = m.index(r, len(m.tables), "table")
		case kindMemory:
			e.index = m.index(r, m.memories(), "memory")
		case kindGlobal:
			e.index = m.index(r, len(m.globals), "global")
		case kindTag:
			r.fail(kindAt, featExceptions, "an exported tag")
		default:
			r.fail(kindAt, featMalformed, "export kind %#x", e.kind)
		}
		if r.err != nil {
			return
		}
		if _, twice := seen[e.name]; twice {
			r.fail(at, featInvalid, "two exports are named %q", cut(e.name))
		}
		seen[e.name] = struct{}{}
		m.exports = append(m.exports, e)
	}
}

func (m *module) memories() int {
	if m.hasMem {
		return 1
	}
	return 0
}

func (m *module) elementSection(r *reader) {
	n := r.count(m.lim.Segments, "element segments")
	for i := 0; i < n && r.err == nil; i++ {
		at := r.p
		flag := r.u32()
		if flag > 7 {
			r.fail(at, featMalformed, "element segment kind %d", flag)
			return
		}
		table := uint32(0)
		active := flag&1 == 0
		if active {
			if flag&2 != 0 {
				table = r.u32()
			}
			if r.err == nil && int64(table) >= int64(len(m.tables)) {
				r.fail(at, featInvalid, "table %d does not exist", table)
			}
			m.constExpr(r)
		}
		if flag&3 != 0 {
			if flag&4 != 0 {
				refType(r)
			} else if k := r.byte(); k != 0 {
				r.fail(r.p, featMalformed, "element kind %#x", k)
			}
		}
		at = r.p
		c := r.count(-1, "elements")
		m.entries += c
		if m.entries > m.lim.TableEntries {
			r.fail(at, featLimits, "more than %d entries in element segments", m.lim.TableEntries)
		}
		for j := 0; j < c && r.err == nil; j++ {
			if flag&4 != 0 {
				m.constExpr(r)
			} else {
				m.take(m.funcIndex(r))
			}
		}
		m.elems++
	}
}

func (m *module) codeSection(r *reader) {
	n := r.count(-1, "function bodies")
	m.bodies = make([]span, 0, n)
	for i := 0; i < n && r.err == nil; i++ {
		at := r.p
		size := r.count(-1, "bytes of a function body")
		if size > m.lim.BodyBytes {
			r.fail(at, featLimits, "function body of %d bytes, at most %d are allowed", size, m.lim.BodyBytes)
			return
		}
		m.bodies = append(m.bodies, span{r.p, r.p + size})
		r.skip(size)
	}
}

func (m *module) dataSection(r *reader) {
	n := r.count(m.lim.Segments, "data segments")
	for i := 0; i < n && r.err == nil; i++ {
		at := r.p
		flag := r.u32()
		s := dataSegment{at: at, passive: flag == 1}
		switch flag {
		case 0, 2:
			if flag == 2 {
				if mem := r.u32(); mem != 0 {
					r.fail(at, featMultiMem, "data for memory %d", mem)
				}
			}
			if !m.hasMem {
				r.fail(at, featInvalid, "data for a memory that does not exist")
			}
			m.constExpr(r)
		case 1:
		default:
			r.fail(at, featMalformed, "data segment kind %d", flag)
		}
		r.skip(r.count(-1, "bytes of data"))
		m.segments = append(m.segments, s)
	}
}
