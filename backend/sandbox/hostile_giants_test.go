package sandbox

import (
	"bytes"
	"strings"
	"time"
)

// The parts of modules in the corpus that are too large to be files or that no assembler can write.

const (
	secCustom = iota
	secType
	secImport
	secFunction
	secTable
	secMemory
	secGlobal
	secExport
	secStart
	secElement
	secCode
	secData
	secDataCount
)

func leb(n uint64) []byte {
	var b []byte
	for n >= 0x80 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n))
}

func cat(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case byte:
			b = append(b, p)
		case int:
			b = append(b, leb(uint64(p))...)
		case string:
			b = append(append(b, leb(uint64(len(p)))...), p...)
		case []byte:
			b = append(b, p...)
		default:
			panic("cat")
		}
	}
	return b
}

func section(id byte, parts ...any) []byte {
	body := cat(parts...)
	return cat(id, len(body), body)
}

func wasmModule(sections ...[]byte) []byte {
	return append([]byte("\x00asm\x01\x00\x00\x00"), bytes.Join(sections, nil)...)
}

func body(locals []byte, code ...any) []byte {
	b := cat(locals, cat(code...), byte(0x0b))
	return cat(len(b), b)
}

func times(n int, code ...byte) []byte { return bytes.Repeat(code, n) }

var (
	noLocals  = []byte{0}
	typeVoid  = section(secType, 1, []byte{0x60, 0, 0})
	onePage   = section(secMemory, 1, []byte{0, 1})
	entryOnly = section(secExport, 2, "execute", []byte{0, 0}, "memory", []byte{2, 0})
)

// oneFunction returns a module with execute as its only function.
func oneFunction(locals []byte, code ...any) []byte {
	return wasmModule(typeVoid, section(secFunction, 1, 0), onePage, entryOnly, section(secCode, 1, body(locals, code...)))
}

// manyFunctions returns a module with n functions of the given body.
func manyFunctions(n int, b []byte) []byte {
	return wasmModule(typeVoid, section(secFunction, n, times(n, 0)), onePage, entryOnly, section(secCode, n, bytes.Repeat(b, n)))
}

func forever(code ...any) []byte { return cat([]byte{0x03, 0x40}, cat(code...), []byte{0x0c, 0, 0x0b}) }

// hostileGiants returns the modules that are generated here.
func hostileGiants() []hostileCase {
	const mebi = 1 << 20
	var cases []hostileCase
	add := func(name, classes string, code func() []byte, change ...func(*hostileCase)) {
		h := hostileCase{name: "wasm_" + name, kind: "wasm", classes: strings.Fields(classes), make: code}
		for _, f := range change {
			f(&h)
		}
		h.defaults()
		cases = append(cases, h)
	}
	slow := func(h *hostileCase) { h.within = 10 * time.Second } // for the compiler

	// CPU time.
	add("cpu_straight_line", "cpu", func() []byte { return oneFunction(noLocals, forever(times(mebi/3-20, 0x41, 1, 0x1a))) }, slow)
	add("cpu_straight_arithmetic", "cpu", func() []byte {
		return oneFunction([]byte{1, 1, 0x7e}, forever(times(mebi/7-20, 0x20, 0, 0x42, 3, 0x7e, 0x21, 0)))
	}, slow)
	add("cpu_straight_loads", "cpu compile", func() []byte { return oneFunction(noLocals, forever(times(mebi/6-20, 0x41, 0, 0x28, 2, 0, 0x1a))) }, slow)
	add("cpu_straight_calls", "cpu compile", func() []byte {
		return wasmModule(typeVoid, section(secFunction, 2, []byte{0, 0}), onePage, entryOnly,
			section(secCode, 2, body(noLocals, forever(times(100_000, 0x10, 1))), body(noLocals)))
	}, slow)
	add("cpu_straight_fills", "cpu compile", func() []byte {
		return wasmModule(typeVoid, section(secFunction, 1, 0), section(secMemory, 1, []byte{0}, 800), entryOnly,
			section(secCode, 1, body(noLocals, forever(bytes.Repeat(cat([]byte{0x41, 0, 0x41, 1, 0x41}, []byte{0x80, 0x80, 0x80, 0x18}, []byte{0xfc, 0x0b, 0}), 20_000)))))
	}, slow)
	add("cpu_branch_table_million", "cpu compile", func() []byte {
		return oneFunction(noLocals, forever([]byte{0x02, 0x40, 0x41, 7, 0x0e}, 1_000_000, times(1_000_001, 0), []byte{0x0b}))
	}, slow)
	add("cpu_branch_table_storm", "cpu compile", func() []byte {
		return oneFunction([]byte{1, 1, 0x7f}, forever(times(2000, 0x02, 0x40), []byte{0x20, 0, 0x41, 1, 0x6a, 0x22, 0, 0x0e}, 1999,
			func() []byte {
				var b []byte
				for i := range 2000 {
					b = append(b, leb(uint64(i))...)
				}
				return b
			}(), times(2000, 0x0b)))
	}, slow)
	add("cpu_many_loops", "cpu compile", func() []byte {
		return oneFunction(noLocals, times(20_000, 0x03, 0x40), []byte{0x0c}, 19_999, times(20_000, 0x0b))
	}, slow)
	add("cpu_many_ifs", "cpu compile", func() []byte { return oneFunction(noLocals, forever(times(150_000, 0x41, 1, 0x04, 0x40, 0x0b))) }, slow)
	add("cpu_block_parameters", "cpu compile", func() []byte {
		n := 200 // blocks with 200 parameters and results
		t := cat(2, []byte{0x60, 0, 0, 0x60}, n, times(n, 0x7e), n, times(n, 0x7e))
		return wasmModule(section(secType, t), section(secFunction, 1, 0), onePage, entryOnly,
			section(secCode, 1, body(noLocals, times(n, 0x42, 1), bytes.Repeat(cat(byte(0x03), 1, byte(0x0b)), 500), cat(byte(0x03), 1, []byte{0x0c, 0, 0x0b}), times(n, 0x1a))))
	}, slow)

	// No loop and no recursion, but an astronomical number of steps: each function calls the next
	// one several times.
	tower := func(depth, calls int, last []byte, indirect bool) []byte {
		bodies := cat()
		for i := range depth {
			b := cat()
			for range calls {
				if indirect {
					b = cat(b, byte(0x41), i+1, []byte{0x11, 0, 0})
				} else {
					b = cat(b, byte(0x10), i+1)
				}
			}
			bodies = cat(bodies, body(noLocals, b))
		}
		bodies = cat(bodies, body(noLocals, last))
		elements := cat()
		for i := range depth + 1 {
			elements = cat(elements, i)
		}
		return wasmModule(typeVoid, section(secFunction, depth+1, times(depth+1, 0)), section(secTable, 1, []byte{0x70, 0}, depth+1), onePage, entryOnly,
			section(secElement, 1, []byte{0, 0x41, 0, 0x0b}, depth+1, elements), section(secCode, depth+1, bodies))
	}
	add("cpu_tower", "cpu compile", func() []byte { return tower(64, 2, nil, false) })
	add("cpu_tower_wide", "cpu compile", func() []byte { return tower(12, 100, nil, false) })
	add("cpu_tower_overflow", "cpu compile", func() []byte { return tower(200, 30, times(20, 0x41, 1, 0x1a), false) })
	add("cpu_tower_indirect", "cpu compile", func() []byte { return tower(60, 2, nil, true) })
	add("cpu_tower_fills", "cpu compile", func() []byte {
		return tower(40, 2, []byte{0x41, 0, 0x41, 1, 0x41, 0xff, 0xff, 3, 0xfc, 0x0b, 0}, false)
	})
	add("cpu_leaves", "cpu compile", func() []byte {
		leaf := body(noLocals, times(10, 0x41, 1, 0x1a))
		return wasmModule(typeVoid, section(secFunction, 2, []byte{0, 0}), onePage, entryOnly, section(secCode, 2, body(noLocals, forever(times(30_000, 0x10, 1))), leaf))
	}, slow)
	add("cpu_leaves_dividing", "cpu compile", func() []byte {
		leaf := body(cat(1, 1, byte(0x7e)), bytes.Repeat([]byte{0x20, 0, 0x42, 7, 0x84, 0x42, 3, 0x7f, 0x21, 0}, 6))
		return wasmModule(typeVoid, section(secFunction, 2, []byte{0, 0}), onePage, entryOnly, section(secCode, 2, body(noLocals, forever(times(30_000, 0x10, 1))), leaf))
	}, slow)
	add("cpu_straight_divisions", "cpu compile", func() []byte {
		return oneFunction([]byte{1, 1, 0x7e}, forever(bytes.Repeat([]byte{0x20, 0, 0x42, 7, 0x84, 0x42, 3, 0x7f, 0x21, 0}, 60_000)))
	}, slow)
	add("cpu_skipped_charge", "cpu compile", func() []byte { // branches that always skip what was paid for
		return oneFunction(noLocals, forever(bytes.Repeat(cat([]byte{0x02, 0x40, 0x0c, 0}, times(20, 0x41, 1, 0x1a), byte(0x0b)), 3000)))
	}, slow)
	add("cpu_early_return", "cpu compile", func() []byte {
		leaf := body(noLocals, cat([]byte{0x41, 0, 0x04, 0x40, 0x0f, 0x0b}, times(100, 0x41, 1, 0x1a)))
		return wasmModule(typeVoid, section(secFunction, 2, []byte{0, 0}), onePage, entryOnly, section(secCode, 2, body(noLocals, forever(times(5_000, 0x10, 1))), leaf))
	}, slow)

	// Modules that overload the compiler: each must be rejected or end within its deadline.
	add("bomb_locals", "compile cpu output", func() []byte { return manyFunctions(20_000, body(cat(1, 50_000, byte(0x7e)))) }, slow)
	add("bomb_locals_blocks", "compile cpu output", func() []byte {
		return oneFunction(cat(1, 50_000, byte(0x7e)), times(50_000, 0x41, 1, 0x04, 0x40, 0x0b))
	}, slow)
	add("bomb_locals_loops", "compile cpu output", func() []byte {
		return oneFunction(cat(1, 20_000, byte(0x7e)), times(20_000, 0x03, 0x40, 0x42, 1, 0x21, 0), times(20_000, 0x0b))
	}, slow)
	add("bomb_live_values", "compile cpu output", func() []byte { return oneFunction(noLocals, times(200_000, 0x42, 1), times(200_000, 0x1a)) }, slow)
	add("bomb_live_locals", "compile cpu output", func() []byte {
		n := 20_000
		code := cat()
		for i := range n {
			code = cat(code, byte(0x20), i, []byte{0x42, 3, 0x7e, 0x21}, (i+1)%n)
		}
		return oneFunction(cat(1, n, byte(0x7e)), forever(code))
	}, slow)
	add("bomb_select", "compile cpu output", func() []byte {
		return oneFunction(cat(1, 1, byte(0x7e)), forever([]byte{0x20, 0}, times(90_000, 0x20, 0, 0x41, 1, 0x1b), []byte{0x21, 0}))
	}, slow)
	add("bomb_nested_blocks", "compile cpu output trap", func() []byte { return oneFunction(noLocals, times(300_000, 0x02, 0x40), times(300_000, 0x0b)) }, slow)
	add("bomb_dead_code", "compile cpu output trap", func() []byte {
		return oneFunction(noLocals, []byte{0x00}, times(200_000, 0x03, 0x40), times(200_000, 0x0b))
	}, slow)
	add("bomb_br_if_values", "compile cpu output", func() []byte {
		n := 500
		t := cat(2, []byte{0x60, 0, 0, 0x60, 0}, n, times(n, 0x7e))
		return wasmModule(section(secType, t), section(secFunction, 1, 0), onePage, entryOnly,
			section(secCode, 1, body(noLocals, byte(0x02), 1, times(n, 0x42, 1), times(100_000, 0x41, 0, 0x0d, 0), byte(0x0b), times(n, 0x1a))))
	}, slow)
	add("bomb_many_functions", "output compile", func() []byte { return manyFunctions(100_000, body(noLocals)) }, slow)
	add("bomb_many_big_functions", "output compile cpu", func() []byte { return manyFunctions(200, body(noLocals, times(50_000, 0x41, 1, 0x1a))) }, slow)

	// One more than each limit of the specification.
	add("limit_functions", "compile", func() []byte { return manyFunctions(100_001, body(noLocals)) })
	add("limit_body", "compile", func() []byte { return oneFunction(noLocals, times(mebi+1, 0x01)) })
	add("limit_locals", "compile", func() []byte { return oneFunction(cat(1, 50_001, byte(0x7f))) })
	add("limit_locals_groups", "compile", func() []byte { return oneFunction(cat(50_001, bytes.Repeat(cat(1, byte(0x7f)), 50_001))) })
	add("limit_locals_overflow", "compile", func() []byte {
		return oneFunction(cat(3, []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0x7f, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x7e, 2, 0x7f}))
	})
	add("limit_globals", "compile", func() []byte {
		return wasmModule(typeVoid, section(secFunction, 1, 0), onePage, section(secGlobal, 10_001, times(10_001, 0x7f, 0, 0x41, 0, 0x0b)), entryOnly, section(secCode, 1, body(noLocals)))
	})
	add("limit_data_segments", "compile", func() []byte {
		return wasmModule(typeVoid, section(secFunction, 1, 0), onePage, entryOnly, section(secCode, 1, body(noLocals)), section(secData, 100_001, times(100_001, 1, 0)))
	})
	add("limit_elements", "compile", func() []byte {
		return wasmModule(typeVoid, section(secFunction, 1, 0), onePage, entryOnly, section(secElement, 100_001, times(100_001, 1, 0, 0)), section(secCode, 1, body(noLocals)))
	})
	add("limit_size", "compile", func() []byte {
		return wasmModule(section(secCustom, "x", make([]byte, 32<<20)), oneFunction(noLocals)[8:])
	})
	add("limit_custom_sections", "output compile", func() []byte {
		return wasmModule(append(bytes.Repeat(section(secCustom, "x"), 200_000), oneFunction(noLocals)[8:]...))
	}, slow)
	add("limit_types", "output compile", func() []byte {
		return wasmModule(section(secType, 1_000_000, times(1_000_000, 0x60, 0, 0)), oneFunction(noLocals)[8+len(typeVoid):])
	}, slow)
	add("limit_imports", "output compile", func() []byte {
		return wasmModule(section(secType, 2, []byte{0x60, 0, 0, 0x60, 0, 1, 0x7f}),
			section(secImport, 100_000, bytes.Repeat(cat("wasi_snapshot_preview1", "sched_yield", []byte{0, 1}), 100_000)),
			section(secFunction, 1, 0), onePage, section(secExport, 2, "execute", byte(0), 100_000, "memory", []byte{2, 0}), section(secCode, 1, body(noLocals)))
	}, slow)
	add("limit_exports", "output compile", func() []byte {
		b := cat("execute", []byte{0, 0}, "memory", []byte{2, 0})
		for i := range 300_000 {
			b = append(b, cat(string([]byte{'a' + byte(i%26), 'a' + byte(i/26%26), 'a' + byte(i/676%26), 'a' + byte(i/17576)}), []byte{0, 0})...)
		}
		return wasmModule(typeVoid, section(secFunction, 1, 0), onePage, section(secExport, 300_002, b), section(secCode, 1, body(noLocals)))
	}, slow)
	add("limit_parameters", "compile output", func() []byte {
		return wasmModule(section(secType, 2, []byte{0x60, 0, 0, 0x60}, 100_000, times(100_000, 0x7f), 0), section(secFunction, 2, []byte{0, 1}), onePage, entryOnly, section(secCode, 2, body(noLocals), body(noLocals)))
	}, slow)
	add("limit_passive_data", "output compile", func() []byte {
		return wasmModule(typeVoid, section(secFunction, 1, 0), onePage, entryOnly, section(secCode, 1, body(noLocals)), section(secData, 1, byte(1), 30<<20, make([]byte, 30<<20)))
	}, slow)
	add("limit_active_data", "trap compile", func() []byte {
		return wasmModule(typeVoid, section(secFunction, 1, 0), onePage, entryOnly, section(secCode, 1, body(noLocals)), section(secData, 1, []byte{0, 0x41, 0, 0x0b}, 1<<20, make([]byte, 1<<20)))
	}, slow)

	// Counts larger than the data: no memory may be reserved for them.
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0x0f}
	for name, m := range map[string][]byte{
		"types": wasmModule(section(secType, huge)), "parameters": wasmModule(section(secType, 1, byte(0x60), huge)), "imports": wasmModule(section(secImport, huge)),
		"functions": wasmModule(typeVoid, section(secFunction, huge)), "tables": wasmModule(section(secTable, huge)), "memories": wasmModule(section(secMemory, huge)),
		"globals": wasmModule(section(secGlobal, huge)), "exports": wasmModule(section(secExport, huge)), "elements": wasmModule(section(secElement, huge)),
		"element": wasmModule(typeVoid, section(secFunction, 1, 0), section(secTable, 1, []byte{0x70, 0, 1}), section(secElement, 1, []byte{0, 0x41, 0, 0x0b}, huge)),
		"bodies":  wasmModule(typeVoid, section(secFunction, 1, 0), section(secCode, huge)),
		"body":    wasmModule(typeVoid, section(secFunction, 1, 0), section(secCode, 1, huge)),
		"locals":  wasmModule(typeVoid, section(secFunction, 1, 0), section(secCode, 1, body(huge))),
		"targets": oneFunction(noLocals, []byte{0x41, 0, 0x0e}, huge), "selects": oneFunction(noLocals, []byte{0x1c}, huge),
		"data": wasmModule(onePage, section(secData, huge)), "segment": wasmModule(onePage, section(secData, 1, byte(1), huge)),
		"data_count": wasmModule(section(secDataCount, huge)), "name": wasmModule(section(secExport, 1, huge)), "custom": wasmModule(section(secCustom, huge)),
		"section": cat([]byte("\x00asm\x01\x00\x00\x00\x01"), huge), "import_name": wasmModule(section(secImport, 1, huge)),
	} {
		add("count_"+name, "compile", func() []byte { return m })
	}

	// Invalid encodings.
	plain := oneFunction(noLocals)
	for name, m := range map[string][]byte{
		"empty": {}, "magic": []byte("\x00asn\x01\x00\x00\x00"), "version": []byte("\x00asm\x02\x00\x00\x00"), "component": []byte("\x00asm\x0d\x00\x01\x00"),
		"text": []byte("(module)"), "tail": append(bytes.Clone(plain), 0), "twice": append(bytes.Clone(plain), plain...),
		"section_unknown": append(bytes.Clone(plain), section(14)...), "section_tag": append(bytes.Clone(plain), section(13, 0)...),
		"section_order":    wasmModule(onePage, typeVoid, section(secFunction, 1, 0), entryOnly, section(secCode, 1, body(noLocals))),
		"section_repeated": wasmModule(typeVoid, typeVoid, section(secFunction, 1, 0), onePage, entryOnly, section(secCode, 1, body(noLocals))),
		"section_short":    wasmModule(cat(byte(1), 3, []byte{1, 0x60, 0}), section(secFunction, 1, 0)),
		"code_missing":     wasmModule(typeVoid, section(secFunction, 1, 0), onePage, entryOnly),
		"code_extra":       wasmModule(typeVoid, onePage, section(secCode, 1, body(noLocals))),
		"leb_long":         wasmModule(section(secType, []byte{0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00, 0x60, 0, 0})),
		"leb_overflow":     wasmModule(section(secType, []byte{0x81, 0x80, 0x80, 0x80, 0x10, 0x60, 0, 0})),
		"end_missing":      wasmModule(typeVoid, section(secFunction, 1, 0), onePage, entryOnly, section(secCode, 1, cat(3, []byte{0, 0x41, 1}))),
		"end_extra":        oneFunction(noLocals, []byte{0x0b, 0x0b}),
		"else_alone":       oneFunction(noLocals, []byte{0x05}),
		"opcode_unknown":   oneFunction(noLocals, []byte{0x27}), "opcode_fc": oneFunction(noLocals, []byte{0xfc, 0x7f}), "opcode_fd": oneFunction(noLocals, []byte{0xfd, 0xff, 0x7f}),
		"opcode_fe": oneFunction(noLocals, []byte{0xfe, 0x03, 0}), "opcode_fb": oneFunction(noLocals, []byte{0xfb, 0}), "opcode_dead": oneFunction(noLocals, []byte{0x00, 0x27}),
		"stack_empty": oneFunction(noLocals, []byte{0x1a}), "stack_left": oneFunction(noLocals, []byte{0x41, 1}), "type_wrong": oneFunction(noLocals, []byte{0x42, 1, 0x45, 0x1a}),
		"branch_far": oneFunction(noLocals, []byte{0x0c, 9}), "call_far": oneFunction(noLocals, []byte{0x10, 9}), "local_far": oneFunction(noLocals, []byte{0x20, 9, 0x1a}), "global_far": oneFunction(noLocals, []byte{0x23, 0, 0x1a}),
		"align": oneFunction(noLocals, []byte{0x41, 0, 0x28, 9, 0, 0x1a}), "lane": oneFunction(noLocals, []byte{0x00, 0xfd, 0x15, 16}), "block_type": oneFunction(noLocals, []byte{0x02, 7, 0x0b}),
		"init_call":     wasmModule(typeVoid, section(secFunction, 1, 0), onePage, section(secGlobal, 1, []byte{0x7f, 0, 0x10, 0, 0x0b}), entryOnly, section(secCode, 1, body(noLocals))),
		"init_extended": wasmModule(typeVoid, section(secFunction, 1, 0), onePage, section(secGlobal, 1, []byte{0x7f, 0, 0x41, 1, 0x41, 1, 0x6a, 0x0b}), entryOnly, section(secCode, 1, body(noLocals))),
		"init_global":   wasmModule(typeVoid, section(secFunction, 1, 0), onePage, section(secGlobal, 1, []byte{0x7f, 0, 0x23, 0, 0x0b}), entryOnly, section(secCode, 1, body(noLocals))),
		"export_twice":  wasmModule(typeVoid, section(secFunction, 1, 0), onePage, section(secExport, 3, "execute", []byte{0, 0}, "memory", []byte{2, 0}, "execute", []byte{0, 0}), section(secCode, 1, body(noLocals))),
		"export_far":    wasmModule(typeVoid, section(secFunction, 1, 0), onePage, section(secExport, 1, "execute", []byte{0, 9}), section(secCode, 1, body(noLocals))),
		"export_utf8":   wasmModule(typeVoid, section(secFunction, 1, 0), onePage, section(secExport, 2, "execute", []byte{0, 0}, "\xff\xfe", []byte{2, 0}), section(secCode, 1, body(noLocals))),
		"start_far":     wasmModule(typeVoid, section(secFunction, 1, 0), onePage, entryOnly, section(secStart, 9), section(secCode, 1, body(noLocals))),
		"memory_order":  wasmModule(section(secMemory, 1, []byte{1, 2, 1})), "memory_pages": wasmModule(section(secMemory, 1, []byte{0}, 65537)), "memory_flags": wasmModule(section(secMemory, 1, []byte{8, 1})),
		"table_type": wasmModule(section(secTable, 1, []byte{0x7f, 0, 1})), "struct_type": wasmModule(section(secType, 1, []byte{0x5f, 0})), "rec_type": wasmModule(section(secType, 1, []byte{0x4e, 1, 0x60, 0, 0})),
		"value_type": wasmModule(section(secType, 1, []byte{0x60, 1, 0x69, 0})), "ref_type": wasmModule(section(secType, 1, []byte{0x60, 1, 0x64, 0, 0})),
	} {
		add("form_"+name, "compile", func() []byte { return m })
	}
	// An invalid name section is not a reason to reject a module.
	for name, sub := range map[string][]byte{
		"far": cat(byte(1), 7, 1, 1000, "x", byte(0)), "text": cat(byte(1), 4, 1, 0, "\xff"), "count": cat(byte(1), 5, huge), "size": cat(byte(1), huge), "module": cat(byte(0), huge),
	} {
		add("names_"+name, "output compile", func() []byte { return append(bytes.Clone(plain), section(secCustom, "name", sub)...) })
	}
	return cases
}
