package meter

import (
	"context"
	"testing"
)

// TestDepth calls recursive functions: the depth that they reach does not depend on where they
// return, everything is released, and exceeding the depth is a known trap.
func TestDepth(t *testing.T) {
	t.Parallel()
	recursive := func(tail ...byte) []byte { // f(n): n == 0 ? 0 : f(n-1) + 1
		return append([]byte{0x20, 0, 0x45, opIf, 0x40, 0x41, 0, opReturn, opEnd, 0x20, 0, 0x41, 1, 0x6b, opCall, 0, 0x41, 1, 0x6a}, tail...)
	}
	for name, body := range map[string][]byte{
		"end":         recursive(),
		"return":      recursive(opReturn),
		"branch":      recursive(opBr, 0),
		"conditional": recursive(0x41, 1, opBrIf, 0),
		"table":       recursive(0x41, 5, opBrTable, 1, 0, 0),
		"block":       append([]byte{opBlock, typeI32}, recursive(opBr, 1, opEnd)...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, _ := instrument(t, mod{funcs: []fn{{name: "f", params: []byte{typeI32}, results: []byte{typeI32}, code: body}}}.build(), Options{CountStack: true})
			m, g := start(t, out)
			ctx := context.Background()
			g.Arm(1 << 40)
			f := m.ExportedFunction("f")
			for range 50 { // a call releases everything that it took
				if r, err := f.Call(ctx, 5000); err != nil || r[0] != 5000 || g.TooDeep() {
					t.Fatalf("f(5000) = %v, %v", r, err)
				}
			}
			if left := int32(uint32(g.depth.Get())); left != DefaultStack {
				t.Errorf("%d bytes are left, want all %d", left, DefaultStack)
			}
			if _, err := f.Call(ctx, 1<<30); err == nil || !g.TooDeep() {
				t.Fatalf("an endless recursion ends with %v", err)
			}
			g.Arm(1 << 40)
			if r, err := f.Call(ctx, 3); err != nil || r[0] != 3 {
				t.Errorf("after it: %v, %v", r, err)
			}
		})
	}
}
