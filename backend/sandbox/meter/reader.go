package meter

import (
	"fmt"
	"unicode/utf8"
)

// reader reads one part of a module. The first error sticks; after it every read returns zero, so
// callers need to check err only once per step.
type reader struct {
	b   []byte // the whole module, so positions are file offsets
	p   int
	end int
	err *Error
}

func (r *reader) fail(at int, feature, format string, args ...any) {
	if r.err == nil {
		r.err = &Error{Offset: at, Feature: feature, Message: fmt.Sprintf(format, args...)}
		r.p = r.end
	}
}

func (r *reader) left() int { return r.end - r.p }

func (r *reader) byte() byte {
	if r.p >= r.end {
		r.fail(r.p, featMalformed, "unexpected end")
		return 0
	}
	c := r.b[r.p]
	r.p++
	return c
}

func (r *reader) skip(n int) {
	if n < 0 || n > r.end-r.p {
		r.fail(r.p, featMalformed, "unexpected end")
		return
	}
	r.p += n
}

// u32 reads an unsigned LEB128 number of at most 5 bytes whose unused bits are zero.
func (r *reader) u32() uint32 {
	if r.p < r.end && r.b[r.p] < 0x80 {
		c := r.b[r.p]
		r.p++
		return uint32(c)
	}
	at := r.p
	var v uint32
	for shift := uint(0); shift < 35; shift += 7 {
		c := r.byte()
		if r.err != nil {
			return 0
		}
		if shift == 28 && c > 0x0f {
			break
		}
		v |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
	r.fail(at, featMalformed, "number longer than 32 bits")
	return 0
}

// signed reads a signed LEB128 number of the given width in bits (32, 33 or 64) in its exact form:
// the unused bits of the last possible byte repeat the sign.
func (r *reader) signed(width uint) int64 {
	at := r.p
	var v int64
	for shift := uint(0); shift < width; shift += 7 {
		c := r.byte()
		if r.err != nil {
			return 0
		}
		v |= int64(c&0x7f) << shift
		if c < 0x80 {
			if rest := width - shift; rest < 7 {
				top := int8(c<<1) >> rest // sign bit and the bits after it
				if top != 0 && top != -1 {
					break
				}
			}
			if shift+7 < 64 && c&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
	r.fail(at, featMalformed, "number longer than %d bits", width)
	return 0
}

// count reads the number of elements that follow. Each takes at least one byte, so a count larger
// than the remaining bytes is rejected before anything is allocated.
func (r *reader) count(max int, what string) int {
	at := r.p
	n := r.u32()
	if r.err != nil {
		return 0
	}
	if max >= 0 && int64(n) > int64(max) {
		r.fail(at, featLimits, "%d %s, at most %d are allowed", n, what, max)
		return 0
	}
	if int64(n) > int64(r.left()) {
		r.fail(at, featMalformed, "%d %s do not fit in the section", n, what)
		return 0
	}
	return int(n)
}

func (r *reader) name() string {
	at := r.p
	n := r.count(-1, "bytes of a name")
	if r.err != nil {
		return ""
	}
	s := r.b[r.p : r.p+n]
	r.p += n
	if !utf8.Valid(s) {
		r.fail(at, featMalformed, "a name is not UTF-8")
		return ""
	}
	return string(s)
}

func appendU(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func appendS(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if (v == 0 && c&0x40 == 0) || (v == -1 && c&0x40 != 0) {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}
