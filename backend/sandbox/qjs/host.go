package qjs

import (
	"strings"
	"unicode/utf8"
)

// The methods of this file are for use inside Options.Host, while the guest waits. They panic if
// the guest is stopped meanwhile; the panic becomes the error of the outer call.

const maxArgs = 8

func (in *Instance) hostCall(argc, argv uint32) Value {
	if in.o.Host == nil || argc > maxArgs {
		return Value(in.must(fnUndefined))
	}
	var list [maxArgs]Value
	args := list[:argc]
	for i := range args {
		p, ok := in.mem.ReadUint32Le(argv + uint32(i)*4)
		if !ok {
			return Value(in.must(fnUndefined))
		}
		args[i] = Value(p)
	}
	if v := in.o.Host(in, args); v != 0 {
		return v
	}
	return Value(in.must(fnUndefined))
}

// IsString reports whether v is a primitive string.
func (in *Instance) IsString(v Value) bool {
	return in.isFlatString(v) || uint32(in.must(fnIsString, uint64(v))) != 0
}

// Text returns the text of a primitive string and "" for anything else, so that no guest code runs.
func (in *Instance) Text(v Value) string { return string(in.TextBytes(v)) }

// TextBytes is Text with lone surrogates unchanged, as three bytes each.
func (in *Instance) TextBytes(v Value) []byte {
	if !in.IsString(v) {
		return nil
	}
	b, err := in.Bytes(v)
	if err != nil {
		panic(err)
	}
	return b
}

// Number returns a new number.
func (in *Instance) Number(f float64) Value {
	v, err := in.NewNumber(f)
	if err != nil {
		panic(err)
	}
	return v
}

// Bool returns a boolean.
func (in *Instance) Bool(b bool) Value {
	v, err := in.NewBool(b)
	if err != nil {
		panic(err)
	}
	return v
}

// Str returns a new string.
func (in *Instance) Str(s string) Value {
	v, err := in.NewString([]byte(s))
	if err != nil {
		panic(err)
	}
	return v
}

// ArrayBuffer returns a new ArrayBuffer with a copy of b.
func (in *Instance) ArrayBuffer(b []byte) Value {
	p, err := in.put(b)
	if err != nil {
		panic(err)
	}
	v := in.must(fnNewBuffer, p, uint64(len(b)))
	if err := in.drop(p); err != nil {
		panic(err)
	}
	return Value(v)
}

// BufferBytes copies n bytes at off from an ArrayBuffer; ok is false if v is not one or the range
// is outside it.
func (in *Instance) BufferBytes(v Value, off, n float64) (b []byte, ok bool) {
	if uint32(in.must(fnIsBuffer, uint64(v))) == 0 {
		return nil, false
	}
	size, err := in.put(zeros[:])
	if err != nil {
		panic(err)
	}
	p := uint32(in.must(fnBuffer, uint64(v), size))
	length, _ := in.mem.ReadUint32Le(uint32(size))
	if err := in.drop(size); err != nil {
		panic(err)
	}
	if !(off >= 0 && n >= 0 && off+n <= float64(length)) {
		return nil, false
	}
	if n == 0 {
		return []byte{}, true
	}
	view, ok := in.mem.Read(p+uint32(off), uint32(n))
	if !ok {
		return nil, false
	}
	return append([]byte{}, view...), true
}

// text returns b as a string, with each lone surrogate and each other invalid byte replaced by
// U+FFFD.
func text(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var s strings.Builder
	s.Grow(len(b))
	for len(b) > 0 {
		// A lone surrogate in three bytes counts as one bad character, not three.
		if len(b) >= 3 && b[0] == 0xED && b[1] >= 0xA0 && b[1] <= 0xBF {
			s.WriteRune(utf8.RuneError)
			b = b[3:]
			continue
		}
		r, n := utf8.DecodeRune(b)
		s.WriteRune(r)
		b = b[n:]
	}
	return s.String()
}

// hostFunction returns the function value that calls Options.Host.
func (in *Instance) hostFunction() (Value, error) {
	p, err := in.put([]byte("host"))
	if err != nil {
		return 0, err
	}
	v, err := in.call(fnNewHost, p, 4, 0)
	if err != nil {
		return 0, err
	}
	return Value(v), in.drop(p)
}

// CallWithHost runs bytecode whose value is a function, and calls that with the host function. It
// loads the prelude into a world, and tests use it to check what a guest could do with the host
// function.
func (in *Instance) CallWithHost(code []byte) error {
	_, err := in.callWithHost(code)
	return err
}

func (in *Instance) callWithHost(code []byte) (Value, error) {
	f, err := in.EvalBytecode(code)
	if err != nil {
		return 0, err
	}
	h, err := in.hostFunction()
	if err != nil {
		return 0, err
	}
	v, err := in.Call(f, h)
	if err != nil {
		return 0, err
	}
	for _, x := range []Value{f, h} {
		if err := in.Free(x); err != nil {
			return 0, err
		}
	}
	return v, nil
}
