package worker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
)

func raw(head string, body string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(head)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
	return append(append(b, head...), body...)
}

func TestFramesRoundTrip(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := NewWriter(&b, FromChildLimits)
	big := bytes.Repeat([]byte("x"), direct+trusted+1)
	frames := []FromChild{
		{Ready: &Ready{Lock: LockReport{Landlock: 7, Seccomp: true}, CPU: 5}},
		{Log: &Log{Level: "warn", TextSize: 3}},
		{Call: &Call{ID: 9, Op: "fetch"}},
		{End: &End{Usage: Usage{CPU: 1, Fuel: 2, PeakMemory: 3}}},
		{End: &End{Error: &RunError{Class: "thrown", Message: "no\x00\n\"", Call: 4}}},
	}
	bodies := [][][]byte{nil, {[]byte("abc"), []byte(`{"a":1}`)}, {[]byte("{}")}, {big[:10], big}, nil}
	for i, f := range frames {
		if err := w.Write(f, bodies[i]...); err != nil {
			t.Fatal(err)
		}
	}
	r := NewReader(&b, FromChildLimits)
	for i := range frames {
		f, body, err := r.ReadFromChild()
		if err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
		if want := bytes.Join(bodies[i], nil); !bytes.Equal(body, want) {
			t.Errorf("frame %d: body of %d bytes, want %d", i, len(body), len(want))
		}
		if i == 4 && (f.End == nil || f.End.Error == nil || f.End.Error.Message != "no\x00\n\"") {
			t.Errorf("frame %d: %+v", i, f)
		}
	}
	if _, _, err := r.ReadFromChild(); err != io.EOF {
		t.Errorf("at the end: %v, want EOF", err)
	}
}

func TestBadFrames(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{
		"cut lengths":     {0, 0, 0},
		"cut head":        raw(`{"end":{}}`, "")[:12],
		"cut body":        raw(`{"call":{"id":1,"op":"x"}}`, "{}")[:30],
		"huge head":       {0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0},
		"huge body":       {0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff, '{', '}'},
		"empty":           raw("", ""),
		"not JSON":        raw("hello", ""),
		"no kind":         raw("{}", ""),
		"null":            raw("null", ""),
		"two kinds":       raw(`{"end":{"usage":{}},"ready":{"lock":{"landlock":0,"seccomp":false},"cpu":0}}`, ""),
		"unknown kind":    raw(`{"exec":{}}`, ""),
		"unknown field":   raw(`{"call":{"id":1,"op":"x","more":1}}`, "{}"),
		"wrong type":      raw(`{"call":{"id":"1","op":"x"}}`, "{}"),
		"two values":      raw(`{"call":{"id":1,"op":"x"}} {}`, "{}"),
		"call zero":       raw(`{"call":{"id":0,"op":"x"}}`, "{}"),
		"call below zero": raw(`{"call":{"id":-5,"op":"x"}}`, "{}"),
		"long op":         raw(`{"call":{"id":1,"op":"`+strings.Repeat("x", 65)+`"}}`, "{}"),
		"text too long":   raw(`{"log":{"level":"info","textSize":4}}`, "abc"),
		"text negative":   raw(`{"log":{"level":"info","textSize":-1}}`, "abc"),
		"CPU negative":    raw(`{"end":{"usage":{"cpu":-1,"fuel":0,"peakMemory":0}}}`, ""),
		"fuel negative":   raw(`{"end":{"usage":{"cpu":1,"fuel":-1,"peakMemory":0}}}`, ""),
		"error and body":  raw(`{"end":{"error":{"class":"trap","message":""},"usage":{"cpu":0,"fuel":0,"peakMemory":0}}}`, "{}"),
		"deep":            raw(`{"end":{"error":{"class":"","message":"","details":`+strings.Repeat("[", 20000)+strings.Repeat("]", 20000)+`},"usage":{}}}`, ""),
	} {
		_, _, err := NewReader(bytes.NewReader(b), FromChildLimits).ReadFromChild()
		if !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %v, want %v", name, err, ErrFrame)
		}
	}
	for name, b := range map[string][]byte{
		"code larger than body": raw(`{"run":{"codeSize":4,"limits":{}}}`, "abc"),
		"code negative":         raw(`{"run":{"codeSize":-4,"limits":{}}}`, "abc"),
		"short seed":            raw(`{"run":{"limits":{},"seed":"AAA="}}`, ""),
		"no kind":               raw(`{}`, ""),
	} {
		if _, _, err := NewReader(bytes.NewReader(b), ToChildLimits).ReadToChild(); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestFrameTotal(t *testing.T) {
	t.Parallel()
	one := raw(`{"call":{"id":1,"op":"x"}}`, "{}")
	r := NewReader(bytes.NewReader(bytes.Repeat(one, 10)), FrameLimits{Head: 100, Body: 100, Total: int64(5 * len(one))})
	for i := range 6 {
		_, _, err := r.ReadFromChild()
		if i < 5 && err != nil || i == 5 && !errors.Is(err, ErrFrame) {
			t.Fatalf("frame %d: %v", i, err)
		}
	}
}

func TestWriterLimits(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := NewWriter(&b, FrameLimits{Head: 40, Body: 4})
	if err := w.Write(FromChild{Call: &Call{ID: 1, Op: "x"}}, []byte("12345")); !errors.Is(err, ErrFrame) {
		t.Errorf("a body above the limit: %v", err)
	}
	if err := w.Write(FromChild{Call: &Call{ID: 1, Op: strings.Repeat("x", 40)}}); !errors.Is(err, ErrFrame) {
		t.Errorf("a head above the limit: %v", err)
	}
	if b.Len() != 0 {
		t.Errorf("%d bytes of a refused frame were written", b.Len())
	}
}

// A frame that announces more than it contains must not allocate all of it.
func TestPromisedBodyTakesNoMemory(t *testing.T) {
	b := raw(`{"call":{"id":1,"op":"x"}}`, "")
	binary.BigEndian.PutUint32(b[4:], 16<<20)
	n := testing.AllocsPerRun(1, func() {
		if _, _, err := NewReader(bytes.NewReader(b), FromChildLimits).ReadFromChild(); !errors.Is(err, ErrFrame) {
			t.Fatal(err)
		}
	})
	res := testing.Benchmark(func(b2 *testing.B) {
		b2.ReportAllocs()
		for b2.Loop() {
			_, _, _ = NewReader(bytes.NewReader(b), FromChildLimits).ReadFromChild()
		}
	})
	if res.AllocedBytesPerOp() > 4*trusted {
		t.Errorf("%d bytes in %v allocations for a frame of %d", res.AllocedBytesPerOp(), n, len(b))
	}
}

func FuzzReadFromChild(f *testing.F) {
	f.Add(raw(`{"ready":{"lock":{"landlock":7,"seccomp":true},"cpu":1}}`, ""))
	f.Add(raw(`{"log":{"level":"info","textSize":2}}`, `hi{"a":1}`))
	f.Add(raw(`{"call":{"id":1,"op":"fetch"}}`, `{"url":"x"}`))
	f.Add(append(raw(`{"end":{"usage":{"cpu":1,"fuel":2,"peakMemory":3}}}`, `42`), raw(`{}`, "")...))
	f.Add(raw(`{"end":{"error":{"class":"host_denied","message":"m","details":{"reason":"limit"},"call":3},"usage":{}}}`, ""))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(bytes.NewReader(b), FrameLimits{Head: 4096, Body: 4096, Total: 1 << 16})
		for range 100 {
			fr, body, err := r.ReadFromChild()
			if err != nil {
				return
			}
			if !one(fr.Ready != nil, fr.Log != nil, fr.Call != nil, fr.End != nil) {
				t.Fatalf("%+v is not one kind", fr)
			}
			if fr.Log != nil && (fr.Log.TextSize < 0 || fr.Log.TextSize > len(body)) {
				t.Fatalf("text of %d bytes in a body of %d", fr.Log.TextSize, len(body))
			}
			if fr.Call != nil && fr.Call.ID < 1 {
				t.Fatalf("call %d", fr.Call.ID)
			}
			if len(body) > 4096 {
				t.Fatalf("body of %d bytes", len(body))
			}
		}
	})
}

func FuzzReadToChild(f *testing.F) {
	f.Add(raw(`{"hello":{"kind":"js","cacheDir":"/x"}}`, ""))
	f.Add(raw(`{"run":{"codeSize":2,"limits":{"wall":1},"seed":"AAAAAAAAAAA="}}`, "ab{}"))
	f.Add(raw(`{"answer":{"id":1,"error":{"kind":"denied","message":"m"},"charge":{"cpu":1,"fuel":2,"hostCalls":3}}}`, ""))
	f.Add(raw(`{"cancel":{}}`, ""))
	f.Fuzz(func(t *testing.T, b []byte) {
		fr, body, err := NewReader(bytes.NewReader(b), FrameLimits{Head: 4096, Body: 4096}).ReadToChild()
		if err == nil && fr.Run != nil && (fr.Run.CodeSize < 0 || fr.Run.CodeSize > len(body)) {
			t.Fatalf("code of %d bytes in a body of %d", fr.Run.CodeSize, len(body))
		}
	})
}
