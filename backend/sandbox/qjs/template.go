package qjs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"github.com/tetratelabs/wazero/api"
)

// Template is the memory of a prepared instance. New instances start as copies of it, in
// a fraction of the time that preparing takes, and used ones become copies of it again. It
// is safe for use by many goroutines. Close it after its copies.
type Template struct {
	image  *image
	sp     uint64
	random uint32 // where Math.random keeps its state
	roots  []Value
	fixed
	stack, memory int64
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
	t := &Template{roots: roots, fixed: a.fixed, stack: a.stack, memory: a.memory}
	sp, err := a.stackPointer()
	if err != nil {
		return nil, err
	}
	t.sp = sp.Get()
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
			t.image = newImage(ma)
			return t, err
		}
	}
	return nil, errTemplate
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
	if err := in.become(t); err != nil {
		in.Close()
		return nil, err
	}
	in.Reseed(t, o.Seed)
	return in, nil
}

// become gives an instance that has just been made the template's world.
func (in *Instance) become(t *Template) error {
	if have := in.mem.Size(); have < t.image.size {
		if _, ok := in.mem.Grow((t.image.size - have) >> 16); !ok {
			return ErrMemory
		}
	}
	if err := t.image.place(in.linear); err != nil {
		return err
	}
	return in.rewind(t)
}

// Reset makes a used copy of t a fresh one: its whole memory and its one global are those of
// the template again, and nothing of what ran in it is left. The tables and segments of the
// engine never change, since it has no instruction that could. Give it a seed with Reseed
// before the next use. After an error, and when it grew or was stopped in the middle, an
// instance can only be closed.
func (in *Instance) Reset(t *Template) error {
	if !in.Intact(t) {
		return errNoCopy
	}
	if err := t.image.restore(in.linear); err != nil {
		in.broken = err
		return err
	}
	return in.rewind(t)
}

// Intact reports whether Reset can work: in is a copy of t that was not stopped in the
// middle, did not grow and is not closed.
func (in *Instance) Intact(t *Template) bool {
	return in.broken == nil && in.mod != nil && t != nil && uint64(t.image.size) == in.linear.size.Load()
}

// rewind sets what is not in the memory.
func (in *Instance) rewind(t *Template) error {
	sp, err := in.stackPointer()
	if err != nil {
		return err
	}
	sp.Set(t.sp)
	in.fixed, in.stack, in.memory, in.init, in.top = t.fixed, t.stack, t.memory, false, 0
	in.stop.Store(false)
	in.linear.refused.Store(false)
	in.With(context.Background())
	return nil
}

// Reseed sets what Math.random will give in a copy of t that has not run yet.
func (in *Instance) Reseed(t *Template, seed [8]byte) {
	in.mem.WriteUint64Le(t.random, binary.LittleEndian.Uint64(seed[:])|1) // zero would stay zero
}

// Shared reports whether copies share the template's pages until they write to them.
func (t *Template) Shared() bool { return t.image.cow != nil }

// Close frees the template. Close its copies first.
func (t *Template) Close() { t.image.close() }

// errNoCopy is the error of Reset for an instance that is not Intact.
var errNoCopy = errors.New("the instance is no copy of its template any more")
