package scrub

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// automaton finds a set of byte strings in one pass (Aho and Corasick, 1975). A bitmap of the hashes
// of the first bytes of all patterns skips what cannot start one.
type automaton struct {
	starts  [1 << hashBits / 64]uint64
	gram    int          // how many bytes are hashed
	mask    uint64       // selects them
	rows    [][256]int32 // transitions of the states of depth 0 and 1: the only wide ones in practice
	states  []state
	lengths []int32 // of each pattern
	longest int
}

// state is a node of the trie. Its children are a list, sorted by byte.
type state struct {
	child, sibling int32
	fail           int32
	output         int32 // the nearest state on the chain of failure links that ends a pattern, or 0
	pattern        int32 // the pattern that ends here, or -1
	row            int32 // in rows, or -1
	depth          int32
	char           byte
}

const (
	minGram  = 3 // minimum length of a pattern
	maxGram  = 8 // bytes that one load reads
	hashBits = 18
)

// hash returns the bit of starts for the bytes of word that mask selects.
func hash(word, mask uint64) uint64 {
	return (word & mask) * 0x9e3779b97f4a7c15 >> (64 - hashBits) // Knuth's multiplicative hashing
}

func load(text []byte) uint64 {
	if len(text) >= maxGram {
		return binary.LittleEndian.Uint64(text)
	}
	var padded [maxGram]byte
	copy(padded[:], text)
	return binary.LittleEndian.Uint64(padded[:])
}

// newAutomaton builds the automaton of patterns, none of which is shorter than minGram. Of equal
// patterns, the first one is reported.
func newAutomaton(patterns []string) *automaton {
	a := &automaton{states: []state{{pattern: -1}}, lengths: make([]int32, len(patterns)), gram: maxGram}
	for _, p := range patterns {
		a.gram = min(a.gram, len(p))
		a.longest = max(a.longest, len(p))
	}
	a.mask = ^uint64(0) >> (64 - 8*a.gram)
	order := make([]int, len(patterns))
	for i, p := range patterns {
		order[i] = i
		a.lengths[i] = int32(len(p))
		h := hash(load([]byte(p[:a.gram])), a.mask)
		a.starts[h>>6] |= 1 << (h & 63)
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(patterns[x], patterns[y]) })
	tails := []int32{0} // last child of each state; sorted input only ever extends the last one
	for _, i := range order {
		at := int32(0)
		for k := range len(patterns[i]) {
			c := patterns[i][k]
			t := tails[at]
			if t == 0 || a.states[t].char != c {
				n := int32(len(a.states))
				a.states = append(a.states, state{pattern: -1, row: -1, depth: int32(k + 1), char: c})
				tails = append(tails, 0)
				if t == 0 {
					a.states[at].child = n
				} else {
					a.states[t].sibling = n
				}
				tails[at], t = n, n
			}
			at = t
		}
		if a.states[at].pattern < 0 {
			a.states[at].pattern = int32(i)
		}
	}
	a.link()
	return a
}

// link sets failure and output links, breadth first.
func (a *automaton) link() {
	queue := make([]int32, 1, len(a.states))
	for i := 0; i < len(queue); i++ {
		n := queue[i]
		s := &a.states[n]
		if s.pattern >= 0 {
			s.output = n
		} else if n != 0 {
			s.output = a.states[s.fail].output
		}
		for c := s.child; c != 0; c = a.states[c].sibling {
			if n != 0 {
				a.states[c].fail = a.step(s.fail, a.states[c].char)
			}
			queue = append(queue, c)
		}
		if s.depth < 2 {
			var row [256]int32
			if n != 0 {
				row = a.rows[0] // a state of depth 1 fails to the root
			}
			for c := s.child; c != 0; c = a.states[c].sibling {
				row[a.states[c].char] = c
			}
			a.rows = append(a.rows, row)
			s.row = int32(len(a.rows) - 1)
		}
	}
}

func (a *automaton) step(n int32, c byte) int32 {
	for {
		s := &a.states[n]
		if s.row >= 0 {
			return a.rows[s.row][c]
		}
		child := s.child
		for child != 0 && a.states[child].char < c {
			child = a.states[child].sibling
		}
		if child != 0 && a.states[child].char == c {
			return child
		}
		n = s.fail
	}
}

// scan is the position and state of a search.
type scan struct {
	at    int   // the next byte to read
	entry int   // where the automaton was entered, if inside
	state int32 // of the automaton
	inner bool  // at is inside what may be a pattern
}

// start returns the position before which nothing will be read again.
func (s *scan) start() int {
	if s.inner {
		return s.entry
	}
	return s.at
}

// skip returns the first position from i on, and before end, where a pattern may start, or end.
func (a *automaton) skip(text []byte, i, end int) int {
	starts, mask := &a.starts, a.mask // a, in registers
	for fast := min(end, len(text)-maxGram+1); i < fast; i++ {
		if h := hash(binary.LittleEndian.Uint64(text[i:]), mask); starts[h>>6]&(1<<(h&63)) != 0 {
			return i
		}
	}
	for ; i < end; i++ {
		if h := hash(load(text[i:]), mask); starts[h>>6]&(1<<(h&63)) != 0 {
			return i
		}
	}
	return i
}

// find reads text from s.at up to limit and reports each pattern that ends there, ordered by end,
// the longer of two first. The time is linear in the length of the text and the number of reports.
func (a *automaton) find(text []byte, s *scan, limit int, report func(start, end, index int)) {
	for {
		if !s.inner {
			end := min(limit, len(text)-a.gram+1)
			i := a.skip(text, s.at, end)
			s.at = max(s.at, i)
			if i >= end {
				return
			}
			s.inner, s.entry, s.state = true, i, 0
		}
		for {
			if s.at >= limit {
				return
			}
			s.state = a.step(s.state, text[s.at])
			s.at++
			n := &a.states[s.state]
			for o := n.output; o != 0; o = a.states[a.states[o].fail].output {
				index := a.states[o].pattern
				report(s.at-int(a.lengths[index]), s.at, int(index))
			}
			// Nothing of a.gram bytes or more is in progress, so return to the bitmap.
			if int(n.depth) < a.gram && s.at-s.entry >= a.gram {
				s.inner = false
				s.at -= int(n.depth)
				break
			}
		}
	}
}
