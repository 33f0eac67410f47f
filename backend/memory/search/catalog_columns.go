package search

import "helix/backend/vector"

// neighborWeights are the weights in ranking of the neighbors at distance 1, 2, … of an item.
var neighborWeights = []float64{0.4, 0.2, 0.1}

// columnPage holds the columns that every query reads for very many rows. They are stored apart
// from the rows, so that more of them fit in the processor's cache.
type columnPage struct {
	occurred [rowsPerPage]int64
	length   [rowsPerPage]float64 // windowLength with neighborWeights
	traits   [rowsPerPage]traits
	beside   [rowsPerPage]beside
}

// traits packs the attributes of a row that have few values.
type traits uint16

func traitsOf(r *row) traits {
	m := traits(r.kind) | traits(r.typ)<<2 | traits(r.layer)<<4 | traits(r.source)<<7
	if r.pinned {
		m |= 1 << 11
	}
	if r.untrusted {
		m |= 1 << 12
	}
	return m
}

func (m traits) kind() uint8     { return uint8(m & 3) }
func (m traits) typ() uint8      { return uint8(m >> 2 & 3) }
func (m traits) layer() uint8    { return uint8(m >> 4 & 7) }
func (m traits) source() uint8   { return uint8(m >> 7 & 15) }
func (m traits) pinned() bool    { return m>>11&1 != 0 }
func (m traits) untrusted() bool { return m>>12&1 != 0 }

// beside packs how many neighbors of an item follow and precede it, each at most
// len(neighborWeights). Items that were imported together have consecutive numbers; besideOdd is
// set if the numbers of the neighbors are not consecutive.
type beside uint8

const besideOdd beside = 1 << 7

func (b beside) after() int  { return int(b & 7) }
func (b beside) before() int { return int(b >> 3 & 7) }

// note updates the columns of an item from its row, and the beside column of its neighbors.
func (c *catalog) note(item uint32) {
	for len(c.columns) <= int(item/rowsPerPage) {
		c.columns = append(c.columns, nil)
	}
	p := &c.columns[item/rowsPerPage]
	if *p == nil {
		*p = new(columnPage)
	}
	r := c.row(item)
	(*p).occurred[item%rowsPerPage], (*p).traits[item%rowsPerPage] = r.occurred, traitsOf(r)
	if r.family == nil {
		c.noteBeside(item)
		return
	}
	c.noteAround(r.family, int(r.pos))
}

// noteAround updates only the neighbors. at is the index in the family of the item that was added,
// changed or removed.
func (c *catalog) noteAround(f *family, at int) {
	reach := len(neighborWeights)
	for i := max(0, at-reach); i < min(len(f.members), at+reach+1); i++ {
		c.noteBeside(f.members[i])
	}
}

func (c *catalog) noteBeside(item uint32) {
	r, p, i := c.row(item), c.columns[item/rowsPerPage], item%rowsPerPage
	var after, before, odd beside
	for d := range neighborWeights {
		if near, ok := r.neighbor(d + 1); ok {
			if after++; near != item+uint32(d+1) {
				odd = besideOdd
			}
		}
		if near, ok := r.neighbor(-d - 1); ok {
			if before++; near != item-uint32(d+1) {
				odd = besideOdd
			}
		}
	}
	p.beside[i], p.length[i] = after|before<<3|odd, c.windowLength(item, neighborWeights)
}

// pass returns the items of o that pass a test.
func (c *catalog) pass(o *owner, t *test) *vector.Bitmap {
	out := vector.NewBitmap(len(c.pages) * rowsPerPage)
	rows := t.minSalience > 0 || t.minRetention >= 0 || t.tagSets != nil // not in the columns
	for item := range o.live.All() {
		p, i := c.columns[item/rowsPerPage], item%rowsPerPage
		if t.fitsTraits(p.traits[i]) && t.fitsTime(p.occurred[i]) && (!rows || t.fits(c.row(item))) {
			out.Set(item)
		}
	}
	return out
}
