package providers

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/binary"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// The vocabularies that are public, made by go run ./providers vocabularies in build/bench.
var (
	//go:embed o200k.gz
	o200kFile []byte
	//go:embed cl100k.gz
	cl100kFile []byte
)

// vocabularies are those that are in use; the zero value has none.
type vocabularies struct{ newer, older keptVocabulary }

// Names of the models whose vocabulary is known, whoever serves them.
var (
	openFamily  = regexp.MustCompile(`^(chat)?gpt-|^o[0-9]($|-)|^codex-`)
	olderFamily = regexp.MustCompile(`^gpt-(3|4($|-|_))`)
)

// of returns the vocabulary of a model, or nil where it is not public.
func (v *vocabularies) of(ref ModelRef) *vocabulary {
	_, model := ref.Split()
	model = strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	switch {
	case !openFamily.MatchString(model):
		return nil
	case olderFamily.MatchString(model):
		return v.older.open(cl100kFile, splitCl100k)
	}
	return v.newer.open(o200kFile, splitO200k)
}

// keptVocabulary is unpacked when a text is counted with it, and let go when none was for a while.
type keptVocabulary struct {
	mu    sync.Mutex
	v     *vocabulary
	timer *time.Timer
}

const keepVocabulary = 10 * time.Minute

func (f *keptVocabulary) open(packed []byte, split func(string) int) *vocabulary {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.v == nil {
		f.v = unpack(packed, split)
		f.timer = time.AfterFunc(keepVocabulary, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.v = nil
		})
	}
	f.timer.Reset(keepVocabulary)
	return f.v
}

// vocabulary counts the tokens of byte pair encoding.
type vocabulary struct {
	ranks map[string]uint32
	split func(string) int // the bytes of the first piece of a text; tokens don't cross pieces
}

// unpack reads the tokens in the order of their ranks, each after its length in bytes.
func unpack(packed []byte, split func(string) int) *vocabulary {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic("providers: embedded vocabulary: " + err.Error())
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		panic("providers: embedded vocabulary: " + err.Error())
	}
	n, used := binary.Uvarint(raw)
	v := &vocabulary{ranks: make(map[string]uint32, n), split: split}
	for text := string(raw[used:]); text != ""; {
		end := 1 + int(text[0])
		v.ranks[text[1:end]] = uint32(len(v.ranks))
		text = text[end:]
	}
	return v
}

func (v *vocabulary) count(text string) (n int64) {
	var m merger
	for text != "" {
		piece := text[:v.split(text)]
		text = text[len(piece):]
		if _, whole := v.ranks[piece]; whole {
			n++
		} else {
			n += m.merge(v.ranks, piece)
		}
	}
	return n
}

// merger joins the bytes of a piece, again and again the neighbors whose token has the lowest rank. Its
// memory serves one piece after the other.
type merger struct {
	next, prev []int32  // of each part, by the byte that it begins at
	rank       []uint32 // of each part with its next one
	heap       []uint64 // rank and place, some of them outdated
}

const noRank = 1<<32 - 1

func (m *merger) merge(ranks map[string]uint32, piece string) (parts int64) {
	size := int32(len(piece))
	m.next, m.prev, m.rank, m.heap = m.next[:0], m.prev[:0], m.rank[:0], m.heap[:0]
	for i := range size {
		m.next, m.prev, m.rank = append(m.next, i+1), append(m.prev, i-1), append(m.rank, noRank)
	}
	look := func(i int32) {
		m.rank[i] = noRank
		if second := m.next[i]; second < size {
			if r, ok := ranks[piece[i:m.next[second]]]; ok {
				m.rank[i] = r
				m.push(uint64(r)<<32 | uint64(i))
			}
		}
	}
	for i := range size {
		look(i)
	}
	parts = int64(size)
	for len(m.heap) > 0 {
		best := m.pop()
		i := int32(best & noRank)
		if m.rank[i] != uint32(best>>32) {
			continue
		}
		second := m.next[i]
		m.next[i], m.rank[second] = m.next[second], noRank
		if m.next[i] < size {
			m.prev[m.next[i]] = i
		}
		parts--
		look(i)
		if before := m.prev[i]; before >= 0 {
			look(before)
		}
	}
	return parts
}

func (m *merger) push(x uint64) {
	m.heap = append(m.heap, x)
	for i := len(m.heap) - 1; i > 0 && m.heap[(i-1)/2] > m.heap[i]; i = (i - 1) / 2 {
		m.heap[i], m.heap[(i-1)/2] = m.heap[(i-1)/2], m.heap[i]
	}
}

func (m *merger) pop() uint64 {
	top, last := m.heap[0], len(m.heap)-1
	m.heap[0] = m.heap[last]
	m.heap = m.heap[:last]
	for i := 0; 2*i+1 < last; {
		least := 2*i + 1
		if least+1 < last && m.heap[least+1] < m.heap[least] {
			least++
		}
		if m.heap[i] <= m.heap[least] {
			break
		}
		m.heap[i], m.heap[least] = m.heap[least], m.heap[i]
		i = least
	}
	return top
}

// messageTokens are what these models add to each message, and to a conversation for the answer.
const messageTokens = 3

// request returns the tokens of a request. It is exact for texts and for messages of text; how attachments
// and declarations of tools become tokens is not public.
func (v *vocabulary) request(q Request) (n int64, exact bool) {
	exact = true
	parts := func(list []Part) {
		for _, p := range list {
			n += v.count(p.Text) + v.count(p.Name) + v.count(p.Args)
			exact = exact && p.Kind == PartText
			if p.Kind == PartImage || p.Kind == PartFile {
				n += imageTokens
			}
		}
	}
	parts(q.System)
	for _, m := range q.Messages {
		n += messageTokens + v.count(m.Role)
		parts(m.Parts)
	}
	if len(q.Messages) > 0 {
		n += messageTokens
	}
	for _, t := range q.Tools {
		n += v.count(t.Name) + v.count(t.Description) + v.count(string(t.Input))
		exact = false
	}
	return n, exact
}

// The splitters do what the published patterns say, by hand: a pattern that looks ahead is beyond package
// regexp, and texts are long.

// class of a character, as the patterns tell them apart.
type class uint8

const (
	upper   class = 1 << iota // \p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}
	lower                     // \p{Ll}\p{Lm}\p{Lo}\p{M}
	letter                    // \p{L}
	digit                     // \p{N}
	space                     // \s
	newline                   // \r\n
)

var ascii = func() (table [utf8.RuneSelf]class) {
	for r := range table {
		table[r] = classOf(rune(r))
	}
	return table
}()

func classOf(r rune) class {
	switch {
	case r == '\r' || r == '\n':
		return space | newline
	case unicode.IsSpace(r):
		return space
	case unicode.In(r, unicode.Lu, unicode.Lt):
		return upper | letter
	case unicode.Is(unicode.Ll, r):
		return lower | letter
	case unicode.IsLetter(r):
		return upper | lower | letter
	case unicode.IsMark(r):
		return upper | lower
	case unicode.IsNumber(r):
		return digit
	}
	return 0
}

// at returns the class of the character at i and where the next one begins.
func at(s string, i int) (class, int) {
	if s[i] < utf8.RuneSelf {
		return ascii[s[i]], i + 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return classOf(r), i + n
}

// run returns where the characters from i on that are of one of the kinds end, or of none with not.
func run(s string, i int, of class, not bool) int {
	for i < len(s) {
		k, next := at(s, i)
		if (k&of != 0) == not {
			break
		}
		i = next
	}
	return i
}

// contraction returns where 's, 't, 're, 've, 'm, 'll or 'd at i ends, in any case.
func contraction(s string, i int) int {
	if i+1 >= len(s) || s[i] != '\'' {
		return i
	}
	for _, c := range []string{"s", "t", "re", "ve", "m", "ll", "d", "ſ"} {
		if end := i + 1 + len(c); end <= len(s) && strings.EqualFold(s[i+1:end], c) {
			return end
		}
	}
	return i
}

// wordStarts are where a word may begin: after a character that is no line end, letter or number, and at
// once.
func wordStarts(s string) (after int, prefixed bool) {
	k, next := at(s, 0)
	return next, k&(newline|letter|digit) == 0 && next < len(s)
}

func splitO200k(s string) int {
	after, prefixed := wordStarts(s)
	if prefixed {
		if end := endsLower(s, after); end > 0 {
			return contraction(s, end)
		}
	}
	if end := endsLower(s, 0); end > 0 {
		return contraction(s, end)
	}
	if prefixed {
		if end := run(s, after, upper, false); end > after {
			return contraction(s, run(s, end, lower, false))
		}
	}
	if end := run(s, 0, upper, false); end > 0 {
		return contraction(s, run(s, end, lower, false))
	}
	return splitRest(s, "\r\n/")
}

// endsLower returns the end of capital letters and at least one small letter from i on, or 0. Letters without
// case are both.
func endsLower(s string, i int) int {
	last, j := 0, i // last is where the last letter ends that may be small
	for j < len(s) {
		k, next := at(s, j)
		if k&upper == 0 {
			break
		}
		if k&lower != 0 {
			last = next
		}
		j = next
	}
	if end := run(s, j, lower, false); end > j {
		return end
	}
	return last
}

func splitCl100k(s string) int {
	if end := contraction(s, 0); end > 0 {
		return end
	}
	if after, prefixed := wordStarts(s); prefixed {
		if end := run(s, after, letter, false); end > after {
			return end
		}
	}
	if end := run(s, 0, letter, false); end > 0 {
		return end
	}
	return splitRest(s, "\r\n")
}

// splitRest splits what is no word: up to three digits, signs with what may follow them, white space up to
// its last line end, or without the blank before the next word.
func splitRest(s, follow string) int {
	first, next := at(s, 0)
	if first&digit != 0 {
		for range 2 {
			if next < len(s) {
				if k, after := at(s, next); k&digit != 0 {
					next = after
				}
			}
		}
		return next
	}
	from := 0
	if s[0] == ' ' {
		from = 1
	}
	if end := run(s, from, space|letter|digit, true); end > from {
		for end < len(s) && strings.IndexByte(follow, s[end]) >= 0 {
			end++
		}
		return end
	}
	end := run(s, 0, space, false)
	if line := strings.LastIndexAny(s[:end], "\r\n"); line >= 0 {
		return line + 1
	}
	if _, size := utf8.DecodeLastRuneInString(s[:end]); end < len(s) && end > size {
		return end - size
	}
	return end
}
