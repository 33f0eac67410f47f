package cloudsync

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"

	"helix/backend/storage"
	"helix/backend/testkit"
)

var ruleColumns = []storage.SyncedColumn{
	{SyncedField: storage.SyncedField{No: 1, Name: "title", Merge: storage.LWW}, Hub: "text"},
	{SyncedField: storage.SyncedField{No: 2, Name: "body", Merge: storage.Text3}, Hub: "text"},
	{SyncedField: storage.SyncedField{No: 3, Name: "tags", Merge: storage.ORSet}, Hub: "text"},
	{SyncedField: storage.SyncedField{No: 4, Name: "used", Merge: storage.PNCounter}, Hub: "bigint"},
	{SyncedField: storage.SyncedField{No: 5, Name: "last", Merge: storage.Max}, Hub: "bigint"},
	{SyncedField: storage.SyncedField{No: 6, Name: "first", Merge: storage.Min}, Hub: "bigint"},
	{SyncedField: storage.SyncedField{No: 7, Name: "enabled", Merge: storage.DenyWins}, Hub: "boolean"},
	{SyncedField: storage.SyncedField{No: 8, Name: "origin", Merge: storage.Immutable}, Hub: "text"},
	{SyncedField: storage.SyncedField{No: 9, Name: "code", Merge: storage.ManualMerge}, Hub: "text"},
	{SyncedField: storage.SyncedField{No: 10, Name: "definition_hash", Merge: storage.ManualMerge}, Hub: "text"},
	{SyncedField: storage.SyncedField{No: 11, Name: "sha", Merge: storage.LWW, HashOf: "body"}, Hub: "text"},
}

// edited returns v after random edits by one site.
func edited(r *rand.Rand, v Version, site, ctr int64, edits int) Version {
	out := Version{Values: maps.Clone(v.Values), Created: v.Created, Updated: v.Updated + r.Int64N(100), Meta: v.Meta.clone()}
	dot := newDot(site, ctr)
	out.Meta.Dot, out.Meta.Vector[site] = dot, ctr
	for range edits {
		c := append([]storage.SyncedColumn{deletedColumn}, ruleColumns...)[r.IntN(len(ruleColumns)+1)]
		if c.Merge == storage.Immutable || c.HashOf != "" {
			continue
		}
		out.Meta.Stamps[c.No] = Stamp{Dot: dot, HLC: 1000 + r.Int64N(20)}
		switch c.Name {
		case deletedAt:
			out.Values[deletedAt] = []any{nil, r.Int64N(5)}[r.IntN(2)]
		case "tags":
			out.Values["tags"] = []string{`[]`, `["a"]`, `["a","b"]`, `["b","c"]`}[r.IntN(4)]
		case "used":
			if out.Meta.Counters[4] == nil {
				out.Meta.Counters[4] = map[int64]Count{}
			}
			n := out.Meta.Counters[4][site]
			n.Plus, n.Minus = n.Plus+r.Int64N(3), n.Minus+r.Int64N(2)
			out.Meta.Counters[4][site] = n
			out.Values["used"] = total(out.Meta.Counters[4])
		case "last", "first":
			out.Values[c.Name] = r.Int64N(9)
		case "enabled":
			out.Values[c.Name] = r.Int64N(2)
		case "body":
			text := []string{"one two three\nfour five\nsix\n", "one 2 three\nfour five\nsix\n", "one two three\nfour five\nsix\nseven\n", "zero\none two three\nfour 5\nsix\n"}[r.IntN(4)]
			out.Values["body"], out.Values["sha"] = text, hashOf(ruleColumns[10], text)
			out.Meta.Stamps[11] = out.Meta.Stamps[2]
		default:
			out.Values[c.Name] = []string{"x", "y", "z"}[r.IntN(3)]
		}
	}
	return out
}

func firstVersion() Version {
	v := Version{Values: map[string]any{deletedAt: nil, "title": "t", "body": "one two three\nfour five\nsix\n", "tags": `["a"]`, "used": int64(2), "last": int64(3), "first": int64(3), "enabled": int64(1), "origin": "o", "code": "c", "definition_hash": "h"}, Meta: newMeta()}
	v.Values["sha"] = hashOf(ruleColumns[10], v.Values["body"].(string))
	v.Meta.Dot, v.Meta.Vector[1] = newDot(1, 1), 1
	for no := range 12 {
		v.Meta.Stamps[no] = Stamp{Dot: newDot(1, 1), HLC: 10}
	}
	v.Meta.Counters[4] = map[int64]Count{1: {Plus: 2}}
	return v
}

func TestMergeIsCommutativeAndIdempotent(t *testing.T) {
	testkit.SkipRaced(t, "one goroutine")
	t.Parallel()
	for seed := range uint64(5_000) {
		r := rand.New(rand.NewPCG(seed, 0))
		first := firstVersion()
		base := &first
		x, y := edited(r, first, 2, 1, 1+r.IntN(5)), edited(r, first, 3, 1, 1+r.IntN(5))
		if seed%4 == 0 {
			base = nil
		}
		xy, c1 := Merge(ruleColumns, base, x, y)
		yx, c2 := Merge(ruleColumns, base, y, x)
		if !reflect.DeepEqual(xy, yx) || len(c1) != len(c2) {
			t.Fatalf("seed %d: not commutative\n%+v\n%+v", seed, xy, yx)
		}
		for i := range c1 {
			if c1[i].Field != c2[i].Field || !equal(c1[i].Mine, c2[i].Theirs) || !equal(c1[i].Theirs, c2[i].Mine) {
				t.Fatalf("seed %d: conflicts %+v and %+v", seed, c1[i], c2[i])
			}
		}
		if again, c := Merge(ruleColumns, base, x, x); len(c) > 0 || !reflect.DeepEqual(again.Values, x.Values) {
			t.Fatalf("seed %d: not idempotent: %+v became %+v, %v", seed, x.Values, again.Values, c)
		}
		if xy.Meta.Vector.Compare(x.Meta.Vector) != After || xy.Meta.Vector.Compare(y.Meta.Vector) != After {
			t.Fatalf("seed %d: the result does not follow both", seed)
		}
		if body, _ := xy.Values["body"].(string); xy.Values["sha"] != hashOf(ruleColumns[10], body) {
			t.Fatalf("seed %d: the hash is not that of %q", seed, body)
		}
	}
}

// Merging three versions gives the same in either grouping, but for texts and definitions: of these
// the conflicts depend on which two meet first.
func TestMergeIsAssociative(t *testing.T) {
	testkit.SkipRaced(t, "one goroutine")
	t.Parallel()
	for seed := range uint64(5_000) {
		r := rand.New(rand.NewPCG(seed, 2))
		base := firstVersion()
		x, y, z := edited(r, base, 2, 1, 1+r.IntN(5)), edited(r, base, 3, 1, 1+r.IntN(5)), edited(r, base, 4, 1, 1+r.IntN(5))
		xy, _ := Merge(ruleColumns, &base, x, y)
		left, _ := Merge(ruleColumns, &base, xy, z)
		yz, _ := Merge(ruleColumns, &base, y, z)
		right, _ := Merge(ruleColumns, &base, x, yz)
		for _, c := range append([]storage.SyncedColumn{deletedColumn}, ruleColumns...) {
			if c.Merge == storage.Text3 || c.Merge == storage.ManualMerge || c.HashOf != "" {
				continue
			}
			if !equal(left.Values[c.Name], right.Values[c.Name]) {
				t.Fatalf("seed %d: %s is %v or %v, of %v, %v and %v", seed, c.Name, left.Values[c.Name], right.Values[c.Name], x.Values[c.Name], y.Values[c.Name], z.Values[c.Name])
			}
		}
		if !maps.Equal(left.Meta.Vector, right.Meta.Vector) || !reflect.DeepEqual(left.Meta.Counters, right.Meta.Counters) || left.Meta.Dot != right.Meta.Dot {
			t.Fatalf("seed %d: %+v or %+v", seed, left.Meta, right.Meta)
		}
	}
}

// Two writes of the same time: the one with the larger dot wins, on either device.
func TestStampTies(t *testing.T) {
	t.Parallel()
	base := firstVersion()
	write := func(site, ctr int64, title string) Version {
		v := Version{Values: maps.Clone(base.Values), Meta: base.Meta.clone()}
		v.Meta.Dot, v.Meta.Vector[site], v.Values["title"] = newDot(site, ctr), ctr, title
		v.Meta.Stamps[1] = Stamp{v.Meta.Dot, 100}
		return v
	}
	x, y := write(2, 9, "x"), write(3, 1, "y")
	for _, pair := range [][2]Version{{x, y}, {y, x}} {
		got, conflicts := Merge(ruleColumns, &base, pair[0], pair[1])
		if got.Values["title"] != "y" || got.Meta.Stamps[1] != y.Meta.Stamps[1] || len(conflicts) != 1 {
			t.Errorf("%v, %+v, %+v", got.Values["title"], got.Meta.Stamps[1], conflicts)
		}
	}
}

func FuzzMerge(f *testing.F) {
	f.Add("one two\nthree", "one 2\nthree", "one two\n3", false)
	f.Add(`["a"]`, `["a","b"]`, `[]`, true)
	f.Add("", "\x00\xff", "\r\n", false)
	f.Fuzz(func(t *testing.T, first, mine, theirs string, unknown bool) {
		version := func(site int64, text string) Version {
			v := firstVersion()
			v.Meta.Dot, v.Meta.Vector[site] = newDot(site, 1), 1
			for no, name := range map[int]string{1: "title", 2: "body", 3: "tags", 7: "enabled", 9: "code"} {
				v.Values[name], v.Meta.Stamps[no] = text, Stamp{newDot(site, 1), 10 + int64(len(text))}
			}
			v.Values["sha"], v.Meta.Stamps[11] = hashOf(ruleColumns[10], text), v.Meta.Stamps[2]
			return v
		}
		b := version(1, first)
		base, x, y := &b, version(2, mine), version(3, theirs)
		if unknown {
			base = nil
		}
		xy, c := Merge(ruleColumns, base, x, y)
		yx, d := Merge(ruleColumns, base, y, x)
		if !reflect.DeepEqual(xy, yx) || len(c) != len(d) {
			t.Errorf("not commutative: %+v, %+v", xy.Values, yx.Values)
		}
		if again, _ := Merge(ruleColumns, base, xy, x); again.Values["body"] != xy.Values["body"] && len(c) == 0 {
			t.Errorf("a version that is part of the result changes it: %q, then %q", xy.Values["body"], again.Values["body"])
		}
	})
}

func TestMergeRules(t *testing.T) {
	t.Parallel()
	base := firstVersion()
	set := func(site, hlc int64, values map[string]any) Version {
		v := Version{Values: maps.Clone(base.Values), Meta: base.Meta.clone()}
		v.Meta.Dot, v.Meta.Vector[site] = newDot(site, 1), 1
		for name, x := range values {
			v.Values[name] = x
			for _, c := range append([]storage.SyncedColumn{deletedColumn}, ruleColumns...) {
				if c.Name == name {
					v.Meta.Stamps[c.No] = Stamp{newDot(site, 1), hlc}
				}
			}
		}
		return v
	}
	type values = map[string]any
	for name, c := range map[string]struct {
		x, y, want values
		conflicts  map[string]bool // field → open
	}{
		"different fields":            {values{"title": "x"}, values{"enabled": int64(0)}, values{"title": "x", "enabled": int64(0)}, nil},
		"the later write wins":        {values{"title": "x"}, values{"title": "y"}, values{"title": "y"}, map[string]bool{"title": false}},
		"the same value":              {values{"title": "x"}, values{"title": "x"}, values{"title": "x"}, nil},
		"words of different lines":    {values{"body": "one 2 three\nfour five\nsix\n"}, values{"body": "one two three\nfour five\nsix\nseven\n"}, values{"body": "one 2 three\nfour five\nsix\nseven\n"}, nil},
		"words of one line":           {values{"body": "1 two three\nfour five\nsix\n"}, values{"body": "one two 3\nfour five\nsix\n"}, values{"body": "1 two 3\nfour five\nsix\n"}, nil},
		"the same word":               {values{"body": "one 2 three\nfour five\nsix\n"}, values{"body": "one zwei three\nfour five\nsix\n"}, values{"body": "one zwei three\nfour five\nsix\n"}, map[string]bool{"body": true}},
		"tags":                        {values{"tags": `["a","b"]`}, values{"tags": `["c"]`}, values{"tags": `["b","c"]`}, nil},
		"the larger":                  {values{"last": int64(9)}, values{"last": int64(5)}, values{"last": int64(9)}, nil},
		"the smaller":                 {values{"first": int64(1)}, values{"first": int64(2)}, values{"first": int64(1)}, nil},
		"what it was before":          {values{"title": "t"}, values{"title": "y"}, values{"title": "y"}, nil},
		"a denial":                    {values{"enabled": int64(0)}, values{"enabled": int64(1)}, values{"enabled": int64(0)}, nil},
		"the definition stays whole":  {values{"code": "x", "definition_hash": "hx"}, values{"code": "y", "definition_hash": "hy"}, values{"code": "y", "definition_hash": "hy"}, map[string]bool{unit: true}},
		"an edit against a deletion":  {values{"title": "x"}, values{deletedAt: int64(5)}, values{"title": "x", deletedAt: nil}, map[string]bool{deletedAt: true}},
		"a use against a deletion":    {values{"last": int64(9)}, values{deletedAt: int64(5)}, values{deletedAt: int64(5), "last": int64(9)}, nil},
		"a deletion against another":  {values{deletedAt: int64(4)}, values{deletedAt: int64(5)}, values{deletedAt: int64(5)}, nil},
		"nothing against a deletion":  {values{}, values{deletedAt: int64(5)}, values{deletedAt: int64(5)}, nil},
		"one definition, another tag": {values{"code": "x", "definition_hash": "hx"}, values{"tags": `["b"]`}, values{"code": "x", "definition_hash": "hx", "tags": `["b"]`}, nil},
	} {
		got, conflicts := Merge(ruleColumns, &base, set(2, 100, c.x), set(3, 200, c.y))
		for k, want := range c.want {
			if !equal(got.Values[k], want) {
				t.Errorf("%s: %s is %v, want %v", name, k, got.Values[k], want)
			}
		}
		open := map[string]bool{}
		for _, x := range conflicts {
			open[x.Field] = x.Open
		}
		if !maps.Equal(open, c.conflicts) {
			t.Errorf("%s: conflicts %v, want %v", name, open, c.conflicts)
		}
	}
}

// A denial that was lifted and denied again on one device prevails over a permission from another.
func TestRepeatedDenialHolds(t *testing.T) {
	t.Parallel()
	base := firstVersion()
	base.Values["enabled"] = int64(0)
	mine, theirs := Version{Values: maps.Clone(base.Values), Meta: base.Meta.clone()}, Version{Values: maps.Clone(base.Values), Meta: base.Meta.clone()}
	mine.Values["enabled"], mine.Meta.Stamps[7] = int64(1), Stamp{newDot(2, 1), 200}
	theirs.Meta.Stamps[7] = Stamp{newDot(3, 2), 100} // first 1, then 0 again
	if got, _ := Merge(ruleColumns, &base, mine, theirs); got.Values["enabled"] != int64(0) {
		t.Errorf("%v", got.Values["enabled"])
	}
}

func TestMetaKeepsItsForm(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		v := edited(r, firstVersion(), 1+r.Int64N(1<<22-1), 1+r.Int64N(1<<40-1), 6)
		got, err := decodeMeta(v.Meta.encode())
		if err != nil || !reflect.DeepEqual(got, v.Meta) {
			t.Fatalf("seed %d: %v\n%+v\n%+v", seed, err, got, v.Meta)
		}
	}
	three := firstVersion().Meta
	three.Vector = Vector{1: 100, 2: 100, 3: 100}
	three.Counters = map[int]map[int64]Count{}
	if n := len(three.encode()); n > 40 {
		t.Errorf("%d bytes for a row of three devices", n)
	}
}

func FuzzDecodeMeta(f *testing.F) {
	f.Add(firstVersion().Meta.encode())
	f.Add([]byte{1, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta(b)
		if err != nil {
			return
		}
		if again, err := decodeMeta(m.encode()); err != nil || !reflect.DeepEqual(m, again) {
			t.Errorf("%v: %+v, then %+v", err, m, again)
		}
	})
}

func TestVectorsCompare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v, w Vector
		want Order
	}{
		{Vector{}, Vector{}, Equal},
		{Vector{1: 2}, Vector{1: 2}, Equal},
		{Vector{1: 1}, Vector{1: 2}, Before},
		{Vector{1: 1}, Vector{1: 1, 2: 1}, Before},
		{Vector{1: 3}, Vector{1: 2}, After},
		{Vector{1: 3, 2: 1}, Vector{1: 2, 2: 2}, Concurrent},
		{Vector{1: 1}, Vector{2: 1}, Concurrent},
	} {
		if got := c.v.Compare(c.w); got != c.want {
			t.Errorf("%v and %v: %d, want %d", c.v, c.w, got, c.want)
		}
	}
}
