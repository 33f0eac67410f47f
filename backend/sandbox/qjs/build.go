package qjs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"helix/backend/sandbox/meter"
)

// This file prepares worlds; only the program that builds the engine artefacts calls Build.

// Built is the result of Build: one module for both worlds, and the worlds.
type Built struct {
	Module       []byte // instrumented, with the memory minimum of the worlds and without data
	Run, Compile World
	Checks       int // places where the module checks its fuel
}

// World is a prepared world.
type World struct {
	Snapshot []byte
	Layout   Layout
}

// Settings of the worlds.
const (
	templateStack  = 256 << 10
	templateMemory = 128 << 20 // that of the standard profile
	// headroom is the free memory in bytes of a prepared world, so that small runs never grow: an
	// instance that has grown cannot be reused.
	headroom = 4 << 20
	// collectAt is the heap size in bytes at which the engine first looks for cycles. Its default
	// is less than the prelude and a small input take together.
	collectAt = 1 << 20
)

// Build instruments the engine and prepares two worlds with it: one that compiles, and one that
// runs, which contains the prelude and cannot compile text. Build is reproducible: two calls return
// the same bytes.
func Build(ctx context.Context, engine []byte, prelude, preludeName string) (*Built, error) {
	metered, report, err := meter.Instrument(engine, meter.Options{})
	if err != nil {
		return nil, fmt.Errorf("meter the engine: %w", err)
	}
	if report.Globals != 1 {
		return nil, fmt.Errorf("the engine has %d globals, want its stack pointer only: a reset would not restore them", report.Globals)
	}
	vm, err := New(ctx, metered, Config{})
	if err != nil {
		return nil, err
	}
	defer vm.Close()
	b := &builder{ctx: ctx, vm: vm, name: preludeName, known: noTags}
	if b.known, err = b.tags(); err != nil {
		return nil, err
	}
	if b.prelude, err = b.compile(prelude); err != nil {
		return nil, fmt.Errorf("compile the prelude: %w", err)
	}
	out := &Built{Checks: report.Checks}
	compile, err := b.world(true)
	if err != nil {
		return nil, fmt.Errorf("prepare the compiling world: %w", err)
	}
	run, err := b.world(false)
	if err != nil {
		return nil, fmt.Errorf("prepare the running world: %w", err)
	}
	pages := max(len(compile.mem), len(run.mem)) >> 16
	out.Compile, out.Run = compile.pack(pages), run.pack(pages)
	if out.Module, err = meter.StripData(metered, uint32(pages)); err != nil {
		return nil, fmt.Errorf("strip the engine: %w", err)
	}
	return out, b.prove(out)
}

type builder struct {
	ctx     context.Context
	vm      *VM
	prelude []byte
	name    string
	known   Tags
}

// noTags match no value.
var noTags = Tags{String: 100, Exception: 100}

// raw is a world before it is packed.
type raw struct {
	mem    []byte
	layout Layout
}

func (r raw) pack(pages int) World {
	r.layout.Pages = uint32(pages)
	return World{writeImage(append(r.mem, make([]byte, pages<<16-len(r.mem))...)), r.layout}
}

// The clocks and the random bytes during a build.
const (
	clockA = 1_700_000_000_123_456_789
	clockB = 1_811_111_111_987_654_321
)

type constant byte

func (c constant) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(c) * byte(i+1)
	}
	return len(b), nil
}

// start creates an instance with a world in it, at a given clock.
func (b *builder) start(eval bool, clock int64, random byte) (*Instance, error) {
	o := Options{Clock: func() int64 { return clock }, Rand: constant(random)}
	in, err := b.vm.instance(b.ctx, nil, o)
	if err != nil {
		return nil, err
	}
	in.since = time.Time{} // time does not advance in a build
	if err := b.prepare(in, eval); err != nil {
		in.Close()
		return nil, err
	}
	return in, nil
}

// intrinsicsWithoutEval is every built-in except those that compile text.
const intrinsicsWithoutEval = uint64(^uint32(2))

func (b *builder) prepare(in *Instance, eval bool) error {
	in.Arm(math.MaxInt64)
	if _, err := in.call(fnInitialize); err != nil {
		return err
	}
	name, args := fnInit2, []uint64{intrinsicsWithoutEval}
	if eval {
		name, args = fnInit, nil
	}
	r, err := in.call(name, args...)
	if err == nil && uint32(r) != 0 {
		err = fmt.Errorf("code %d", r)
	}
	if err != nil {
		return err
	}
	if _, err = in.call(fnInterrupt, 1); err != nil {
		return err
	}
	t := &Template{Layout: Layout{Tags: b.known}}
	p, err := in.call(fnMalloc, scratchSize)
	if err != nil {
		return err
	}
	v, err := in.call(fnUndefined)
	if err != nil {
		return err
	}
	t.Handles.Undefined = Value(v)
	for i := range t.Handles.Small {
		if t.Handles.Small[i], err = in.NewNumber(float64(i)); err != nil {
			return err
		}
	}
	in.linear.Limit = templateMemory
	if err := in.SetLimits(templateStack, templateMemory); err != nil {
		return err
	}
	t.StackLimit, t.MemoryLimit = templateStack, templateMemory
	t.Scratch = uint32(p)
	in.t = t
	if !eval {
		if t.Handles.Enter, err = in.callWithHost(b.prelude); err != nil {
			return fmt.Errorf("load the prelude: %w", err)
		}
	}
	return in.settle()
}

// settle collects garbage, allocates memory in advance, and clears memory that no live value uses.
func (in *Instance) settle() error {
	if _, err := in.call(fnCollect); err != nil {
		return err
	}
	if _, err := in.call(fnCollectAt, collectAt); err != nil {
		return err
	}
	p, err := in.call(fnMalloc, headroom)
	if err != nil {
		return err
	}
	if uint32(p) == 0 {
		return ErrMemory
	}
	if _, err = in.call(fnFree, p); err != nil {
		return err
	}
	// The native stack grows down from the stack pointer; below it are remains of calls.
	dead, ok := in.mem.Read(0, uint32(in.sp.Get()))
	scratch, ok2 := in.mem.Read(in.t.Scratch, scratchSize)
	if !ok || !ok2 {
		return errBounds
	}
	clear(dead)
	clear(scratch)
	return nil
}

func (b *builder) compile(source string) ([]byte, error) {
	in, err := b.start(true, clockA, 1)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return in.Compile(source, b.name, false)
}

// world prepares a world at different clocks and finds what depends on them.
func (b *builder) world(eval bool) (raw, error) {
	var r raw
	var all [3]*Instance
	for i, at := range []int64{clockA, clockA, clockB} {
		in, err := b.start(eval, at, 1)
		if err != nil {
			return r, err
		}
		defer in.Close()
		all[i] = in
	}
	a, again, other := all[0], all[1], all[2]
	r.mem = a.Snapshot()
	if !bytes.Equal(r.mem, again.Snapshot()) {
		return r, errors.New("two worlds made in the same way differ")
	}
	l := a.t.Layout
	l.StackPointer = uint32(a.sp.Get())
	mo := other.Snapshot()
	if len(mo) != len(r.mem) {
		return r, errors.New("the size of a world depends on the clock")
	}
	// The words are tested on the second instance: the first must stay unchanged.
	if err := again.findSeeds(&l, r.mem, mo); err != nil {
		return r, err
	}
	r.layout = l
	return r, nil
}

// tags determines the tags in a separate instance, since that leaves values behind.
func (b *builder) tags() (Tags, error) {
	in, err := b.start(true, clockA, 1)
	if err != nil {
		return Tags{}, err
	}
	defer in.Close()
	return in.learnTags()
}

// evalText evaluates source text in a world that can compile.
func (in *Instance) evalText(source string) (uint64, error) {
	p, err := in.put([]byte(source))
	if err != nil {
		return 0, err
	}
	n, err := in.put([]byte("build"))
	if err != nil {
		return 0, err
	}
	r, err := in.call(fnEval, p, uint64(len(source)), n, 0)
	if err != nil {
		return 0, err
	}
	return r, errors.Join(in.drop(n), in.drop(p))
}

// findSeeds finds the words that determine Math.random and performance.now, among those in which
// worlds of different clocks differ, by changing each and checking the results. The other words are
// left over from the start and determine nothing observable.
func (in *Instance) findSeeds(l *Layout, a, b []byte) error {
	random, err := in.global("Math", "random")
	if err != nil {
		return err
	}
	now, err := in.global("performance", "now")
	if err != nil {
		return err
	}
	for i := 0; i+8 <= len(a); i += 8 {
		if bytes.Equal(a[i:i+8], b[i:i+8]) {
			continue
		}
		at := uint32(i)
		isRandom, err := in.decidesRandom(random, at)
		if err != nil {
			return err
		}
		isOrigin, err := in.decidesNow(now, at, binary.LittleEndian.Uint64(a[i:]))
		if err != nil {
			return err
		}
		switch {
		case isRandom && isOrigin:
			return errors.New("one word decides both Math.random and performance.now")
		case isRandom:
			l.Random = append(l.Random, at)
		case isOrigin:
			l.TimeOrigin = append(l.TimeOrigin, at)
		}
	}
	if len(l.Random) != 1 || len(l.TimeOrigin) != 1 {
		return fmt.Errorf("found %d words of random state and %d of time origin, want one each", len(l.Random), len(l.TimeOrigin))
	}
	return nil
}

// global reads a property of a global object.
func (in *Instance) global(names ...string) (Value, error) {
	v, err := in.call(fnGlobal)
	for _, name := range names {
		if err != nil {
			return 0, err
		}
		var p uint64
		if p, err = in.put([]byte(name)); err != nil {
			return 0, err
		}
		if v, err = in.call(fnProperty, v, p); err == nil {
			err = in.drop(p)
		}
	}
	return Value(v), err
}

func (in *Instance) number(f Value) (float64, error) {
	v, err := in.Call(f)
	if err != nil {
		return 0, err
	}
	return in.Float(v), nil
}

// decidesRandom reports whether the word at offset at is the state of the generator: the same word
// produces the same number, another word another.
func (in *Instance) decidesRandom(random Value, at uint32) (bool, error) {
	old, _ := in.mem.ReadUint64Le(at)
	defer in.mem.WriteUint64Le(at, old)
	var got [3]float64
	for i, state := range [3]uint64{0x9E3779B97F4A7C15, 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03} {
		in.mem.WriteUint64Le(at, state)
		var err error
		if got[i], err = in.number(random); err != nil {
			return false, err
		}
	}
	return got[0] == got[1] && got[0] != got[2], nil
}

// decidesNow reports whether the word at offset at is the time in milliseconds that performance.now
// counts from.
func (in *Instance) decidesNow(now Value, at uint32, old uint64) (bool, error) {
	defer in.mem.WriteUint64Le(at, old)
	var got [2]float64
	origin := float64(in.base)/1e6 - 5000
	for i, back := range [2]float64{0, 1000} {
		in.mem.WriteUint64Le(at, math.Float64bits(origin-back))
		var err error
		if got[i], err = in.number(now); err != nil {
			return false, err
		}
	}
	return got[0] == 5000 && got[1] == 6000, nil // time does not advance in a build
}

// prove runs what was built: a copy must compute, see the time, and be reseeded.
func (b *builder) prove(out *Built) error {
	vm, err := New(b.ctx, out.Module, Config{})
	if err != nil {
		return err
	}
	defer vm.Close()
	for _, w := range []World{out.Compile, out.Run} {
		if err := b.proveWorld(vm, w); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) proveWorld(vm *VM, w World) error {
	t, err := NewTemplate(w.Snapshot, w.Layout)
	if err != nil {
		return err
	}
	defer t.Close()
	in, err := vm.Copy(b.ctx, t, Options{Clock: func() int64 { return clockB }, Rand: constant(2)})
	if err != nil {
		return err
	}
	defer in.Close()
	var got [3]float64
	for i, seed := range [3][8]byte{{1, 2, 3}, {1, 2, 3}, {4, 5, 6}} {
		in.Seed(seed)
		in.Arm(math.MaxInt64)
		random, err := in.global("Math", "random")
		if err != nil {
			return err
		}
		now, err := in.global("performance", "now")
		if err != nil {
			return err
		}
		if got[i], err = in.number(random); err != nil {
			return err
		}
		ms, err := in.number(now)
		if err != nil {
			return err
		}
		if !(ms >= 0 && ms < 10_000) {
			return fmt.Errorf("a copy that has just begun says that it runs for %v ms", ms)
		}
		if err := in.Reset(); err != nil {
			return err
		}
	}
	if got[0] != got[1] || got[0] == got[2] {
		return errors.New("seeds do not decide what Math.random gives")
	}
	if mem := in.Snapshot(); !bytes.Equal(writeImage(mem), w.Snapshot) {
		return errors.New("a reset does not give back the snapshot")
	}
	return nil
}
