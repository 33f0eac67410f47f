package vector

import (
	"cmp"
	"slices"
)

// candidate is a slot whose code is near that of the query.
type candidate struct {
	slot, id uint32
	dist     uint16
	weight   float32 // sum of the query's values at the set bits of the code
}

// selection keeps the want nearest of many candidates; ties are ordered by id. It counts
// candidates by distance, and when it holds several times as many as needed, it lowers the
// limit according to the counts.
type selection struct {
	want   int
	limit  int    // candidates farther away are ignored
	lastID uint32 // maximum id at the limit
	counts []uint32
	found  []candidate
	ties   []candidate
}

func (p *selection) begin(want, dims int) {
	p.want, p.limit, p.lastID = want, dims, none
	p.counts = slices.Grow(p.counts[:0], dims+1)[:dims+1]
	clear(p.counts)
	p.found = p.found[:0]
}

func (p *selection) add(c candidate) {
	d := int(c.dist)
	if d > p.limit || d == p.limit && c.id > p.lastID {
		return
	}
	p.counts[d]++
	p.found = append(p.found, c)
	if len(p.found) >= 2*p.want {
		p.shrink()
	}
}

// shrink drops all but the want nearest.
func (p *selection) shrink() {
	if len(p.found) <= p.want {
		return
	}
	below, d := 0, 0
	for below+int(p.counts[d]) < p.want {
		below += int(p.counts[d])
		d++
	}
	clear(p.counts[d+1:])
	p.limit = d
	kept := p.found[:0]
	p.ties = p.ties[:0]
	for _, c := range p.found {
		switch {
		case int(c.dist) < d:
			kept = append(kept, c)
		case int(c.dist) == d:
			p.ties = append(p.ties, c)
		}
	}
	p.lastID = none
	if room := p.want - below; len(p.ties) >= room {
		slices.SortFunc(p.ties, func(a, b candidate) int { return cmp.Compare(a.id, b.id) })
		p.ties = p.ties[:room]
		p.lastID = p.ties[room-1].id
	}
	p.counts[d] = uint32(len(p.ties))
	kept = append(kept, p.ties...)
	p.found = kept
}

// heaviest moves the want candidates of greatest weight to the front of all; ties are ordered by
// id. It is a quickselect: neither part is sorted.
func heaviest(all []candidate, want int) {
	before := func(a, b candidate) bool {
		return a.weight > b.weight || a.weight == b.weight && a.id < b.id
	}
	for lo, hi := 0, len(all)-1; lo < hi; {
		pivot := all[(lo+hi)/2]
		i, j := lo, hi
		for i <= j {
			for before(all[i], pivot) {
				i++
			}
			for before(pivot, all[j]) {
				j--
			}
			if i <= j {
				all[i], all[j] = all[j], all[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case want-1 <= j:
			hi = j
		case want-1 >= i:
			lo = i
		default:
			lo = hi
		}
	}
}
