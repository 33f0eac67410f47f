package synthesis

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/memory"
	"helix/backend/storage"
)

var aboutPeople = []string{
	"I met Melanie at the station", "Mel called and told me about her trip", "I had dinner with Mel and we talked about school",
	"I asked Johnny about the car", "I talked to Bill about the house", "Bill said that he likes it", "Johnny told me a joke", "I saw Johnny in town", "Bill told me more",
	"My sister helped me with the boxes", "My sister called me about dinner", "I visited Anna in Hamburg", "Anna told me about her new job", "I met Melanie for lunch",
}

func (f *fixture) people(t *testing.T) map[string]Person {
	t.Helper()
	r, err := f.People(f.ctx, PeopleParams{})
	if err != nil || int(r.Total) != len(r.People) {
		t.Fatal(r, err)
	}
	out := map[string]Person{}
	for _, p := range r.People {
		out[p.Name] = p
	}
	return out
}

func TestNamesThatMeanTheSamePersonAreOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.remember(t, 7*time.Hour, aboutPeople...)
	p := f.people(t)
	mel := p["Melanie"]
	if mel.Mentions != 4 || !slices.Equal(mel.Aliases, []string{"Mel"}) || !mel.FirstSeen.Equal(monday) || !mel.LastSeen.Equal(monday.Add(13*7*time.Hour)) || mel.Corrected || p["Anna"].Mentions != 2 || p["your sister"].Mentions != 2 {
		t.Errorf("%+v", p)
	}
	page, err := f.People(f.ctx, PeopleParams{Query: "mel", Limit: 1})
	if err != nil || page.Total != 1 || page.People[0].ID != mel.ID {
		t.Error(page, err)
	}
	if theirs, err := f.People(f.them, PeopleParams{}); err != nil || theirs.Total != 0 {
		t.Error(theirs, err)
	}
}

func TestMergedPeopleStayMerged(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.remember(t, 17*time.Hour, aboutPeople...)
	all := SynthesizeParams{SynthesisType: Relational, Confidence: ptr(0.0)}
	f.run(t, all)
	p := f.people(t)
	m, err := f.MergePeople(f.ctx, MergePeopleParams{Names: []string{"johnny", "Bill"}, Name: "John"})
	if err != nil || m.Person.Name != "John" || m.Person.Mentions != 6 || !slices.Equal(m.Person.Aliases, []string{"Bill", "Johnny"}) || !m.Person.Corrected {
		t.Fatalf("%+v %v", m, err)
	}
	sister, err := f.MergePeople(f.ctx, MergePeopleParams{Names: []string{"Anna", "your sister"}})
	if err != nil || sister.Person.ID != p["Anna"].ID || sister.Person.Relationship != "sister" || sister.Person.Mentions != 4 {
		t.Fatalf("%+v %v", sister, err)
	}
	// Merge all of them: earlier merges are included.
	if m, err = f.MergePeople(f.ctx, MergePeopleParams{Names: []string{"Bill", "Melanie"}}); err != nil || m.Person.Name != "John" || m.Person.Mentions != 10 {
		t.Fatalf("%+v %v", m, err)
	}
	for range 2 {
		r := f.run(t, all)
		found := ofType(r.Analysis.Patterns, "relationship")
		if len(found) != 1 || found[0].Subjects[0] != "John" || len(found[0].Evidence) != 10 {
			t.Fatalf("%+v", found)
		}
	}
	list := f.people(t)
	if len(list) != 2 || list["John"].ID != m.Person.ID {
		t.Errorf("%+v", list)
	}
	if _, err := f.Undo(f.them, memory.UndoParams{UndoToken: m.UndoToken}); !fault.Is(err, fault.NotFound) {
		t.Error("undone by somebody else:", err)
	}
	if n, err := f.Undo(f.ctx, memory.UndoParams{UndoToken: m.UndoToken}); err != nil || n.Count != 5 {
		t.Fatal(n, err)
	}
	if list = f.people(t); list["John"].Mentions != 6 || list["Melanie"].Mentions != 4 || list["Melanie"].Corrected {
		t.Errorf("%+v", list)
	}
	if _, err := f.Undo(f.ctx, memory.UndoParams{UndoToken: m.UndoToken}); !fault.Is(err, fault.NotFound) {
		t.Error("undone twice:", err)
	}
	if _, err := f.Undo(f.ctx, memory.UndoParams{UndoToken: sister.UndoToken}); err != nil || f.people(t)["your sister"].Mentions != 2 {
		t.Error(err, f.people(t))
	}
}

func TestSplitPersonStaysSplit(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.remember(t, 17*time.Hour, aboutPeople...)
	s, err := f.SplitPerson(f.ctx, SplitPersonParams{Name: "Melanie", Aliases: []string{"mel"}})
	if err != nil || s.Person.Name != "Melanie" || s.Person.Mentions != 2 || s.Split.Name != "Mel" || s.Split.Mentions != 2 {
		t.Fatalf("%+v %v", s, err)
	}
	f.run(t, SynthesizeParams{})
	if p := f.people(t); p["Mel"].ID != s.Split.ID || p["Melanie"].Mentions != 2 {
		t.Errorf("%+v", p)
	}
	if _, err := f.Undo(f.ctx, memory.UndoParams{UndoToken: s.UndoToken}); err != nil || f.people(t)["Melanie"].Mentions != 4 {
		t.Error(err, f.people(t))
	}
	// The other way round: the name is split off, the alias remains.
	if s, err = f.SplitPerson(f.ctx, SplitPersonParams{Name: "Mel", Aliases: []string{"Melanie"}}); err != nil || s.Person.Name != "Mel" || s.Split.Name != "Melanie" {
		t.Fatalf("%+v %v", s, err)
	}
	if m, err := f.MergePeople(f.ctx, MergePeopleParams{Names: []string{"Mel", "Melanie"}}); err != nil || m.Person.Name != "Mel" || m.Person.Mentions != 4 {
		t.Errorf("%+v %v", m, err)
	}
}

func TestBadCorrectionsOfPeople(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.remember(t, 7*time.Hour, aboutPeople...)
	for name, c := range map[string]struct {
		err  error
		kind fault.Kind
	}{
		"one":           {second(f.MergePeople(f.ctx, MergePeopleParams{Names: []string{"Mel", "Melanie"}})), fault.Invalid},
		"unknown":       {second(f.MergePeople(f.ctx, MergePeopleParams{Names: []string{"Mel", "Gandalf"}})), fault.NotFound},
		"unknown id":    {second(f.MergePeople(f.ctx, MergePeopleParams{IDs: []uuid.UUID{f.people(t)["Anna"].ID, storage.NewID()}})), fault.NotFound},
		"of theirs":     {second(f.MergePeople(f.them, MergePeopleParams{Names: []string{"Mel", "Bill"}})), fault.NotFound},
		"taken":         {second(f.MergePeople(f.ctx, MergePeopleParams{Names: []string{"Mel", "Bill"}, Name: "anna"})), fault.Conflict},
		"long":          {second(f.MergePeople(f.ctx, MergePeopleParams{Names: []string{"Mel", "Bill"}, Name: strings.Repeat("x", 101)})), fault.Invalid},
		"all aliases":   {second(f.SplitPerson(f.ctx, SplitPersonParams{Name: "Mel", Aliases: []string{"Mel", "Melanie"}})), fault.Invalid},
		"no aliases":    {second(f.SplitPerson(f.ctx, SplitPersonParams{Name: "Mel"})), fault.Invalid},
		"not an alias":  {second(f.SplitPerson(f.ctx, SplitPersonParams{Name: "Mel", Aliases: []string{"Bill"}})), fault.NotFound},
		"unknown split": {second(f.SplitPerson(f.ctx, SplitPersonParams{Name: "Gandalf", Aliases: []string{"Bill"}})), fault.NotFound},
		"page":          {second(f.People(f.ctx, PeopleParams{Limit: 501})), fault.Invalid},
	} {
		if !fault.Is(c.err, c.kind) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	if n := f.rows(t, "person_aliases"); n != 0 {
		t.Errorf("%d aliases were stored", n)
	}
}

// Two devices correct the same names independently; both rows are merged.
func TestCorrectionsOfTwoDevicesMeet(t *testing.T) {
	t.Parallel()
	a, b := newFixture(t, Options{}), newFixture(t, Options{})
	rows := map[*fixture]string{}
	for f, name := range map[*fixture]string{a: "Melanie", b: "Bill"} {
		f.remember(t, 7*time.Hour, aboutPeople...)
		if _, err := f.MergePeople(f.ctx, MergePeopleParams{Names: []string{"Melanie", "Bill"}, Name: name}); err != nil {
			t.Fatal(err)
		}
		if err := f.db.Read(f.ctx, func(tx *storage.Tx) error {
			var list string
			err := tx.QueryRow(`SELECT group_concat(hex(id) || alias, ' ' ORDER BY id) FROM person_aliases`).Scan(&list)
			rows[f] = list
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if rows[a] != rows[b] {
		t.Errorf("two devices made other rows:\n%s\n%s", rows[a], rows[b])
	}
	// After a merge by field, names may form a cycle, which resolves to the same person from every name.
	for _, list := range [][]Alias{
		{{"Mel", "Melanie"}, {"Melanie", "Bill"}, {"Bill", "Bill"}},
		{{"Mel", "Melanie"}, {"Melanie", "Bill"}, {"Bill", "Melanie"}},
		{{"Mel", "Bill"}, {"Melanie", "Mel"}, {"Bill", "Melanie"}},
	} {
		n := namesOf(list)
		for _, name := range []string{"Mel", "Melanie"} {
			if got := n.person(name); got != "Bill" {
				t.Errorf("%v: %s is %s", list, name, got)
			}
		}
	}
}

// A short form that first occurs later refers to the same person as the long form.
func TestLaterShortFormsFollowTheMerge(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.remember(t, 7*time.Hour, "I met Melanie at the station", "I met Melanie for lunch", "I talked to Bill about the house", "Bill said that he likes it")
	if _, err := f.MergePeople(f.ctx, MergePeopleParams{Names: []string{"Bill", "Melanie"}}); err != nil {
		t.Fatal(err)
	}
	f.remember(t, 9*time.Hour, "Mel called and told me about her trip", "I had dinner with Mel and we talked about school")
	if p := f.people(t); len(p) != 1 || p["Bill"].Mentions != 6 || !slices.Equal(p["Bill"].Aliases, []string{"Mel", "Melanie"}) {
		t.Errorf("%+v", p)
	}
}

func TestDismissedNamesAreNoPeopleInLaterRuns(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.remember(t, 7*time.Hour, aboutPeople...)
	all := SynthesizeParams{SynthesisType: Relational, Confidence: ptr(0.0)}
	f.run(t, all)
	d, err := f.DismissPeople(f.ctx, DismissPeopleParams{Names: []string{"bill", "Mel", "your sister"}})
	if err != nil || !slices.Equal(d.Names, []string{"Bill", "Melanie", "Mel", "your sister"}) {
		t.Fatalf("%+v %v", d, err)
	}
	f.remember(t, 9*time.Hour, "Bill told me that he moved", "Mel called me at noon", "My sister called me at night")
	f.run(t, all)
	page, err := f.People(f.ctx, PeopleParams{})
	if err != nil || len(page.People) != 2 || !slices.Equal(page.Dismissed, []string{"Bill", "Mel", "Melanie", "your sister"}) {
		t.Errorf("%+v %v", page, err)
	}
	active, err := f.Patterns(f.ctx, PatternsParams{Status: "active", PatternType: "relationship"})
	if err != nil || slices.ContainsFunc(active.Patterns, func(p Pattern) bool { return p.Subjects[0] == "Bill" && p.LastObserved.After(p.FirstDetected) }) {
		t.Errorf("%+v %v", active, err)
	}
	for _, p := range active.Patterns {
		if p.FirstEvidence.IsZero() || p.LastEvidence.Before(p.FirstEvidence) || len(p.Evidence) > 1 && !p.LastEvidence.After(p.FirstEvidence) {
			t.Errorf("the evidence of %s is from %v to %v", p.Description, p.FirstEvidence, p.LastEvidence)
		}
	}
	// A dismissed name is an ordinary word that can name a topic.
	a := newAnalysis(t.Context(), Input{Names: []Alias{{"Nikon", ""}}, Texts: []Text{{Body: "Nikon told me"}, {Body: "I met Nikon"}}})
	if a.isPerson("nikon") || len(a.people()) != 0 {
		t.Error("Nikon is a person")
	}
	back, err := f.DismissPeople(f.ctx, DismissPeopleParams{Names: []string{"BILL"}, Restore: true})
	if err != nil || f.people(t)["Bill"].Mentions != 4 {
		t.Fatalf("%+v %v", back, err)
	}
	if _, err := f.Undo(f.ctx, memory.UndoParams{UndoToken: back.UndoToken}); err != nil || f.people(t)["Bill"].Mentions != 0 {
		t.Error("the restore is not undone:", err)
	}
	for name, c := range map[string]struct {
		err  error
		kind fault.Kind
	}{
		"none":           {second(f.DismissPeople(f.ctx, DismissPeopleParams{})), fault.Invalid},
		"unknown":        {second(f.DismissPeople(f.ctx, DismissPeopleParams{Names: []string{"Gandalf"}})), fault.NotFound},
		"not dismissed":  {second(f.DismissPeople(f.ctx, DismissPeopleParams{Names: []string{"Anna"}, Restore: true})), fault.NotFound},
		"theirs":         {second(f.DismissPeople(f.them, DismissPeopleParams{Names: []string{"Anna"}})), fault.NotFound},
		"same name":      {second(f.RenamePerson(f.ctx, RenamePersonParams{Name: "Anna", To: "Anna"})), fault.Invalid},
		"no name":        {second(f.RenamePerson(f.ctx, RenamePersonParams{Name: "Anna", To: " "})), fault.Invalid},
		"name of others": {second(f.RenamePerson(f.ctx, RenamePersonParams{Name: "Anna", To: "johnny"})), fault.Conflict},
	} {
		if !fault.Is(c.err, c.kind) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
}

func TestWriterStaysWriterAfterTheirNameIsDismissed(t *testing.T) {
	t.Parallel()
	a := newAnalysis(t.Context(), Input{Names: []Alias{{"Dora", ""}}, Texts: []Text{{Speaker: "Dora", Body: "I met Karl"}}})
	if got := a.in.Texts[0].Speaker; got != "Dora" {
		t.Errorf("the text of Dora is of %q", got)
	}
}

func TestRenamedPersonKeepsTheOldNameAsAlias(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.remember(t, 7*time.Hour, aboutPeople...)
	r, err := f.RenamePerson(f.ctx, RenamePersonParams{Name: "mel", To: "Melanie Weber"})
	if err != nil || r.Person.Mentions != 4 || !slices.Equal(r.Person.Aliases, []string{"Mel", "Melanie"}) {
		t.Fatalf("%+v %v", r, err)
	}
	f.remember(t, 9*time.Hour, "I met Mel at the market")
	if p := f.people(t)["Melanie Weber"]; p.Mentions != 5 || !p.Corrected {
		t.Errorf("%+v", p)
	}
	if _, err := f.Undo(f.ctx, memory.UndoParams{UndoToken: r.UndoToken}); err != nil || f.people(t)["Melanie"].Mentions != 5 {
		t.Error(err, f.people(t))
	}
}
