package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"helix/backend/bus"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/voice"

	"helixbench/figures"
)

const (
	commandCount = 1000
	exactly      = " exactly"
)

// voice opens a database in a folder of its own.
func (b *bench) voice(name string, o voice.Options) (db *storage.DB, s *voice.Service, ctx context.Context, done func()) {
	dir := b.path(name)
	figures.Check(os.MkdirAll(dir, 0o700))
	db, err := storage.Open(context.Background(), storage.Options{Path: filepath.Join(dir, "helix.db"), Keys: storage.NewKeys(storagetest.NewRoot())})
	figures.Check(err)
	o.Dir = filepath.Join(dir, "voice")
	if o.Bus == nil {
		o.Bus = bus.New()
	}
	s = voice.New(db, o)
	ctx = identity.With(context.Background(), identity.Identity{User: db.LocalUser().ID, Scopes: identity.Admin.Closed()})
	return db, s, ctx, func() {
		figures.Check(s.Close())
		figures.Check(db.Close())
	}
}

// commands measures how long it takes to find the command that was said among many.
func (b *bench) commands() {
	_, s, ctx, done := b.voice("commands", voice.Options{})
	defer done()
	verbs := []string{"open", "show", "close", "remember", "start", "stop", "read", "find", "send", "tell"}
	things := []string{"garden", "kitchen", "letter", "budget", "report", "journal", "camera", "heating", "window", "project"}
	places := []string{"upstairs", "tomorrow", "for grandma", "in the office", "on friday", "at the station", "before lunch", "with the team", "in german", "once more"}
	for i := range commandCount {
		phrase := fmt.Sprintf("%s the %s %s", verbs[i/100], things[i/10%10], places[i%10])
		if i%4 == 0 {
			phrase += " {count:number}"
		}
		_, err := s.CreateCommand(ctx, voice.CreateCommandParams{Name: fmt.Sprint(i), TriggerPhrase: phrase, ActionType: "navigation", NavigationTarget: "chat"})
		figures.Check(err)
	}
	const texts = 200
	used := cpu(func() {
		for i := range texts {
			_, err := s.TestCommand(ctx, voice.TestCommandParams{Text: fmt.Sprintf("please %s the %s %s %d", verbs[i%10], things[i*7%10], places[i*3%10], i)})
			figures.Check(err)
		}
	})
	figures.Print(fmt.Sprintf("match a text with %d commands, processor time", commandCount), used.Seconds()*1000/texts, "ms", 0, "")
}

// corpus counts which commands are recognized, and which other texts are taken for one.
func (b *bench) corpus() {
	text, err := os.ReadFile("../../backend/voice/testdata/phrases.json")
	figures.Check(err)
	var p struct {
		Commands []struct {
			Phrase string
			Said   []string
		}
		NearMisses, Sentences []string
	}
	figures.Check(json.Unmarshal(text, &p))
	_, s, ctx, done := b.voice("corpus", voice.Options{})
	defer done()
	for _, c := range p.Commands {
		_, err := s.CreateCommand(ctx, voice.CreateCommandParams{Name: c.Phrase, TriggerPhrase: c.Phrase, ActionType: "navigation", NavigationTarget: "chat"})
		figures.Check(err)
	}
	run := func(text string) string {
		r, err := s.TestCommand(ctx, voice.TestCommandParams{Text: text})
		figures.Check(err)
		if r.Decision == "none" {
			return ""
		}
		if text = r.Best.Name; r.Best.Score == 1 {
			text += exactly
		}
		return text
	}
	var right, said, wrong int
	for _, c := range p.Commands {
		for _, text := range c.Said {
			said++
			if strings.TrimSuffix(run(text), exactly) == c.Phrase {
				right++
			}
		}
	}
	others := slices.Concat(p.NearMisses, p.Sentences)
	vocabulary := strings.Fields(strings.Join(p.Sentences, " "))
	for _, c := range p.Commands {
		vocabulary = append(vocabulary, strings.Fields(regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(c.Phrase, ""))...)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		var w []string
		for range 1 + r.IntN(9) {
			w = append(w, vocabulary[r.IntN(len(vocabulary))])
		}
		others = append(others, strings.Join(w, " "))
	}
	for _, text := range others {
		if name := run(text); name != "" && !strings.HasSuffix(name, exactly) { // a random text may be a command
			wrong++
		}
	}
	figures.Print(fmt.Sprintf("commands that are recognized, of %d texts", said), 100*float64(right)/float64(said), "%", 0, "")
	figures.Print(fmt.Sprintf("other texts that are taken for a command, of %d", len(others)), 100*float64(wrong)/float64(len(others)), "%", 0, "")
}
