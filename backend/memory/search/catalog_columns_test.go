package search

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"

	"helix/backend/testkit"
)

// manyChanges returns a catalog after items of conversations and memories were added, changed and
// removed in random order.
func manyChanges(r *rand.Rand) (*catalog, uuid.UUID) {
	c := &catalog{state: catalogReady, catalogRows: catalogRows{people: map[uuid.UUID]*owner{}, families: map[uuid.UUID]*family{}, numbers: map[itemKey]uint32{}}}
	c.tagSets.id("")
	c.speakerID("")
	user := uuid.New()
	families := []uuid.UUID{uuid.Nil, uuid.New(), uuid.New(), uuid.New()}
	var made []itemChange
	for item := uint32(1); item <= 1500; item++ {
		parent := families[r.IntN(len(families))]
		if item > 300 && item < 900 { // most are adjacent
			parent = families[1]
		}
		ch := itemChange{item: item, version: int64(item), user: user, parent: parent, row: row{
			id: uuid.New(), seq: int64(item), occurred: int64(r.IntN(1000)), tokens: int32(1 + r.IntN(40)), salience: float32(r.IntN(101)), retention: -1,
			kind: uint8(r.IntN(3)), typ: uint8(r.IntN(4)), source: uint8(r.IntN(13)), layer: uint8(r.IntN(8)), pinned: r.IntN(2) == 0, untrusted: r.IntN(2) == 0}}
		if r.IntN(10) == 0 {
			ch.row.occurred, ch.row.seq = noTime, int64(r.IntN(1500))
		}
		c.apply(ch)
		made = append(made, ch)
		switch again := made[r.IntN(len(made))]; r.IntN(8) {
		case 0:
			c.apply(itemChange{item: again.item, drop: true})
		case 1:
			again.version, again.row.tokens, again.row.pinned, again.row.occurred = int64(item), int32(1+r.IntN(90)), !again.row.pinned, int64(r.IntN(1000))
			c.apply(again)
		case 2:
			again.only, again.version, again.row.layer = true, int64(item), uint8(r.IntN(8))
			c.apply(again)
		}
	}
	return c, user
}

func TestColumnsFollowRows(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(11, 1))
	for range 5 {
		c, user := manyChanges(r)
		o := c.people[user]
		odd, plain := 0, 0
		for item := range o.live.All() {
			row, p, i := c.row(item), c.columns[item/rowsPerPage], item%rowsPerPage
			if p.occurred[i] != row.occurred || p.traits[i] != traitsOf(row) || p.length[i] != c.windowLength(item, neighborWeights) {
				t.Fatalf("the columns of %d are not those of its row", item)
			}
			b := p.beside[i]
			if b&besideOdd != 0 {
				odd++
				continue
			}
			plain++
			for d := 1; d <= len(neighborWeights); d++ {
				near, ok := row.neighbor(d)
				if ok != (d <= b.after()) || ok && near != item+uint32(d) {
					t.Fatalf("item %d has %d after it, not %d (%v) at %d", item, b.after(), near, ok, d)
				}
				near, ok = row.neighbor(-d)
				if ok != (d <= b.before()) || ok && near != item-uint32(d) {
					t.Fatalf("item %d has %d before it, not %d (%v) at %d", item, b.before(), near, ok, d)
				}
			}
		}
		if odd < 50 || plain < 50 {
			t.Fatalf("%d items have neighbors out of the row, %d have not", odd, plain)
		}
		for range 100 {
			x := test{kinds: uint16(r.Uint32()), types: uint16(r.Uint32()), layers: uint16(r.Uint32()), sources: uint16(r.Uint32()), from: noTime, to: noTime, minRetention: -1}
			if r.IntN(2) == 0 {
				x.from = int64(r.IntN(500))
			}
			if r.IntN(2) == 0 {
				x.to = int64(500 + r.IntN(500))
			}
			if r.IntN(3) == 0 {
				x.pinned = new(bool)
			}
			if r.IntN(3) == 0 {
				x.minSalience = 40
			}
			got := c.pass(o, &x)
			for item := range o.live.All() {
				w := c.row(item)
				want := x.kinds>>w.kind&1 == 1 && x.types>>w.typ&1 == 1 && x.layers>>w.layer&1 == 1 && x.sources>>w.source&1 == 1 &&
					(x.from == noTime || w.occurred >= x.from) && (x.to == noTime || w.occurred < x.to && w.occurred != noTime) &&
					(x.pinned == nil || !w.pinned) && w.salience >= x.minSalience
				if got.Has(item) != want {
					t.Fatalf("item %d passes: %v, %+v", item, !want, x)
				}
			}
		}
	}
}

// Ranking by columns equals evaluating the formula item by item.
func TestRankEqualsItsFormula(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	r := rand.New(rand.NewPCG(12, 1))
	for round := range 12 {
		c, user := manyChanges(r)
		o := c.people[user]
		var lists []weighted
		for range 1 + r.IntN(5) {
			l := weighted{count: float64(1 + r.IntN(2))}
			for item := uint32(1); item <= 1500; item++ {
				if r.IntN(6) == 0 {
					l.ps = append(l.ps, posting{item: item, text: uint8(r.IntN(4)), head: uint8(r.IntN(2))})
				}
			}
			lists = append(lists, l)
		}
		allow := o.live.Clone()
		for item := range o.live.All() {
			if r.IntN(4) == 0 {
				allow.Clear(item)
			}
		}
		p := BM25{K1: 0.6, B: 0.3, Smooth: true, Window: [][]float64{neighborWeights, {0.5}, nil, {0.4, 0.3, 0.2, 0.1}}[round%4]}
		limit := 1 + r.IntN(300)
		got, want := c.rank(p, o, lists, allow, limit), c.rankByFormula(p, o, lists, allow.Has)
		if !slices.Equal(got, want[:min(limit, len(want))]) {
			t.Fatalf("round %d: another order than by the formula", round)
		}
	}
}

// rankByFormula evaluates the formula for each item separately.
func (c *catalog) rankByFormula(p BM25, o *owner, lists []weighted, allowed func(uint32) bool) []scored {
	reach := 1.0
	for _, w := range p.Window {
		reach += 2 * w
	}
	n := float64(o.count)
	mean := max(float64(o.tokens)/n, 1)
	var out []scored
	for item := range o.live.All() {
		length := float64(float32(c.windowLength(item, p.Window) / (reach * mean)))
		score := float32(0)
		for _, l := range lists {
			df, freq := 0.0, 0
			for _, ps := range l.ps {
				if !o.live.Has(ps.item) {
					continue
				}
				df++
				if ps.item == item {
					freq += 100*int(ps.text) + 50*int(ps.head)
				}
				for d, w := range p.Window {
					for _, at := range []int{d + 1, -d - 1} {
						if near, ok := c.row(item).neighbor(at); ok && near == ps.item {
							freq += int(math.Round(100*w)) * int(ps.text)
						}
					}
				}
			}
			if f := float64(freq) / 100; f > 0 {
				score += float32(l.count * p.idf(n, df) * (p.K1 + 1) * f / (f + p.K1*(1-p.B+p.B*length)))
			}
		}
		if score > 0 && allowed(item) {
			out = append(out, scored{item, float64(score)})
		}
	}
	slices.SortFunc(out, func(a, b scored) int {
		if a.score != b.score {
			return cmp.Compare(b.score, a.score)
		}
		return c.tie(a.item, b.item)
	})
	return out
}
