package synthesis

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
)

// dialogue is a conversation with hand-made labels.
type dialogue struct {
	ID    string
	Turns []struct {
		Speaker, Text string
		At            time.Time
	}
	People    []struct{ Name, Relation, Of string }
	Relations []struct {
		Turn         int
		Kind, Person string
	}
	Prospective []struct {
		Turn         int
		Kind, Phrase string
	}
}

// tally counts correct, wrong and missed findings.
type tally struct{ right, wrong, missed int }

func (c tally) precision() float64 { return float64(c.right) / float64(c.right+c.wrong) }
func (c tally) recall() float64    { return float64(c.right) / float64(c.right+c.missed) }

// Compares the detectors with hand-labeled dialogues: precision is at least 0.8 and recall at least 0.6.
func TestLabelledDialogues(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"dialogues", "dialogues_held_out"} { // the second were written independently of the rules
		t.Run(name, func(t *testing.T) { labelled(t, "testdata/"+name+".json") })
	}
}

func labelled(t *testing.T, file string) {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list []dialogue
	if err := json.Unmarshal(b, &list); err != nil {
		t.Fatal(err)
	}
	var people, relations, plans tally
	for _, d := range list {
		var texts []Text
		for _, x := range d.Turns {
			texts = append(texts, Text{ID: d.ID, Kind: "turn", Parent: d.ID, Speaker: x.Speaker, Body: x.Text, At: x.At})
		}
		a := &analysis{in: Input{Texts: texts, Zone: time.UTC}, texts: make([]scored, len(texts))}
		tallyUp(t, d.ID, "person", &people, d.people(), a.foundPeople())
		tallyUp(t, d.ID, "relation", &relations, d.relations(), a.foundRelations())
		d.plans(t, &plans, texts)
	}
	for name, c := range map[string]tally{"people": people, "support and conflict": relations, "prospective": plans} {
		t.Logf("%s: precision %.2f, recall %.2f, %+v", name, c.precision(), c.recall(), c)
		if c.precision() < 0.8 || c.recall() < 0.6 {
			t.Errorf("%s: precision %.2f, recall %.2f", name, c.precision(), c.recall())
		}
	}
}

func tallyUp(t *testing.T, id, what string, c *tally, want, got map[string]bool) {
	t.Helper()
	for k := range want {
		if got[k] {
			c.right++
		} else {
			c.missed++
			t.Logf("%s: %s %s is missed", id, what, k)
		}
	}
	for k := range got {
		if !want[k] {
			c.wrong++
			t.Logf("%s: %s %s is wrong", id, what, k)
		}
	}
}

// people returns the labeled people by the names that the detector uses.
func (d dialogue) people() map[string]bool {
	out := map[string]bool{}
	for _, p := range d.People {
		name := p.Name
		if name == "" {
			relation := p.Relation
			if k := kin[relation]; k != "" {
				relation = k
			}
			name = "your " + relation
			if p.Of != "" {
				name = p.Of + "'s " + relation
			}
		}
		out[strings.ToLower(name)] = true
	}
	return out
}

// foundPeople returns the people whom the texts are about, without those who only speak.
func (a *analysis) foundPeople() map[string]bool {
	speakers := map[string]bool{}
	for _, t := range a.in.Texts {
		speakers[strings.ToLower(t.Speaker)] = true
	}
	out := map[string]bool{}
	for _, p := range a.people() {
		if len(p.mentions) > 0 && !speakers[p.key] {
			out[p.key] = true
		}
	}
	return out
}

func (d dialogue) relations() map[string]bool {
	out := map[string]bool{}
	for _, r := range d.Relations {
		out[r.Kind+" "+string(rune('0'+r.Turn))] = true
	}
	return out
}

func (a *analysis) foundRelations() map[string]bool {
	out := map[string]bool{}
	for _, p := range a.people() {
		for i, lines := range p.lines {
			for _, l := range lines {
				if cued(supportCue(), l.text) {
					out["support "+string(rune('0'+i+1))] = true
				}
				if cued(conflictCue(), l.text) {
					out["conflict "+string(rune('0'+i+1))] = true
				}
			}
		}
	}
	return out
}

// plans compares statements about the future: the same turn, kind, and object.
func (d dialogue) plans(t *testing.T, c *tally, texts []Text) {
	t.Helper()
	used := map[int]bool{}
	for i, x := range texts {
		for _, s := range sentences(x.Body) {
			st, ok := readStatement(s)
			if !ok {
				continue
			}
			found := false
			for k, p := range d.Prospective {
				if !used[k] && p.Turn == i+1 && p.Kind == st.typ && overlap(contentStems(p.Phrase), contentStems(st.object)) > 0 {
					used[k], found = true, true
					break
				}
			}
			if found {
				c.right++
			} else {
				c.wrong++
				t.Logf("%s: %s %q of %q is wrong", d.ID, st.typ, st.object, s.text)
			}
		}
	}
	for k, p := range d.Prospective {
		if !used[k] {
			c.missed++
			t.Logf("%s: %s %q is missed in %q", d.ID, p.Kind, p.Phrase, texts[p.Turn-1].Body)
		}
	}
}
