// Package scrub removes secrets from text on its way to models, logs, traces, errors and exports.
//
// Text passes through up to four stages: known values in every common encoding, the published
// formats of keys, host paths, and random text next to a word such as "token". Each stage processes
// the output of the previous one, which makes the whole idempotent: a replacement cannot turn the
// text around it into something that an earlier stage would have matched.
package scrub

import (
	"io"
)

// Secret is a value that must not appear in any output, under the name that replaces it.
type Secret struct{ Name, Value string }

// Options are optional settings for New.
type Options struct {
	// Paths maps prefixes of host paths to the virtual paths that replace them. A prefix matches
	// only whole path elements.
	Paths map[string]string
}

// Scrubber replaces secrets by "[secret NAME]" or "[secret]". It is safe for concurrent use.
type Scrubber struct{ stages []*stage }

// New returns a Scrubber for known values. Values of less than four bytes, and those that are part
// of the replacement itself, are ignored, because replacing them would destroy ordinary text.
func New(known []Secret, o Options) *Scrubber {
	s := &Scrubber{}
	if st := newKnown(known, func(string) string { return "[secret]" }); st != nil {
		s.stages = append(s.stages, st)
	}
	s.stages = append(s.stages, newForms())
	if st := newPaths(o.Paths); st != nil {
		s.stages = append(s.stages, st)
	}
	s.stages = append(s.stages, newContexts())

	// A name that contains a secret, or looks like one, is not shown.
	safe := func(name string) string {
		if text := placeholder(name); s.String(text) == text {
			return text
		}
		return placeholder("")
	}
	if st := newKnown(known, safe); st != nil {
		s.stages[0] = st
	}
	return s
}

// maxName is the maximum length of the name in a replacement.
const maxName = 64

// placeholder returns the replacement for a secret, with only the plain characters of its name.
func placeholder(name string) string {
	clean := make([]byte, 0, len(name))
	for i := 0; i < len(name) && len(clean) < maxName; i++ {
		if word[name[i]] || name[i] == '-' || name[i] == '.' || name[i] == '/' {
			clean = append(clean, name[i])
		} else {
			clean = append(clean, '-')
		}
	}
	if len(clean) == 0 {
		return "[secret]"
	}
	return "[secret " + string(clean) + "]"
}

// String returns text without secrets. Valid UTF-8 stays valid.
func (s *Scrubber) String(text string) string {
	b := []byte(text)
	changed := false
	for _, st := range s.stages {
		w := &stageWriter{stage: st, buf: b}
		_ = w.process(true) // only a stream is written to
		if w.changed {
			b, changed = w.out, true
		}
	}
	if !changed {
		return text
	}
	return string(b)
}

// Writer returns a writer that passes text without secrets to w. However the text is split into
// writes, the output is that of String for the whole text. It buffers at most a few tens of
// kilobytes and the longest known value; Close writes the buffer and does not close w.
func (s *Scrubber) Writer(w io.Writer) io.WriteCloser {
	var first io.WriteCloser = last{w}
	for i := len(s.stages) - 1; i >= 0; i-- {
		first = &stageWriter{stage: s.stages[i], next: first, streams: true}
	}
	return first
}

type last struct{ io.Writer }

func (last) Close() error { return nil }

// behind is how many bytes before its anchor a match may start or be checked.
const behind = 64

// stage finds the anchors of one kind of secret and decides about each match.
type stage struct {
	anchors *automaton
	ahead   int // bytes after an anchor that match may read
	// match returns the part of text to replace for the anchor text[start:end] of the given
	// index, and its replacement.
	match func(text []byte, start, end, index int) (from, to int, with string)
	// overlaps reports that every match counts, even inside another one.
	overlaps bool
}

type hit struct {
	from, to int
	with     string
}

// stageWriter applies a stage to a stream.
type stageWriter struct {
	*stage
	next    io.Writer
	streams bool
	closed  bool
	changed bool
	err     error
	buf     []byte
	scan    scan
	written int   // bytes of buf that were passed on or replaced
	matched int   // end of the last match
	pending []hit // not passed on yet, in order
	out     []byte
}

func (w *stageWriter) Write(p []byte) (int, error) {
	if w.closed {
		return 0, io.ErrClosedPipe
	}
	n := len(p)
	// A large write is split, so that the buffer does not grow to its size.
	for len(p) > 0 && w.err == nil {
		part := p[:min(len(p), 64<<10)]
		p = p[len(part):]
		w.buf = append(w.buf, part...)
		w.err = w.process(false)
	}
	if w.err != nil {
		return 0, w.err
	}
	return n, nil
}

func (w *stageWriter) Close() error {
	if w.closed {
		return w.err
	}
	w.closed = true
	if w.err == nil {
		w.err = w.process(true)
	}
	if c, ok := w.next.(io.Closer); ok {
		if err := c.Close(); w.err == nil {
			w.err = err
		}
	}
	return w.err
}

// process scans as far as matches can be decided, and passes on the text that no later match can
// reach.
func (w *stageWriter) process(final bool) error {
	limit := len(w.buf)
	if !final {
		limit -= w.ahead
	}
	if limit <= w.scan.at && !final {
		return nil
	}
	w.anchors.find(w.buf, &w.scan, limit, func(start, end, index int) {
		if !w.overlaps && start < w.matched {
			return
		}
		text := w.buf[:min(len(w.buf), end+w.ahead)]
		from, to, with := w.match(text, start, end, index)
		if to <= from || !w.overlaps && from < w.matched {
			return
		}
		w.matched = max(w.matched, to)
		w.add(hit{from, to, with})
	})
	decided := limit
	if !final {
		decided = w.scan.at - w.anchors.longest - behind
	}
	w.emit(decided)
	if w.streams && len(w.out) > 0 {
		if _, err := w.next.Write(w.out); err != nil {
			return err
		}
		w.out = w.out[:0]
	}
	if drop := min(w.written, w.scan.start()) - behind; w.streams && drop > 32<<10 {
		w.buf = append(w.buf[:0], w.buf[drop:]...)
		w.scan.at -= drop
		w.scan.entry -= drop
		w.written -= drop
		w.matched -= drop
		for i := range w.pending {
			w.pending[i].from -= drop
			w.pending[i].to -= drop
		}
	}
	return nil
}

// add keeps pending sorted by start, the longer of two matches first. Matches arrive ordered by the
// end of their anchor, so the position is near the end.
func (w *stageWriter) add(h hit) {
	w.changed = true
	i := len(w.pending)
	w.pending = append(w.pending, h)
	for ; i > 0; i-- {
		if p := w.pending[i-1]; p.from < h.from || p.from == h.from && p.to >= h.to {
			break
		}
		w.pending[i] = w.pending[i-1]
	}
	w.pending[i] = h
}

// emit passes on the text before decided. Overlapping matches become one replacement.
func (w *stageWriter) emit(decided int) {
	done := 0
	if !w.streams && w.changed {
		w.out = make([]byte, 0, len(w.buf)+len(w.buf)/8) // a replacement may be longer than its secret
	}
	for _, h := range w.pending {
		if h.from >= decided {
			break
		}
		if h.from >= w.written {
			w.out = append(w.out, w.buf[w.written:h.from]...)
			w.out = append(w.out, h.with...)
		}
		w.written = max(w.written, h.to)
		done++
	}
	w.pending = append(w.pending[:0], w.pending[done:]...)
	if w.written < decided && (w.streams || w.changed) {
		w.out = append(w.out, w.buf[w.written:decided]...)
		w.written = decided
	}
}
