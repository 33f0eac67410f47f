package embed

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

const (
	space    = '▁' // what stands for a space, and before the first word
	unknown  = 0   // the piece of a character that no piece has
	reserved = 6   // pieces before the first that text can match
)

type piece struct {
	text  string
	score float64
}

var errVocab = errors.New("vocab.bin breaks off")

// parseVocab reads the pieces that build/models/gen wrote: their number, then for each the
// score and the text with its length before it.
func parseVocab(b []byte) ([]piece, error) {
	if len(b) < 4 {
		return nil, errVocab
	}
	n := int(binary.LittleEndian.Uint32(b))
	b = b[4:]
	if n > len(b)/9 {
		return nil, errVocab
	}
	pieces := make([]piece, n)
	for i := range pieces {
		if len(b) < 9 || len(b) < 9+int(b[8]) {
			return nil, errVocab
		}
		end := 9 + int(b[8])
		pieces[i] = piece{string(b[9:end]), math.Float64frombits(binary.LittleEndian.Uint64(b))}
		b = b[end:]
	}
	return pieces, nil
}

// tokenizer cuts text into the pieces with the best sum of scores (Kudo and Richardson 2018,
// unigram model). It is a trie: a node's edges lie together, in the order of their runes.
type tokenizer struct {
	first []int32 // of each node, the number of its first edge; one more at the end
	runes []rune  // of each edge
	next  []int32 // the node it leads to
	ends  []int32 // of each node, the piece that ends there, or -1
	score []float64
	width []int32 // runes in each piece
}

func newTokenizer(vocab []byte) *tokenizer {
	pieces, _ := parseVocab(vocab) // Open has read it before
	t := &tokenizer{score: make([]float64, len(pieces)), width: make([]int32, len(pieces))}
	type word struct {
		runes []rune
		id    int32
	}
	words := make([]word, 0, len(pieces))
	for i, p := range pieces {
		r := []rune(p.text)
		t.score[i], t.width[i] = p.score, int32(len(r))
		if i >= reserved {
			words = append(words, word{r, int32(i)})
		}
	}
	// Of pieces with the same text the last counts.
	slices.SortFunc(words, func(a, b word) int { return cmp.Or(slices.Compare(a.runes, b.runes), cmp.Compare(a.id, b.id)) })
	// Breadth first: each node is a range of words with the same beginning of some depth.
	type node struct{ from, to, depth int }
	queue := []node{{0, len(words), 0}}
	for at := 0; at < len(queue); at++ {
		n := queue[at]
		end := int32(-1)
		for n.from < n.to && len(words[n.from].runes) == n.depth {
			end = words[n.from].id
			n.from++
		}
		t.ends = append(t.ends, end)
		t.first = append(t.first, int32(len(t.runes)))
		for n.from < n.to {
			r := words[n.from].runes[n.depth]
			to := n.from + sort.Search(n.to-n.from, func(i int) bool { return words[n.from+i].runes[n.depth] > r })
			t.runes = append(t.runes, r)
			t.next = append(t.next, int32(len(queue)))
			queue = append(queue, node{n.from, to, n.depth + 1})
			n.from = to
		}
	}
	t.first = append(t.first, int32(len(t.runes)))
	return t
}

// step gives the node after r, or -1.
func (t *tokenizer) step(node int32, r rune) int32 {
	from, to := t.first[node], t.first[node+1]
	for from < to {
		mid := (from + to) / 2
		switch have := t.runes[mid]; {
		case have == r:
			return t.next[mid]
		case have < r:
			from = mid + 1
		default:
			to = mid
		}
	}
	return -1
}

// lattice is what tokens works on, kept for the next text.
type lattice struct {
	runes []rune
	best  []float64 // of each place, the sum of scores of the best way there
	last  []int32   // of each place, the piece that ends there on that way
}

// reset makes room for a text of n runes at most.
func (l *lattice) reset(n int) {
	l.runes = slices.Grow(l.runes[:0], n)
	l.best = slices.Grow(l.best[:0], n+1)[:n+1]
	l.last = slices.Grow(l.last[:0], n+1)[:n+1]
	clear(l.best)
	clear(l.last)
}

// tokens appends the pieces of text to dst. It stops when ctx ends.
//
// Three things are as in the implementation that the model is distributed with, because other
// pieces would be another vector: a character that starts no piece counts as an unknown one of
// score 0; a place that no piece reaches has the score 0, and is left by an unknown one; and a
// place of score 0 takes whatever comes next, even if it is worse.
func (t *tokenizer) tokens(ctx context.Context, l *lattice, dst []int32, text string) ([]int32, error) {
	if text == "" {
		return dst, nil
	}
	text = nfkc(strings.ToValidUTF8(text, "\uFFFD"))
	l.reset(1 + utf8.RuneCountInString(text))
	l.runes = append(l.runes, space)
	for _, r := range text {
		if r == ' ' {
			r = space
		}
		l.runes = append(l.runes, r)
	}
	runes, best, last := l.runes, l.best, l.last
	for i := range runes {
		if i&0xffff == 0xffff && ctx.Err() != nil {
			return dst, ctx.Err()
		}
		node, matched := int32(0), false
		for j := i; j < len(runes); j++ {
			if node = t.step(node, runes[j]); node < 0 {
				break
			}
			if id := t.ends[node]; id >= 0 {
				matched = true
				if s := t.score[id] + best[i]; best[j+1] == 0 || s >= best[j+1] {
					best[j+1], last[j+1] = s, id
				}
			}
		}
		if !matched && (best[i+1] == 0 || best[i] >= best[i+1]) {
			best[i+1], last[i+1] = best[i], unknown
		}
	}
	from := len(dst)
	for i := len(runes); i > 0; i -= int(t.width[last[i]]) {
		if id := last[i]; id != unknown || len(dst) == from || dst[len(dst)-1] != unknown {
			dst = append(dst, id)
		}
	}
	slices.Reverse(dst[from:])
	return dst, nil
}
