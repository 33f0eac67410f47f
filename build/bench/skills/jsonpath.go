package main

import (
	"encoding/json"
	"flag"
	"os"
	"time"

	"github.com/theory/jsonpath"

	"helix/backend/skills/expr"
)

var cases = flag.String("cts", "../../../shared/data/jsonpath/cts.json", "the JSONPath compliance `file`")

// jsonpaths compares our selection with that of the library below it on the compliance
// documents: both with parsed queries.
func jsonpaths(*bench) {
	raw, err := os.ReadFile(*cases)
	if err != nil {
		line("jsonpath_select", 0, "us", 0, "left out: give -cts the compliance file")
		return
	}
	var file struct {
		Tests []struct {
			Selector        string          `json:"selector"`
			Document        json.RawMessage `json:"document"`
			InvalidSelector bool            `json:"invalid_selector"`
		} `json:"tests"`
	}
	check(json.Unmarshal(raw, &file))
	type pair struct {
		ours *expr.Path
		bare *jsonpath.Path
		doc  any
	}
	var pairs []pair
	for _, c := range file.Tests {
		if c.InvalidSelector {
			continue
		}
		ours, err := expr.ParsePath(c.Selector)
		check(err)
		bare, err := jsonpath.Parse(c.Selector)
		if err != nil {
			continue // the library reads .true, .false and .null as literals
		}
		doc, err := expr.Decode(c.Document)
		check(err)
		pairs = append(pairs, pair{ours, bare, doc})
	}
	took := func(all func()) float64 {
		var v []float64
		for range 30 {
			begun := time.Now()
			for range 20 {
				all()
			}
			v = append(v, float64(time.Since(begun).Nanoseconds())/20/1e3/float64(len(pairs)))
		}
		return quantile(v, 0.5)
	}
	ours := took(func() {
		for _, p := range pairs {
			_, err := p.ours.Select(p.doc)
			check(err)
		}
	})
	bare := took(func() {
		for _, p := range pairs {
			p.bare.Select(p.doc)
		}
	})
	line("jsonpath_select", ours, "us", ours/bare, "theory/jsonpath")
}
