package synthesis

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"helix/backend/memory"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

// reopened returns a fixture on the database in dir, with private storage or without.
func reopened(t *testing.T, dir string, root storage.Root, private bool) (f *fixture, shut func()) {
	t.Helper()
	db := storagetest.OpenAt(t, filepath.Join(dir, "helix.db"), root)
	mem := memory.New(db, memory.Options{Private: private})
	f = &fixture{New(db, mem, Options{Private: private}), db, mem, storagetest.Ctx(t, db), nil}
	return f, func() {
		for _, c := range []func() error{f.Service.Close, mem.Close, db.Close} {
			if err := c(); err != nil {
				t.Error(err)
			}
		}
	}
}

// filesWith returns the files of the database in dir that contain a word.
func filesWith(t *testing.T, dir, word string) (found []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "helix.db*"))
	if err != nil || len(files) == 0 {
		t.Fatal("no database:", err)
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(bytes.ToLower(b), []byte(word)) {
			found = append(found, filepath.Base(path))
		}
	}
	return found
}

// secret is contained in all texts of leaveTexts.
const secret = "quetzalcoatlus"

// leaveTexts makes synthesis store the secret everywhere it stores texts, and returns the pattern
// with a note and the job of a dry run.
func (f *fixture) leaveTexts(t *testing.T) (Pattern, SynthesizeResult) {
	t.Helper()
	word := strings.ToUpper(secret[:1]) + secret[1:]
	f.remember(t, 5*time.Hour, "I plan to visit the "+word+" museum in Hamburg", "My sister called me today and "+word+" too", word+" said that we should go to the sea",
		"I had a fight with "+word+" about money", word+" helped me with the boxes", "I argued with "+word+" over dinner", "I was angry with "+word+" again", "I trust "+word+" with my keys")
	f.run(t, SynthesizeParams{Confidence: ptr(0.0)})
	f.run(t, SynthesizeParams{Conversations: []Conversation{
		{"c1", "I want to learn the " + word + " song next year", monday}, {"c2", "We went to the lake", monday.Add(time.Hour)}, {"c3", "It rained", monday.Add(2 * time.Hour)},
	}, Confidence: ptr(0.0)})
	dry := f.run(t, SynthesizeParams{DryRun: true, Confidence: ptr(0.0), HideNames: []string{word}})
	list, err := f.Patterns(f.ctx, PatternsParams{Query: word + " VISIT"})
	if err != nil || list.Total != 1 {
		t.Fatal(list, err)
	}
	p := list.Patterns[0]
	for _, note := range []string{"the " + word + " of a first note", "the " + word + " of a second note"} {
		if _, err := f.Feedback(f.ctx, FeedbackParams{ID: p.ID, Verdict: "confirm", Note: ptr(note)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{word, "Mr " + word} { // the second name replaces the first
		if _, err := f.MergePeople(f.ctx, MergePeopleParams{Names: []string{word, "your sister"}, Name: name}); err != nil {
			t.Fatal(err)
		}
		if name == word {
			if _, err := f.SplitPerson(f.ctx, SplitPersonParams{Name: word, Aliases: []string{"your sister"}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return p, dry
}

// checkTexts reads everything that leaveTexts has stored.
func (f *fixture) checkTexts(t *testing.T, was Pattern, dry SynthesizeResult) {
	t.Helper()
	p, err := f.Pattern(f.ctx, PatternParams{was.ID})
	if err != nil || p.Description != was.Description || p.UserNotes != "the Quetzalcoatlus of a second note" || !strings.Contains(strings.ToLower(p.EvidenceDetail[0].Quote), secret) {
		t.Errorf("%+v %v", p, err)
	}
	if list, err := f.Patterns(f.ctx, PatternsParams{Query: secret}); err != nil || list.Total < 3 || len(ofType(list.Patterns, "conflict")) != 1 {
		t.Errorf("%d patterns, %v", list.Total, err)
	}
	if j, err := f.Status(f.ctx, JobParams{dry.JobID}); err != nil || len(j.Insights.Found) != len(dry.Analysis.Patterns) || len(j.Insights.Found) == 0 {
		t.Errorf("%+v %v", j, err)
	}
	if r, err := f.People(f.ctx, PeopleParams{Query: secret}); err != nil || r.Total != 1 || len(r.People[0].Aliases) != 2 || r.People[0].Name != "Mr Quetzalcoatlus" {
		t.Errorf("%+v %v", r, err)
	}
	if r, err := f.Recommendations(f.ctx, RecommendationsParams{}); err != nil || r.Total == 0 || r.Recommendations[0].Recommendation == "" {
		t.Errorf("%+v %v", r, err)
	}
}

func TestPrivatePatternsAreSealed(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	dir, root := t.TempDir(), storagetest.NewRoot()
	storagetest.Blank(t, filepath.Join(dir, "helix.db"))
	f, shut := reopened(t, dir, root, true)
	p, dry := f.leaveTexts(t)
	if found := filesWith(t, dir, secret); len(found) > 0 {
		t.Errorf("the word is in %v", found)
	}
	f.checkTexts(t, p, dry)
	f.run(t, SynthesizeParams{Confidence: ptr(0.0)}) // with the corrected names
	before := f.rows(t, "synthesis_recommendations")
	f.run(t, SynthesizeParams{Confidence: ptr(0.0)})
	if n := f.rows(t, "synthesis_recommendations"); n != before {
		t.Errorf("a rerun made %d recommendations of %d", n, before)
	}
	no, err := f.Feedback(f.ctx, FeedbackParams{ID: p.ID, Verdict: "reject"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Undo(f.ctx, memory.UndoParams{UndoToken: no.UndoToken}); err != nil {
		t.Error(err)
	}
	if _, err := f.db.Keys().Rotate(f.ctx, struct{}{}); err != nil {
		t.Fatal(err)
	}
	f.checkTexts(t, p, dry)
	shut()
	if found := filesWith(t, dir, secret); len(found) > 0 {
		t.Errorf("after the end the word is in %v", found)
	}
}

// Private storage is enabled for existing patterns, and disabled again.
func TestPrivateStorageOfPatternsIsSwitched(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	dir, root := t.TempDir(), storagetest.NewRoot()
	storagetest.Blank(t, filepath.Join(dir, "helix.db"))
	f, shut := reopened(t, dir, root, false)
	p, dry := f.leaveTexts(t)
	if found := filesWith(t, dir, secret); len(found) == 0 {
		t.Error("the word is nowhere before")
	}
	shut()
	for _, private := range []bool{true, false} {
		f, shut := reopened(t, dir, root, private)
		f.checkTexts(t, p, dry) // before the conversion
		ctx, stop := context.WithCancel(f.ctx)
		var wg sync.WaitGroup
		wg.Go(func() { _ = f.mem.Run(ctx) })
		tick := time.NewTicker(10 * time.Millisecond)
		for done := false; !done; <-tick.C {
			if err := f.db.Read(f.ctx, func(tx *storage.Tx) error {
				return tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM meta WHERE key = 'memory.private' AND value = iif(?, 'true', 'false'))`, private).Scan(&done)
			}); err != nil {
				t.Fatal(err)
			}
		}
		tick.Stop()
		stop()
		wg.Wait()
		if found := filesWith(t, dir, secret); private != (len(found) == 0) {
			t.Errorf("private %v: the word is in %v", private, found)
		}
		f.checkTexts(t, p, dry)
		shut()
	}
}
