package cloudsync

import (
	"cmp"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// Dot identifies one version of one row: the site that wrote it and that site's counter.
type Dot int64

const ctrBits = 40

func newDot(site, ctr int64) Dot { return Dot(site<<ctrBits | ctr) }

// Site returns the number that the hub assigned to the device that wrote the version.
func (d Dot) Site() int64 { return int64(d) >> ctrBits }

// Ctr returns the counter of the site, which counts the versions that it packaged.
func (d Dot) Ctr() int64 { return int64(d) & (1<<ctrBits - 1) }

// Vector is a version vector. It maps each site to the newest counter that the row includes.
type Vector map[int64]int64

// Order is the causal relation of two vectors.
type Order int

// Relations between two vectors.
const (
	Equal Order = iota
	Before
	After
	Concurrent
)

// Compare returns the relation of v to w.
func (v Vector) Compare(w Vector) Order {
	less, more := false, false
	for site, ctr := range v {
		more = more || ctr > w[site]
	}
	for site, ctr := range w {
		less = less || ctr > v[site]
	}
	switch {
	case less && more:
		return Concurrent
	case less:
		return Before
	case more:
		return After
	}
	return Equal
}

// Covers reports whether v includes the version d.
func (v Vector) Covers(d Dot) bool { return v[d.Site()] >= d.Ctr() }

// with returns the union of v and w.
func (v Vector) with(w Vector) Vector {
	out := Vector{}
	for _, x := range []Vector{v, w} {
		for site, ctr := range x {
			out[site] = max(out[site], ctr)
		}
	}
	return out
}

// Stamp is the clock value and the version of the last write to a field.
type Stamp struct {
	Dot Dot
	HLC int64
}

// after reports whether s is later than o, first by clock, then by site. Of two writes to a field,
// the later one wins.
func (s Stamp) after(o Stamp) bool {
	return cmp.Or(cmp.Compare(s.HLC, o.HLC), cmp.Compare(s.Dot.Site(), o.Dot.Site()), cmp.Compare(s.Dot, o.Dot)) > 0
}

// Count is the sum of what one site added to a counter, and of what it subtracted.
type Count struct{ Plus, Minus int64 }

// Meta is the sync metadata of a row, stored in column sync_meta.
type Meta struct {
	Dot      Dot
	Vector   Vector
	Stamps   map[int]Stamp           // by field number
	Counters map[int]map[int64]Count // by field number, then by site
	// Adds are the versions that added the elements of a set, by field number and element. An element
	// without an entry was there when the row was first packaged.
	Adds map[int]map[string]Dot
}

func newMeta() Meta {
	return Meta{Vector: Vector{}, Stamps: map[int]Stamp{}, Counters: map[int]map[int64]Count{}, Adds: map[int]map[string]Dot{}}
}

func (m Meta) clone() Meta {
	out := Meta{Dot: m.Dot, Vector: maps.Clone(m.Vector), Stamps: maps.Clone(m.Stamps), Counters: map[int]map[int64]Count{}, Adds: map[int]map[string]Dot{}}
	for no, c := range m.Counters {
		out.Counters[no] = maps.Clone(c)
	}
	for no, a := range m.Adds {
		out.Adds[no] = maps.Clone(a)
	}
	return out
}

// total returns the value of a counter.
func total(c map[int64]Count) (n int64) {
	for _, x := range c {
		n += x.Plus - x.Minus
	}
	return n
}

const metaVersion = 1

var errMeta = errors.New("cloudsync: sync_meta of an unknown form")

// encode encodes m. Fields with equal stamps share one, so a row that was written once needs only
// one stamp.
func (m Meta) encode() []byte {
	b := []byte{metaVersion}
	num := func(n int64) { b = binary.AppendUvarint(b, uint64(n)) }
	num(int64(m.Dot))
	num(int64(len(m.Vector)))
	for _, site := range slices.Sorted(maps.Keys(m.Vector)) {
		num(site)
		num(m.Vector[site])
	}
	groups := map[Stamp]int64{}
	for no, s := range m.Stamps {
		groups[s] |= 1 << no
	}
	num(int64(len(groups)))
	for _, s := range slices.SortedFunc(maps.Keys(groups), func(a, b Stamp) int {
		return cmp.Or(cmp.Compare(a.Dot, b.Dot), cmp.Compare(a.HLC, b.HLC))
	}) {
		num(int64(s.Dot))
		num(s.HLC)
		num(groups[s])
	}
	num(int64(len(m.Counters)))
	for _, no := range slices.Sorted(maps.Keys(m.Counters)) {
		num(int64(no))
		num(int64(len(m.Counters[no])))
		for _, site := range slices.Sorted(maps.Keys(m.Counters[no])) {
			c := m.Counters[no][site]
			num(site)
			num(c.Plus)
			num(c.Minus)
		}
	}
	fields := []int{}
	for _, no := range slices.Sorted(maps.Keys(m.Adds)) {
		if len(m.Adds[no]) > 0 {
			fields = append(fields, no)
		}
	}
	if len(fields) == 0 {
		return b // most rows: the section is left out
	}
	num(int64(len(fields)))
	for _, no := range fields {
		num(int64(no))
		num(int64(len(m.Adds[no])))
		for _, s := range slices.Sorted(maps.Keys(m.Adds[no])) {
			num(int64(len(s)))
			b = append(b, s...)
			num(int64(m.Adds[no][s]))
		}
	}
	return b
}

// decodeMeta decodes the output of encode. The input may come from another device, so it is fully
// validated.
func decodeMeta(b []byte) (Meta, error) {
	m := newMeta()
	if len(b) == 0 || b[0] != metaVersion {
		return m, errMeta
	}
	b = b[1:]
	bad := false
	num := func() int64 {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > 1<<63-1 {
			bad = true
			return 0
		}
		b = b[k:]
		return int64(n)
	}
	each := func(fn func()) {
		for n := num(); n > 0 && !bad; n-- {
			fn()
		}
	}
	m.Dot = Dot(num())
	each(func() { site := num(); m.Vector[site] = num() })
	each(func() {
		s := Stamp{Dot: Dot(num()), HLC: num()}
		set := num()
		for no := range 63 {
			if set>>no&1 == 1 {
				m.Stamps[no] = s
			}
		}
	})
	each(func() {
		no, c := int(num()), map[int64]Count{}
		each(func() { site := num(); c[site] = Count{Plus: num(), Minus: num()} })
		m.Counters[no] = c
	})
	if len(b) > 0 {
		each(func() {
			no, adds := int(num()), map[string]Dot{}
			each(func() {
				n := num()
				if n > int64(len(b)) {
					bad = true
					return
				}
				s := string(b[:n])
				b = b[n:]
				adds[s] = Dot(num())
			})
			m.Adds[no] = adds
		})
	}
	if bad || len(b) > 0 {
		return newMeta(), errMeta
	}
	return m, nil
}
