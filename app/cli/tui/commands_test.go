package tui

import (
	"context"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/uuid"

	"helix/backend/agent"
)

// A command is never sent to the model and a text always is, unchanged; whatever is typed, the settings
// stay valid.
func FuzzCommand(f *testing.F) {
	for _, c := range commands() {
		f.Add(c.name + " " + c.args)
		f.Add(c.name)
	}
	for _, text := range []string{"", " ", "/", "//new", "/New", "/switch 1", "/switch 99", "/switch -1", "/switch 0x1", "/mode work", "/mode\u00a0work", "/attach -", "/attach \x00", "hello /new", "/new\nhello", "\x1b[2J", "/mode ask read"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) { // JSON has no other texts
			return
		}
		b := newBackend()
		before := Settings{SessionID: id(1), Mode: "ask", Listed: []agent.Session{{ID: id(2), Title: "Boat"}}}
		out, err := Do(context.Background(), b, before, id(3), text)
		verb, _, _ := strings.Cut(strings.TrimSpace(text), " ")
		switch {
		case isCommand(verb) && (out.Sent != nil || len(b.sent) > 0):
			t.Errorf("the command %q was sent", text)
		case !isCommand(verb) && (err != nil || len(b.sent) != 1 || b.sent[0].Text != text || b.sent[0].SessionID != id(1)):
			t.Errorf("%q was sent as %+v, %v", text, b.sent, err)
		}
		if !slices.Contains(modes(), out.Settings.Mode) || !slices.Contains([]uuid.UUID{uuid.Nil, id(1), id(2)}, out.Settings.SessionID) {
			t.Errorf("%q set %+v", text, out.Settings)
		}
		if out.Quit && verb != "/quit" && verb != "/exit" {
			t.Errorf("%q quits", text)
		}
	})
}
