package search

import (
	"slices"
	"strings"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/vector"
)

// Check returns an error if the filters contain a value that does not exist.
func (f *Filters) Check() error {
	if f == nil {
		return nil
	}
	for i, l := range f.Layers {
		if l < 1 || l > 7 {
			return fault.Invalidf("filters.layers[%d]: a layer is 1 to 7", i)
		}
	}
	for _, list := range []struct {
		name   string
		values []string
		of     []string
	}{{"types", f.Types, Types}, {"sources", f.Sources, Sources}, {"kinds", f.Kinds, kindNames}} {
		for i, v := range list.values {
			if !slices.Contains(list.of, v) {
				return fault.Invalidf("filters.%s[%d]: %q is not one of %s", list.name, i, v, strings.Join(list.of, ", "))
			}
		}
	}
	if f.MinSalience != nil && (*f.MinSalience < 0 || *f.MinSalience > 100) {
		return fault.Invalidf("filters.minSalience is 0 to 100")
	}
	if f.MinRetention != nil && (*f.MinRetention < 0 || *f.MinRetention > 1) {
		return fault.Invalidf("filters.minRetention is 0 to 1")
	}
	if f.From != nil && f.To != nil && f.To.Before(*f.From) {
		return fault.Invalidf("filters.to is before filters.from")
	}
	return nil
}

// test is the compiled form of filters, to be applied to rows.
type test struct {
	kinds, types, layers, sources uint16 // one bit per value; all bits: any
	from, to                      int64
	minSalience, minRetention     float32
	pinned, untrusted             *bool
	family                        *uuid.UUID
	other                         *uuid.UUID
	tagSets                       map[uint32]bool // nil: any
}

// test compiles filters, using the tags in use. The caller must hold the lock of the catalog.
func (c *catalog) test(f *Filters, turns bool) test {
	t := test{kinds: ^uint16(0), types: ^uint16(0), layers: ^uint16(0), sources: ^uint16(0), from: noTime, to: noTime}
	if f == nil {
		f = &Filters{}
	}
	set := func(values, names []string) uint16 {
		if len(values) == 0 {
			return ^uint16(0)
		}
		m := uint16(0)
		for _, v := range values {
			m |= 1 << nameIndex(names, v)
		}
		return m
	}
	t.kinds, t.types, t.sources = set(f.Kinds, kindNames), set(f.Types, Types), set(f.Sources, Sources)
	if !turns {
		t.kinds &^= 1 << nameIndex(kindNames, KindTurn)
	}
	if len(f.Layers) > 0 {
		t.layers = 0
		for _, l := range f.Layers {
			t.layers |= 1 << l
		}
	}
	if f.From != nil {
		t.from = f.From.UnixMicro()
	}
	if f.To != nil {
		t.to = f.To.UnixMicro()
	}
	if f.MinSalience != nil {
		t.minSalience = float32(*f.MinSalience)
	}
	t.minRetention = -1
	if f.MinRetention != nil {
		t.minRetention = float32(*f.MinRetention)
	}
	t.pinned, t.untrusted, t.family, t.other = f.Pinned, f.Untrusted, f.ConversationID, f.DocumentID
	if len(f.TagsAll)+len(f.TagsAny)+len(f.TagsNone) > 0 {
		t.tagSets = map[uint32]bool{}
		for id, s := range c.tagSets.text {
			if tagsFit(strings.Split(s, tagSeparator), f) {
				t.tagSets[uint32(id)] = true
			}
		}
	}
	return t
}

// tagsFit reports whether an item with these tags passes the filters.
func tagsFit(tags []string, f *Filters) bool {
	has := func(tag string) bool { return slices.Contains(tags, NormalTag(tag)) }
	for _, t := range f.TagsAll {
		if !has(t) {
			return false
		}
	}
	if slices.ContainsFunc(f.TagsNone, has) {
		return false
	}
	return len(f.TagsAny) == 0 || slices.ContainsFunc(f.TagsAny, has)
}

// fits reports whether a row passes. A row without a time is outside of every time span. A row
// without a computed retention counts as fully retained.
func (t *test) fits(r *row) bool {
	switch {
	case !t.fitsTraits(traitsOf(r)), !t.fitsTime(r.occurred):
		return false
	case r.salience < t.minSalience:
		return false
	case t.minRetention >= 0 && r.retention >= 0 && r.retention < t.minRetention:
		return false
	case t.family != nil && (r.family == nil || r.family.id != *t.family):
		return false
	case t.other != nil && (r.family == nil || r.family.id != *t.other):
		return false
	case t.tagSets != nil && !t.tagSets[r.tags]:
		return false
	}
	return true
}

func (t *test) fitsTraits(m traits) bool {
	if (t.kinds>>m.kind())&(t.types>>m.typ())&(t.layers>>m.layer())&(t.sources>>m.source())&1 == 0 {
		return false
	}
	return (t.pinned == nil || m.pinned() == *t.pinned) && (t.untrusted == nil || m.untrusted() == *t.untrusted)
}

func (t *test) fitsTime(occurred int64) bool {
	return (t.from == noTime || occurred >= t.from) && (t.to == noTime || occurred < t.to && occurred != noTime)
}

// allowed returns the set of the items of o that pass. The caller must hold the lock of the catalog.
func (c *catalog) allowed(o *owner, f *Filters, turns bool) *vector.Bitmap {
	if o == nil {
		return vector.NewBitmap(0)
	}
	if f == nil && turns {
		return o.live.Clone()
	}
	t := c.test(f, turns)
	if t.family == nil {
		t.family = t.other
	}
	if t.family != nil {
		out := vector.NewBitmap(len(c.pages) * rowsPerPage)
		if fam := c.families[*t.family]; fam != nil {
			for _, item := range fam.members {
				if r := c.row(item); r.owner == o && t.fits(r) {
					out.Set(item)
				}
			}
		}
		return out
	}
	return c.pass(o, &t)
}
