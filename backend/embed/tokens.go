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
	space    = '▁' // stands for a space, also before the first word
	unknown  = 0   // the piece of a character without a piece
	reserved = 6   // number of pieces before the first that can match text
)

type piece struct {
	text  string
	score float64
}

var errVocab = errors.New("vocab.bin breaks off")

// parseVocab parses the pieces written by build/models/gen: their number, then for each its score
// and its length-prefixed text.
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

// tokenizer splits text into the pieces with the highest sum of scores (Kudo and Richardson 2018,
// unigram model). It is a trie: the edges of a node are contiguous and sorted by rune.
type tokenizer struct {
	first []int32 // index of each node's first edge; one more at the end
	runes []rune  // of each edge
	next  []int32 // the node it leads to
	ends  []int32 // piece that ends at each node, or -1
	score []float64
	width []int32 // runes in each piece
}

func newTokenizer(vocab []byte) *tokenizer {
	pieces, _ := parseVocab(vocab) // Open has parsed it before
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
	// Of several pieces with the same text the last is used.
	slices.SortFunc(words, func(a, b word) int { return cmp.Or(slices.Compare(a.runes, b.runes), cmp.Compare(a.id, b.id)) })
	// Breadth first: each node is a range of words with a common prefix of length depth.
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

// step returns the node after r, or -1.
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

// lattice is the working memory of tokens, reused for the next text.
type lattice struct {
	runes []rune
	best  []float64 // highest sum of scores up to each position
	last  []int32   // last piece on the best path to each position
}

// reset allocates memory for a text of at most n runes.
func (l *lattice) reset(n int) {
	l.runes = slices.Grow(l.runes[:0], n)
	l.best = slices.Grow(l.best[:0], n+1)[:n+1]
	l.last = slices.Grow(l.last[:0], n+1)[:n+1]
	clear(l.best)
	clear(l.last)
}

// tokens appends the pieces of text to dst. It stops when ctx ends.
//
// Three details follow the implementation that the model is distributed with, because other pieces
// would yield another vector. A character that begins no piece is an unknown one of score 0. A
// position that no piece reaches has the score 0 and is followed by an unknown one. A position of
// score 0 accepts any later path, even one with a lower score.
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
