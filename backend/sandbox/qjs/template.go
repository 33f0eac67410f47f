package qjs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"github.com/tetratelabs/wazero/api"
)

// Template is the memory of a prepared instance. New instances start as copies of it, in
// a fraction of the time that preparing takes. It is safe for use by many goroutines.
type Template struct {
	size   uint32
	chunks []chunk // what is not zero
	sp     uint64
	random uint32 // where Math.random keeps its state
	roots  []Value
	fixed
	stack, memory int64
}

type chunk struct {
	at   uint32
	data []byte
}

// errTemplate says that an engine is not built the way templates need it.
var errTemplate = errors.New("the engine's random state was not found")

// NewTemplate makes a template from two instances that were prepared in the same way with
// different seeds: the random state is one of the words in which they differ, and is found
// by trying which of them decides what Math.random gives. roots are handles of a that its
// copies will use. a and b can only be closed afterwards.
func NewTemplate(a, b *Instance, roots ...Value) (*Template, error) {
	ma := a.Snapshot()
	mb, _ := b.mem.Read(0, b.mem.Size())
	if len(ma) != len(mb) {
		return nil, errTemplate
	}
	t := &Template{size: uint32(len(ma)), roots: roots, fixed: a.fixed, stack: a.stack, memory: a.memory}
	sp, err := a.stackPointer()
	if err != nil {
		return nil, err
	}
	t.sp = sp.Get()
	t.take(ma)
	random, err := a.mathRandom()
	if err != nil {
		return nil, err
	}
	for i := 0; i+8 <= len(ma); i += 8 {
		if bytes.Equal(ma[i:i+8], mb[i:i+8]) {
			continue
		}
		if ok, err := a.decidesRandom(random, uint32(i)); err != nil || ok {
			t.random = uint32(i)
			return t, err
		}
	}
	return nil, errTemplate
}

// take keeps what is not zero of a memory.
func (t *Template) take(mem []byte) {
	const page = 4096
	var zero [page]byte
	for i := 0; i < len(mem); i += page {
		p := mem[i : i+page]
		if bytes.Equal(p, zero[:]) {
			continue
		}
		if n := len(t.chunks); n > 0 && t.chunks[n-1].at+uint32(len(t.chunks[n-1].data)) == uint32(i) {
			t.chunks[n-1].data = append(t.chunks[n-1].data, p...)
			continue
		}
		t.chunks = append(t.chunks, chunk{uint32(i), append([]byte(nil), p...)})
	}
}

func (in *Instance) stackPointer() (api.MutableGlobal, error) {
	g, ok := in.mod.ExportedGlobal("__stack_pointer").(api.MutableGlobal)
	if !ok {
		return nil, errors.New("the engine does not export its stack pointer")
	}
	return g, nil
}

// mathRandom is the function Math.random.
func (in *Instance) mathRandom() (Value, error) {
	v, err := in.call("qjs_get_global")
	for _, name := range []string{"Math", "random"} {
		if err != nil {
			return 0, err
		}
		var p uint64
		if p, err = in.put([]byte(name)); err == nil {
			v, err = in.call("qjs_get_prop_string", v, p)
		}
	}
	return Value(v), err
}

// decidesRandom reports whether the word at offset is the state of the generator: the same
// word gives the same number, another word another.
func (in *Instance) decidesRandom(random Value, at uint32) (bool, error) {
	var got [3]uint64
	old, _ := in.mem.ReadUint64Le(at)
	for i, state := range [3]uint64{0x9E3779B97F4A7C15, 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03} {
		in.mem.WriteUint64Le(at, state)
		v, err := in.Call(random)
		if err != nil {
			return false, err
		}
		if got[i], err = in.call("qjs_get_float64", uint64(v)); err != nil {
			return false, err
		}
	}
	in.mem.WriteUint64Le(at, old)
	return got[0] == got[1] && got[0] != got[2], nil
}

// Roots are the handles given to NewTemplate.
func (t *Template) Roots() []Value { return t.roots }

// Copy makes an instance from a template of the same VM. Only o.Seed may differ between
// copies in what the guest sees.
func (v *VM) Copy(ctx context.Context, t *Template, o Options) (*Instance, error) {
	in, err := v.instance(ctx, o)
	if err != nil {
		return nil, err
	}
	if have := in.mem.Size(); have < t.size {
		if _, ok := in.mem.Grow((t.size - have) >> 16); !ok {
			in.Close()
			return nil, ErrMemory
		}
	}
	for _, c := range t.chunks {
		if !in.mem.Write(c.at, c.data) {
			in.Close()
			return nil, ErrMemory
		}
	}
	in.mem.WriteUint64Le(t.random, binary.LittleEndian.Uint64(o.Seed[:])|1) // zero would stay zero
	sp, err := in.stackPointer()
	if err != nil {
		in.Close()
		return nil, err
	}
	sp.Set(t.sp)
	in.fixed, in.stack, in.memory, in.init = t.fixed, t.stack, t.memory, false
	return in, nil
}
