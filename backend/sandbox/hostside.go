package sandbox

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"helix/backend/sandbox/qjs"
)

// The codes of the prelude's host function; they match prelude/core.js.
const (
	hostLog = iota + 1
	hostCall
	hostTimer
	hostClear
	hostDone
	hostFail
	hostUUID
	hostRandom
	hostEncode
	hostDecode
	hostIDNA
)

// host handles one call of the prelude. All of it comes from untrusted code, since a guest may have
// reached into the prelude's world, so every argument is checked.
func (r *run) host(in *qjs.Instance, code int, args []qjs.Value) qjs.Value {
	arg := func(i int) qjs.Value {
		if i < len(args) {
			return args[i]
		}
		return 0
	}
	text := func(i int) string {
		if v := arg(i); v != 0 {
			return in.Text(v)
		}
		return ""
	}
	num := func(i int) float64 {
		if v := arg(i); v != 0 {
			return in.Float(v)
		}
		return math.NaN()
	}
	switch code {
	case hostLog:
		return in.Bool(r.logs.add(text(0), r.p.positions(text(1)), text(2)))
	case hostCall:
		id, refused := r.startCall(text(0), text(1))
		if refused != "" {
			return in.Str(refused)
		}
		return in.Number(float64(id))
	case hostTimer:
		return in.Bool(r.timers.add(int64(num(0)), num(1)))
	case hostClear:
		r.timers.remove(int64(num(0)))
	case hostDone:
		r.finish(in, arg(0))
	case hostFail:
		r.failed(text(0))
	case hostUUID:
		return in.Str(randomUUID(r.e.o.Rand))
	case hostRandom:
		n := num(0)
		if !(n >= 0 && n <= 65536) { // also if it is not a number
			n = 0
		}
		b := make([]byte, int(n))
		if _, err := io.ReadFull(r.e.o.Rand, b); err != nil {
			panic(err)
		}
		return in.ArrayBuffer(b)
	case hostEncode:
		if v := arg(0); v != 0 {
			b := in.TextBytes(v)
			out := wellFormed(b)
			buffer := in.ArrayBuffer(out)
			clear(b) // a copy of the guest's bytes outside its memory
			clear(out)
			return buffer
		}
	case hostDecode:
		if v := arg(0); v != 0 {
			if b, ok := in.BufferBytes(v, num(1), num(2)); ok {
				return decoded(in, b, arg(3))
			}
		}
	case hostIDNA:
		if s, err := idna.Lookup.ToASCII(text(0)); err == nil {
			return in.Str(s)
		}
	}
	return 0
}

// randomUUID returns a version 4 UUID.
func randomUUID(random io.Reader) string {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		panic(err)
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	s := make([]byte, 0, 36)
	for i, part := range [...][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:]} {
		if i > 0 {
			s = append(s, '-')
		}
		s = hex.AppendEncode(s, part)
	}
	return string(s)
}

// finish stores the result of the run.
func (r *run) finish(in *qjs.Instance, v qjs.Value) {
	if v == 0 {
		return
	}
	b := in.TextBytes(v)
	switch {
	case int64(len(b)) > r.limits.OutputBytes:
		r.settleError(&Error{
			Class: ClassOutput, Message: fmt.Sprintf("The result is larger than %s.", size(r.limits.OutputBytes)),
			Details: LimitDetail{"outputBytes", r.limits.OutputBytes, int64(len(b))},
		})
	case !json.Valid(b):
		r.settleError(failf(ClassOutput, "The result is not valid JSON: %q", head(b)))
	default:
		r.settle(outcome{output: b})
	}
}

func head(b []byte) string { return strings.ToValidUTF8(string(b[:min(len(b), 200)]), "\uFFFD") }

// failed parses the report of an uncaught error.
func (r *run) failed(report string) {
	var f struct {
		Name, Message, Stack string
		Path, What           string
		Refusal              *int64
	}
	if err := json.Unmarshal([]byte(report), &f); err != nil {
		f.Message = "the tool failed"
	}
	switch {
	case f.What != "":
		r.settleError(&Error{
			Class: ClassOutput, Message: fmt.Sprintf("The result at %s is a %s, which JSON cannot hold.", f.Path, f.What),
			Details: OutputDetail{f.Path, f.What},
		})
	case f.Refusal != nil:
		r.settleError(r.refused(*f.Refusal, f.Message, f.Stack))
	default:
		r.settleError(r.exception(f.Name, f.Message, f.Stack))
	}
}

// decoded decodes UTF-8 into a JavaScript string, with each invalid sequence as one U+FFFD. If
// fatal is true and there is one, it returns undefined.
func decoded(in *qjs.Instance, b []byte, fatal qjs.Value) qjs.Value {
	if utf8.Valid(b) {
		return in.Str(string(b))
	}
	if fatal != 0 && in.IsTrue(fatal) {
		return 0
	}
	return in.Str(replaceInvalid(b))
}

// replaceInvalid replaces each maximal invalid subpart by U+FFFD, as the Encoding standard does;
// Go's decoder would replace each byte of it.
func replaceInvalid(b []byte) string {
	var s strings.Builder
	s.Grow(len(b) + 8)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			n = subpart(b)
		}
		s.WriteRune(r)
		b = b[n:]
	}
	return s.String()
}

// subpart returns the number of bytes at the start of b that begin a character which then becomes
// invalid.
func subpart(b []byte) int {
	lo, hi, need := byte(0x80), byte(0xBF), 0
	switch c := b[0]; {
	case c >= 0xC2 && c <= 0xDF:
		need = 1
	case c >= 0xE0 && c <= 0xEF:
		need = 2
		if c == 0xE0 {
			lo = 0xA0
		} else if c == 0xED {
			hi = 0x9F
		}
	case c >= 0xF0 && c <= 0xF4:
		need = 3
		if c == 0xF0 {
			lo = 0x90
		} else if c == 0xF4 {
			hi = 0x8F
		}
	}
	n := 1
	for n <= need && n < len(b) && b[n] >= lo && b[n] <= hi {
		n, lo, hi = n+1, 0x80, 0xBF
	}
	return n
}

// wellFormed replaces lone surrogates, which reach the host as three bytes, by U+FFFD.
func wellFormed(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] == 0xED && i+2 < len(b) && b[i+1] >= 0xA0 {
			out = append(out, "\uFFFD"...)
			i += 2
			continue
		}
		out = append(out, b[i])
	}
	return bytes.ToValidUTF8(out, []byte("\uFFFD"))
}
