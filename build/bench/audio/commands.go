package main

import (
	"context"
	"fmt"
	"path/filepath"

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
	const texts = 200
	used := cpu(func() {
		for i := range texts {
			_, err := s.TestCommand(ctx, voice.TestCommandParams{Text: fmt.Sprintf("please %s the %s %s %d", verbs[i%10], things[i*7%10], places[i*3%10], i)})
			check(err)
		}
	})
	figures.Print(fmt.Sprintf("match a text with %d commands, processor time", commandCount), used.Seconds()*1000/texts, "ms", 0, "")
}
