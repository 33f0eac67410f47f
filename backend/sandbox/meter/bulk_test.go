package meter

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero/api"
)

// bulkOp is a function whose three parameters are those of the operation.
func bulkOp(name string, op ...byte) fn {
	return fn{name: name, params: []byte{typeI32, typeI32, typeI32}, code: append([]byte{0x20, 0, 0x20, 1, 0x20, 2}, op...)}
}

var bulkModule = mod{memory: []byte{1, 1, 4}, funcs: []fn{
	bulkOp("fill", bulkOps[bulkFill]...), bulkOp("copy", bulkOps[bulkCopy]...),
	{name: "grow", code: []byte{0x41, 1, opMemoryGrow, 0, 0x1a}},
}}

// TestBulkInPieces checks that a split operation has the same effect as an unsplit one, wherever it
// starts and ends, and that one that does not fit traps before it writes anything.
func TestBulkInPieces(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	wasm := bulkModule.build()
	for _, slice := range []uint32{1, 7, 64, 4096} {
		whole, g1 := start(t, firstOf(instrument(t, wasm, Options{BulkSlice: 1 << 31})))
		pieces, g2 := start(t, firstOf(instrument(t, wasm, Options{BulkSlice: slice})))
		rnd := rand.New(rand.NewPCG(uint64(slice), 1))
		noise := make([]byte, 1<<16)
		for i := range noise {
			noise[i] = byte(rnd.Uint32())
		}
		whole.Memory().Write(0, noise)
		pieces.Memory().Write(0, noise)
		trapped := 0
		for i := range 400 {
			size := whole.Memory().Size()
			near := func(x uint32) uint32 { return min(x, size) - min(x, size, rnd.Uint32N(40)) }
			to, from, length := rnd.Uint32N(size), rnd.Uint32N(size), rnd.Uint32N(3000)
			switch i % 8 {
			case 0:
				from = near(to) // overlapping
			case 1:
				to = near(from)
			case 2:
				length = size - max(to, from) // up to the last byte
			case 3:
				length = size - max(to, from) + 1 // and one more
			case 4:
				length = rnd.Uint32() | 1<<31
			}
			name := []string{"fill", "copy"}[i/8%2]
			if i == 200 {
				name = "grow"
			}
			var res [2]error
			for j, m := range []api.Module{whole, pieces} {
				[]*Gauge{g1, g2}[j].Arm(1 << 40)
				args := []uint64{uint64(to), uint64(from), uint64(length)}
				if name == "grow" {
					args = nil
				}
				_, res[j] = m.ExportedFunction(name).Call(ctx, args...)
			}
			if trapText(res[0]) != trapText(res[1]) {
				t.Fatalf("%s(%d, %d, %d) in pieces of %d: %v, whole %v", name, to, from, length, slice, res[1], res[0])
			}
			if res[0] != nil {
				trapped++
			}
			a, _ := whole.Memory().Read(0, whole.Memory().Size())
			b, _ := pieces.Memory().Read(0, pieces.Memory().Size())
			if !bytes.Equal(a, b) {
				t.Fatalf("%s(%d, %d, %d) in pieces of %d leaves another memory (%v)", name, to, from, length, slice, res[0])
			}
			if g1.Used() != g2.Used() {
				t.Fatalf("%s(%d, %d, %d) in pieces of %d used %d, whole %d", name, to, from, length, slice, g2.Used(), g1.Used())
			}
		}
		if trapped < 50 || trapped > 250 {
			t.Errorf("%d of 400 operations did not fit", trapped)
		}
	}
}

func firstOf(wasm []byte, _ Report) []byte { return wasm }

// TestBulkStopsBetweenPieces checks that a long operation ends at the piece in which it is stopped.
func TestBulkStopsBetweenPieces(t *testing.T) {
	t.Parallel()
	const length, tail = 1 << 26, 1 << 20
	for _, x := range []struct {
		op   string
		args []uint64
		last uint32 // of the tail bytes that the operation writes last
	}{
		{"fill", []uint64{0, 1, length}, length - tail},
		{"copy", []uint64{0, 1, length}, length - tail},
		{"copy", []uint64{1, 0, length}, 1}, // it begins at the end
	} {
		m, g := start(t, firstOf(instrument(t, mod{memory: appendU([]byte{0}, length>>16+1), funcs: bulkModule.funcs[:2]}.build(), Options{BulkSlice: 16})))
		mem, _ := m.Memory().Read(x.last, tail)
		for i := range mem {
			mem[i] = byte(i>>4 | 1)
		}
		before := bytes.Clone(mem)
		g.Arm(1 << 60)
		done := make(chan error, 1)
		go func() {
			_, err := m.ExportedFunction(x.op).Call(context.Background(), x.args...)
			done <- err
		}()
		for g.Used() == 0 {
		}
		g.Stop()
		if err := <-done; err == nil || !strings.Contains(err.Error(), "unreachable") {
			t.Fatalf("%s(%d): %v", x.op, x.args, err)
		}
		if !bytes.Equal(mem, before) {
			t.Errorf("%s(%d) went on to its end", x.op, x.args)
		}
	}
}
