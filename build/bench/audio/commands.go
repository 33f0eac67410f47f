package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"helix/backend/bus"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/voice"

	"helixbench/figures"
)

const commandCount = 1000

// commands measures how long it takes to find the command that was said among many.
func (b *bench) commands() {
	db, err := storage.Open(context.Background(), storage.Options{Path: filepath.Join(b.dir, "helix.db"), Keys: storage.NewKeys(storagetest.NewRoot())})
	check(err)
	defer db.Close() //nolint:errcheck // temporary
	s := voice.New(db, voice.Options{Bus: bus.New(), Dir: b.path("voice")})
	defer s.Close() //nolint:errcheck // temporary
	ctx := identity.With(context.Background(), identity.Identity{User: db.LocalUser().ID, Scopes: identity.Admin.Closed()})
	verbs := []string{"open", "show", "close", "remember", "start", "stop", "read", "find", "send", "tell"}
	things := []string{"garden", "kitchen", "letter", "budget", "report", "journal", "camera", "heating", "window", "project"}
	places := []string{"upstairs", "tomorrow", "for grandma", "in the office", "on friday", "at the station", "before lunch", "with the team", "in german", "once more"}
	for i := range commandCount {
		phrase := fmt.Sprintf("%s the %s %s", verbs[i/100], things[i/10%10], places[i%10])
		if i%4 == 0 {
			phrase += " {count:number}"
		}
		_, err := s.CreateCommand(ctx, voice.CreateCommandParams{Name: fmt.Sprint(i), TriggerPhrase: phrase, ActionType: "navigation", NavigationTarget: "chat"})
		check(err)
	}
	var took []time.Duration
	for i := range 200 {
		text := fmt.Sprintf("please %s the %s %s %d", verbs[i%10], things[i*7%10], places[i*3%10], i)
		start := time.Now()
		_, err := s.TestCommand(ctx, voice.TestCommandParams{Text: text})
		check(err)
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	figures.Print(fmt.Sprintf("match a text with %d commands, p50", commandCount), took[len(took)/2].Seconds()*1000, "ms", 0, "")
	figures.Print(fmt.Sprintf("match a text with %d commands, p95", commandCount), took[len(took)*95/100].Seconds()*1000, "ms", 0, "")
}
