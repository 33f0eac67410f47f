package container

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	chunkSize = 8 << 10
	keptHead  = 32 << 10 // bytes kept of the beginning of a command's output
	keptTail  = 32 << 10 // and of its end
)

// Transcript keeps the beginning and the end of a command's output, in numbered chunks. It is safe for concurrent
// use.
type Transcript struct {
	output func(Chunk) // nil: nothing is called

	mu         sync.Mutex
	seq        int64
	head, tail []Chunk
	headBytes  int
	tailBytes  int
	omitted    int64
}

// add appends output.
func (t *Transcript) add(stream, data string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seq++
	c := Chunk{t.seq, stream, strings.ToValidUTF8(data, "\uFFFD")}
	if len(t.tail) == 0 && t.headBytes+len(c.Data) <= keptHead {
		t.head, t.headBytes = append(t.head, c), t.headBytes+len(c.Data)
	} else {
		t.tail, t.tailBytes = append(t.tail, c), t.tailBytes+len(c.Data)
		for t.tailBytes > keptTail && len(t.tail) > 1 {
			n := len(t.tail[0].Data)
			t.tail, t.tailBytes, t.omitted = t.tail[1:], t.tailBytes-n, t.omitted+int64(n)
		}
	}
	if t.output != nil {
		t.output(c)
	}
}

// Chunks returns the chunks after a number, and the number of the last one. Where some were left out, one chunk
// says so.
func (t *Transcript) Chunks(after int64) (list []Chunk, last int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.head
	if t.omitted > 0 {
		all = append(slices.Clone(all), Chunk{t.tail[0].Seq - 1, "stdout", t.gap()})
	}
	list = []Chunk{}
	for _, c := range append(slices.Clone(all), t.tail...) {
		if c.Seq > after {
			list = append(list, c)
		}
	}
	return list, t.seq
}

func (t *Transcript) gap() string { return fmt.Sprintf("\n… %d bytes omitted …\n", t.omitted) }

// text returns the kept output. A line marks where some was left out.
func (t *Transcript) text() (text string, truncated bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for _, c := range t.head {
		b.WriteString(c.Data)
	}
	if t.omitted > 0 {
		b.WriteString(t.gap())
	}
	for _, c := range t.tail {
		b.WriteString(c.Data)
	}
	return b.String(), t.omitted > 0
}

// incomplete returns how many bytes at the end of b are the beginning of a character.
func incomplete(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		c := b[len(b)-n]
		if utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}
