package main

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"time"

	"github.com/theory/jsonpath"

	"helix/backend/skills/expr"
	"helixbench/figures"
)

var cases = flag.String("cts", "../../../shared/data/jsonpath/cts.json", "the JSONPath compliance `file`")

// jsonpaths compares our selection with that of the underlying library on the compliance documents,
// both with parsed queries.
func jsonpaths(*bench) {
	raw, err := os.ReadFile(*cases)
	if err != nil {
		figures.Print("jsonpath_select", 0, "us", 0, "left out: give -cts the compliance file")
		return
	}
	var file struct {
		Tests []struct {
			Selector        string          `json:"selector"`
			Document        json.RawMessage `json:"document"`
			InvalidSelector bool            `json:"invalid_selector"`
		} `json:"tests"`
	}
	figures.Check(json.Unmarshal(raw, &file))
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
		figures.Check(err)
		bare, err := jsonpath.Parse(c.Selector)
		if err != nil {
			continue // the library interprets .true, .false and .null as literals
		}
		doc, err := expr.Decode(c.Document)
		figures.Check(err)
		pairs = append(pairs, pair{ours, bare, doc})
	}
	// Some cases take the library a thousand times longer than others, so each case has the same
	// weight: the mean of the ratios is the geometric one.
	took := func(once func()) float64 {
		least := math.Inf(1)
		for range 5 {
			begun := time.Now()
			n := 0
			for ; n < 200 && (n == 0 || time.Since(begun) < 2*time.Millisecond); n++ {
				once()
			}
			least = min(least, float64(time.Since(begun).Nanoseconds())/1e3/float64(n))
		}
		return least
	}
	var logs, times float64
	for _, p := range pairs {
		ours := took(func() {
			_, err := p.ours.Select(p.doc)
			figures.Check(err)
		})
		bare := took(func() { p.bare.Select(p.doc) })
		times += ours
		logs += math.Log(ours / bare)
	}
	n := float64(len(pairs))
	figures.Print("jsonpath_select, mean of the cases", times/n, "us", math.Exp(logs/n), "theory/jsonpath, geometric mean of ratios")
}
