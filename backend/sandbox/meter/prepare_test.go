package meter

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero/api"
)

// aNumber returns a mutable or constant global of type i32.
func aNumber(mut, v byte) []byte { return []byte{typeI32, mut, 0x41, v, opEnd} }

// segment returns an active data segment.
func segment(at byte, text string) []byte {
	return append([]byte{0, 0x41, at, opEnd}, bytesVec([]byte(text))...)
}

func TestPrepare(t *testing.T) {
	t.Parallel()
	passive := append([]byte{1}, bytesVec([]byte("pp"))...)
	// Swaps the first global with 9 and returns the byte at 5.
	code := []byte{0x41, 9, 0x24, 1, 0x41, 5, 0x2d, 0, 0}
	raw := mod{
		funcs:  []fn{{name: "f", results: []byte{typeI32}, code: code}},
		memory: []byte{0, 1}, globals: [][]byte{aNumber(0, 3), aNumber(1, 4), aNumber(1, 5)}, count: true,
		datas: [][]byte{segment(4, "abc"), passive, segment(5, "x"), segment(60, "")},
	}.build()
	metered, _ := instrument(t, raw, Options{})
	p, err := Prepare(metered)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Restorable || !slices.Equal(p.Globals, []string{"helix:global:1", "helix:global:2"}) {
		t.Errorf("restorable %v, globals %v", p.Restorable, p.Globals)
	}
	if len(p.Data) != 2 || p.Data[0].Offset != 4 || string(p.Data[0].Bytes) != "abc" || p.Data[1].Offset != 5 || string(p.Data[1].Bytes) != "x" {
		t.Errorf("data %v", p.Data)
	}
	if bytes.Contains(p.Wasm, []byte("abc")) || !bytes.Contains(p.Wasm, []byte("pp")) {
		t.Error("active data stayed, or passive data went")
	}
	if again, err := Prepare(metered); err != nil || !bytes.Equal(again.Wasm, p.Wasm) {
		t.Errorf("not the same twice: %v", err)
	}
	m, g := start(t, p.Wasm)
	if b, _ := m.Memory().ReadByte(5); b != 0 {
		t.Errorf("memory begins with %d", b)
	}
	for _, d := range p.Data {
		m.Memory().Write(d.Offset, d.Bytes)
	}
	g.Arm(1000)
	res, err := m.ExportedFunction("f").Call(t.Context())
	if err != nil || res[0] != 'x' {
		t.Errorf("f() = %v, %v", res, err)
	}
	one := m.ExportedGlobal("helix:global:1").(api.MutableGlobal)
	if one.Get() != 9 {
		t.Errorf("the global is %d", one.Get())
	}
}

func TestPrepareShape(t *testing.T) {
	t.Parallel()
	table := []byte{0, 2}
	drop := append([]byte{1}, bytesVec([]byte("pp"))...)
	body := func(code ...byte) []fn { return []fn{{name: "f", code: code}} }
	many := make([][]byte, maxRestored+1)
	for i := range many {
		many[i] = aNumber(1, 0)
	}
	for name, c := range map[string]struct {
		m    mod
		want bool
	}{
		"reads a table":     {mod{funcs: body(0x41, 0, 0x25, 0, 0x1a), table: table}, true},
		"br_table":          {mod{funcs: body(opBlock, 0x40, 0x41, 0, opBrTable, 2, 0, 1, 0, opEnd), table: table}, true},
		"table.set":         {mod{funcs: body(0x41, 0, 0xd0, typeFuncref, 0x26, 0), table: table}, false},
		"set behind a jump": {mod{funcs: body(opBlock, 0x40, 0x41, 0, opBrTable, 2, 0, 1, 0, opEnd, 0x41, 0, 0xd0, typeFuncref, 0x26, 0), table: table}, false},
		"table.grow":        {mod{funcs: body(0xd0, typeFuncref, 0x41, 1, opPrefixMisc, miscTableGrow, 0, 0x1a), table: table}, false},
		"table.fill":        {mod{funcs: body(0x41, 0, 0xd0, typeFuncref, 0x41, 1, opPrefixMisc, miscTableFill, 0), table: table}, false},
		"table.copy":        {mod{funcs: body(0x41, 0, 0x41, 0, 0x41, 1, opPrefixMisc, miscTableCopy, 0, 0), table: table}, false},
		"memory.init":       {mod{funcs: body(0x41, 0, 0x41, 0, 0x41, 1, opPrefixMisc, miscMemoryInit, 0, 0), memory: []byte{0, 1}, count: true, datas: [][]byte{drop}}, true},
		"data.drop":         {mod{funcs: body(opPrefixMisc, miscDataDrop, 0), memory: []byte{0, 1}, count: true, datas: [][]byte{drop}}, false},
		"funcref global":    {mod{funcs: body(), globals: [][]byte{{typeFuncref, 1, 0xd0, typeFuncref, opEnd}}}, false},
		"constant funcref":  {mod{funcs: body(), globals: [][]byte{{typeFuncref, 0, 0xd0, typeFuncref, opEnd}}}, true},
		"many globals":      {mod{funcs: body(), globals: many}, false},
		"most globals":      {mod{funcs: body(), globals: many[1:]}, true},
	} {
		metered, _ := instrument(t, c.m.build(), Options{})
		p, err := Prepare(metered)
		if err != nil || p.Restorable != c.want {
			t.Errorf("%s: restorable %v, %v", name, p.Restorable, err)
		}
		if !p.Restorable && len(p.Globals) > 0 {
			t.Errorf("%s: names %d globals", name, len(p.Globals))
		}
	}
}

func TestPrepareRefuses(t *testing.T) {
	t.Parallel()
	raw := mod{funcs: []fn{{name: "f"}}, memory: []byte{0, 1}}
	metered := func(datas ...[]byte) []byte {
		m := raw
		m.datas = datas
		out, _ := instrument(t, m.build(), Options{})
		return out
	}
	good := metered(segment(0, "a"))
	for name, wasm := range map[string][]byte{
		"not instrumented": raw.build(), "empty": nil, "cut": good[:len(good)-1],
		"outside": metered(append([]byte{0, 0x41, 0xff, 0xff, 0x03, opEnd}, bytesVec([]byte("ab"))...)),
		"below":   metered(append([]byte{0, 0x41, 0x7f, opEnd}, bytesVec([]byte("a"))...)),
	} {
		var e *Error
		if _, err := Prepare(wasm); !errors.As(err, &e) || e.Feature == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Prepare(metered(append([]byte{0, 0x41, 0xff, 0xff, 0x03, opEnd}, bytesVec([]byte("a"))...))); err != nil {
		t.Errorf("the last byte: %v", err)
	}
}
