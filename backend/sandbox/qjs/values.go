package qjs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Value is a handle to a JavaScript value inside one instance: the address of eight bytes
// that hold it. 0 is none.
type Value uint32

// Tags describe how the engine encodes a value in its eight bytes: the high half is the tag, or
// part of a number offset by Float. They are read from the engine when its artefacts are built, so
// the layout is not hard-coded.
type Tags struct {
	Undefined uint32 `json:"undefined"`
	Bool      uint32 `json:"bool"`
	Int       uint32 `json:"int"`
	String    uint32 `json:"string"`
	Exception uint32 `json:"exception"`
	Float     uint32 `json:"float"` // add to the high half to get a double's; other tags become a NaN's
}

func (in *Instance) bits(v Value) (tag, low uint32) {
	x, ok := in.mem.ReadUint64Le(uint32(v))
	if !ok {
		return in.t.Tags.Undefined, 0
	}
	return uint32(x >> 32), uint32(x)
}

// isException reports whether a call's result stands for a thrown exception.
func (in *Instance) isException(v Value) bool {
	tag, _ := in.bits(v)
	return tag == in.t.Tags.Exception
}

// isFlatString reports whether v is a primitive string in one piece. A string that was concatenated
// and not yet read has another tag.
func (in *Instance) isFlatString(v Value) bool {
	tag, _ := in.bits(v)
	return tag == in.t.Tags.String
}

// Float returns the value of a number and NaN for anything else.
func (in *Instance) Float(v Value) float64 {
	tag, low := in.bits(v)
	if tag == in.t.Tags.Int {
		return float64(int32(low))
	}
	return math.Float64frombits(uint64(tag+in.t.Tags.Float)<<32 | uint64(low))
}

// IsTrue reports whether v is the primitive true.
func (in *Instance) IsTrue(v Value) bool {
	tag, low := in.bits(v)
	return tag == in.t.Tags.Bool && low != 0
}

var errBounds = errors.New("engine gave an address out of bounds")

// learnTags creates a value of each kind in the engine and examines its bytes.
func (in *Instance) learnTags() (Tags, error) {
	var t Tags
	high := func(f fn, args ...uint64) (uint32, error) {
		p, err := in.call(f, args...)
		if err != nil {
			return 0, err
		}
		b, ok := in.mem.Read(uint32(p), 8)
		if !ok {
			return 0, errBounds
		}
		return binary.LittleEndian.Uint32(b[4:]), nil
	}
	text, err := in.put([]byte("text"))
	if err != nil {
		return t, err
	}
	one, two := math.Float64bits(1), math.Float64bits(-2.5)
	var f1, f2 uint32
	for _, x := range []struct {
		to   *uint32
		f    fn
		args []uint64
	}{
		{&t.Undefined, fnUndefined, nil}, {&t.Bool, fnTrue, nil}, {&t.String, fnNewString, []uint64{text, 4}},
		{&f1, fnNewNumber, []uint64{one}}, {&f2, fnNewNumber, []uint64{two}},
	} {
		if *x.to, err = high(x.f, x.args...); err != nil {
			return t, err
		}
	}
	if err := in.drop(text); err != nil {
		return t, err
	}
	t.Float = uint32(one>>32) - f1
	if t.Float != uint32(two>>32)-f2 {
		return t, errors.New("the engine's numbers are not written as expected")
	}
	for js, to := range map[string]*uint32{"7|0": &t.Int, "throw 1": &t.Exception} {
		r, err := in.evalText(js)
		if err != nil {
			return t, err
		}
		b, ok := in.mem.Read(uint32(r), 8)
		if !ok {
			return t, errBounds
		}
		*to = binary.LittleEndian.Uint32(b[4:])
	}
	return t, in.proveTags(t)
}

// proveTags reads values of every kind with t and returns an error if one is wrong.
func (in *Instance) proveTags(t Tags) error {
	old := in.t
	defer func() { in.t = old }()
	in.t = &Template{Layout: Layout{Tags: t}}
	for _, x := range []struct {
		js   string
		want float64
	}{
		{"7|0", 7}, {"-7|0", -7}, {"1.5", 1.5}, {"-0.25", -0.25}, {"1e308", 1e308}, {"1/0", math.Inf(1)}, {"-1/0", math.Inf(-1)}, {"2**31", 1 << 31},
		{"0/0", math.NaN()}, {"'7'", math.NaN()}, {"true", math.NaN()}, {"null", math.NaN()}, {"undefined", math.NaN()}, {"({})", math.NaN()}, {"7n", math.NaN()}, {"2n**70n", math.NaN()},
		{"Symbol()", math.NaN()}, {"'x'.repeat(9999)+'y'.repeat(9999)", math.NaN()}, {"() => 1", math.NaN()},
	} {
		r, err := in.evalText(x.js)
		if err != nil {
			return err
		}
		v := Value(r)
		got := in.Float(v)
		if got != x.want && !(math.IsNaN(got) && math.IsNaN(x.want)) || in.isException(v) || in.IsTrue(v) != (x.js == "true") || in.isFlatString(v) && x.js[0] != '\'' || x.js == "'7'" && !in.isFlatString(v) {
			return fmt.Errorf("the engine's value of %s is not written as expected (read %v)", x.js, got)
		}
	}
	r, err := in.evalText("null.x")
	if err == nil && !in.isException(Value(r)) {
		err = errors.New("the engine's exceptions are not written as expected")
	}
	return err
}
