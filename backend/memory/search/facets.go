package search

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"
)

// maxFacetTags is the maximum length of the list of tags.
const maxFacetTags = 50

// facets counts the candidates of a search. The caller must hold the lock of the catalog.
func (c *catalog) facets(cs []candidate) *Facets {
	types, layers, tags, sources, months := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	for _, x := range cs {
		r := c.row(x.item)
		types[nameAt(Types, r.typ)]++
		if r.layer > 0 {
			layers[strconv.Itoa(int(r.layer))]++
		}
		sources[nameAt(Sources, r.source)]++
		months[monthOf(r.occurred)]++
		for _, t := range c.tagsOf(r) {
			tags[t]++
		}
	}
	most := countsOf(tags, byCount)
	return &Facets{Type: countsOf(types, byCount), Layer: countsOf(layers, byValue), Tag: most[:min(len(most), maxFacetTags)],
		Source: countsOf(sources, byCount), Month: countsOf(months, byValue)}
}

// byCount orders values by descending frequency.
func byCount(a, b Count) int {
	return cmp.Or(cmp.Compare(b.Count, a.Count), byValue(a, b))
}

func byValue(a, b Count) int { return cmp.Compare(a.Value, b.Value) }

// countsOf returns the values of m in order.
func countsOf(m map[string]int, order func(a, b Count) int) []Count {
	out := make([]Count, 0, len(m))
	for _, v := range slices.Sorted(maps.Keys(m)) {
		out = append(out, Count{v, m[v]})
	}
	slices.SortFunc(out, order)
	return out
}

// monthOf returns the month of a time, or "" for noTime.
func monthOf(at int64) string {
	if at == noTime {
		return ""
	}
	return time.UnixMicro(at).UTC().Format("2006-01")
}
