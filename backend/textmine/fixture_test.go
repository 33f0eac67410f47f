package textmine

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// dialogue is a labelled dialogue of testdata/dialogues.txt.
type dialogue struct {
	name   string
	at     time.Time
	docs   []Doc
	labels []label
}

// label is something that a reader of the dialogue finds in it.
type label struct {
	kind string // people, support, conflict, the kinds of prospects and outcomes, due
	doc  int
	text string
}

var message = regexp.MustCompile(`^(-|\p{Lu}\p{L}+): (.*)$`)

func dialogues(t *testing.T) (out []dialogue) {
	t.Helper()
	b, err := os.ReadFile("testdata/dialogues.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if head, ok := strings.CutPrefix(line, "## "); ok {
			name, day, _ := strings.Cut(head, " ")
			at, err := time.Parse(time.DateOnly, day)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, dialogue{name: name, at: at})
			continue
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		d := &out[len(out)-1]
		if m := message.FindStringSubmatch(line); m != nil {
			d.docs = append(d.docs, Doc{ID: fmt.Sprint(len(d.docs) + 1), Speaker: strings.Trim(m[1], "-"), Text: m[2]})
			continue
		}
		kind, rest, ok := strings.Cut(line, ": ")
		if !ok {
			t.Fatalf("dialogue %s: %q", d.name, line)
		}
		if kind == "people" {
			for p := range strings.SplitSeq(rest, "; ") {
				d.labels = append(d.labels, label{kind: kind, text: p})
			}
			continue
		}
		parts := strings.Split(rest, ";")
		if slices.Contains([]string{"support", "conflict", "moved", "reached", "dropped"}, kind) {
			parts = strings.Fields(rest)
		}
		for _, p := range parts {
			n, text, _ := strings.Cut(strings.TrimSpace(p), " ")
			doc, err := strconv.Atoi(n)
			if err != nil || doc < 1 || doc > len(d.docs) {
				t.Fatalf("dialogue %s: %q", d.name, line)
			}
			d.labels = append(d.labels, label{kind, doc - 1, text})
		}
	}
	return out
}

// found gives what the extractors find, in the form of labels.
func (d *dialogue) found() (out []label) {
	for _, p := range People(d.docs, Corrections{}) {
		if !p.Speaks {
			out = append(out, label{kind: "people", text: p.Name})
		}
	}
	for i, doc := range d.docs {
		for _, r := range Relations(doc.Text) {
			if l := (label{kind: string(r.Kind), doc: i}); !slices.Contains(out, l) { // a label counts once a message
				out = append(out, l)
			}
		}
		prospects, outcomes := Prospects(doc.Text, d.at)
		for _, p := range prospects {
			out = append(out, label{string(p.Kind), i, p.Object})
		}
		for _, o := range outcomes {
			out = append(out, label{kind: string(o.Kind), doc: i})
		}
	}
	return out
}

// tally counts labels that were found, found ones that are labels, and both.
type tally struct{ right, said, wanted int }

func (c tally) precision() float64 { return float64(c.right) / float64(max(c.said, 1)) }
func (c tally) recall() float64    { return float64(c.right) / float64(max(c.wanted, 1)) }

func TestFixturePrecisionAndRecall(t *testing.T) {
	t.Parallel()
	all := dialogues(t)
	if len(all) != 60 {
		t.Fatalf("%d dialogues", len(all))
	}
	counts := map[string]*tally{}
	count := func(kind string) *tally {
		if counts[kind] == nil {
			counts[kind] = &tally{}
		}
		return counts[kind]
	}
	for _, d := range all {
		found := d.found()
		used := make([]bool, len(found))
		for _, l := range d.labels {
			if l.kind == "due" {
				continue
			}
			count(l.kind).wanted++
			k := -1
			for i, f := range found {
				if !used[i] && f.kind == l.kind && f.doc == l.doc && (f.text == l.text || l.kind != "people" && strings.Contains(f.text, l.text)) {
					k = i
					break
				}
			}
			if k < 0 {
				t.Logf("missed in %s: %+v", d.name, l)
				continue
			}
			used[k] = true
			count(l.kind).right++
		}
		for i, f := range found {
			count(f.kind).said++
			if !used[i] {
				t.Logf("wrong in %s: %+v", d.name, f)
			}
		}
	}
	sum := func(name string, kinds ...string) {
		var s tally
		for _, k := range kinds {
			c := count(k)
			s = tally{s.right + c.right, s.said + c.said, s.wanted + c.wanted}
			t.Logf("%-14s precision %.3f recall %.3f %+v", k, c.precision(), c.recall(), *c)
		}
		t.Logf("%-14s PRECISION %.3f RECALL %.3f %+v", name, s.precision(), s.recall(), s)
		if s.precision() < 0.8 || s.recall() < 0.6 {
			t.Errorf("%s: precision %.3f, recall %.3f; want 0.8 and 0.6", name, s.precision(), s.recall())
		}
	}
	sum("people", "people")
	sum("relational", "support", "conflict")
	sum("prospective", "goal", "aspiration", "fear", "possible_self", "value")
	sum("outcomes", "moved", "reached", "dropped")
}

func TestFixtureDueDates(t *testing.T) {
	t.Parallel()
	for _, d := range dialogues(t) {
		for _, l := range d.labels {
			if l.kind != "due" {
				continue
			}
			found := false
			prospects, _ := Prospects(d.docs[l.doc].Text, d.at)
			for _, p := range prospects {
				found = found || p.Due != nil && p.Due.From.Format(time.DateOnly) == l.text
			}
			if !found {
				t.Errorf("dialogue %s: nothing due on %s in %+v", d.name, l.text, prospects)
			}
		}
	}
}
