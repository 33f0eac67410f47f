package meter

import "fmt"

// StripData prepares a module whose memory will be filled from a snapshot: the memory
// starts with the given number of pages, active data segments and the start section are removed,
// and the data count is adjusted. Table segments stay, because tables are filled at instantiation.
//
// A module with passive data segments is rejected, because a snapshot of the memory would not
// contain its whole state. Errors are *Error.
func StripData(wasm []byte, pages uint32) ([]byte, error) {
	m, err := parse(wasm, unlimited(), false)
	if err != nil {
		return nil, err
	}
	switch {
	case !m.hasMem || m.impMem:
		return nil, &Error{Feature: featInvalid, Message: "the module has no memory of its own"}
	case pages < m.mem.min || pages > 1<<16 || m.mem.hasMax && pages > m.mem.max:
		return nil, &Error{Feature: featInvalid, Message: fmt.Sprintf("the memory cannot begin with %d pages", pages)}
	}
	for _, s := range m.segments {
		if s.passive {
			return nil, &Error{Offset: s.at, Feature: featInvalid, Message: "a passive data segment cannot be in a snapshot"}
		}
	}
	used, err := m.usesData()
	if err != nil {
		return nil, err
	}
	w := &rewriter{m: m, out: make([]byte, 0, len(wasm))}
	w.out = append(w.out, wasm[:8]...)
	for _, s := range m.sections {
		switch s.id {
		case secCustom, secStart:
		case secMemory:
			b := []byte{1, 0}
			if m.mem.hasMax {
				b[1] = 1
			}
			b = appendU(b, uint64(pages))
			if m.mem.hasMax {
				b = appendU(b, uint64(m.mem.max))
			}
			w.section(s.id, b)
		case secDataCount:
			if used {
				w.section(s.id, appendU(nil, uint64(len(m.segments))))
			}
		case secData:
			// Instructions still refer to their segments by index. An active segment counts as
			// dropped after instantiation, and an empty passive one behaves the same.
			if used {
				b := appendU(nil, uint64(len(m.segments)))
				for range m.segments {
					b = append(b, 1, 0)
				}
				w.section(s.id, b)
			}
		default:
			w.section(s.id, wasm[s.body.start:s.body.end])
		}
	}
	return w.out, nil
}

// usesData reports whether an instruction refers to a data segment.
func (m *module) usesData() (bool, *Error) {
	if !m.hasCount {
		return false, nil
	}
	s := scanner{m: m}
	for f := range m.bodies {
		s.open(f)
		for s.err == nil && s.p < s.end {
			s.next()
			switch {
			case s.op == opBrTable:
				s.labels()
			case s.op == opPrefixMisc && (s.sub == miscMemoryInit || s.sub == miscDataDrop):
				return true, nil
			}
		}
		if s.err != nil {
			return false, s.err
		}
	}
	return false, nil
}
