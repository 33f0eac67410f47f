package channelstest

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"github.com/google/uuid"

	"helix/backend/channels"
	"helix/backend/fault"
)

// Agent answers each message with "Echo: " and its text, unless Answer is set.
type Agent struct {
	Answer func(text string) channels.Outcome // nil: an echo

	mu     sync.Mutex
	hold   bool
	full   bool
	ended  func(uuid.UUID)
	inputs []Input
	turns  map[uuid.UUID]string
}

// Input is what an Agent was asked, once for each turn.
type Input struct {
	Session uuid.UUID
	channels.Input
}

// Notify sets the function that is called when turns end.
func (a *Agent) Notify(ended func(uuid.UUID)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = ended
}

// Hold makes turns wait until Hold(false).
func (a *Agent) Hold(on bool) {
	a.mu.Lock()
	a.hold = on
	ended := a.ended
	a.mu.Unlock()
	if !on && ended != nil {
		ended(uuid.Nil)
	}
}

// Full makes Agent take no more messages, until Full(false).
func (a *Agent) Full(on bool) {
	a.mu.Lock()
	a.full = on
	ended := a.ended
	a.mu.Unlock()
	if !on && ended != nil {
		ended(uuid.Nil)
	}
}

// Inputs returns what was asked so far.
func (a *Agent) Inputs() []Input {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Input{}, a.inputs...)
}

// Ready implements channels.Sessions.
func (a *Agent) Ready(context.Context) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.full { // also before a message is bound to a session
		return false, fault.Limitf("The queue is full.")
	}
	return true, nil
}

// Ensure implements channels.Sessions.
func (a *Agent) Ensure(context.Context, uuid.UUID, string) error { return nil }

// Submit implements channels.Sessions.
func (a *Agent) Submit(_ context.Context, session uuid.UUID, in channels.Input) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.full {
		return fault.Limitf("The queue is full.")
	}
	if a.turns == nil {
		a.turns = map[uuid.UUID]string{}
	}
	if _, ok := a.turns[in.Turn]; !ok {
		for _, f := range in.Files {
			in.Text += "[" + f.Name + " " + f.Blob + "]"
		}
		a.turns[in.Turn] = in.Text
		a.inputs = append(a.inputs, Input{session, in})
	}
	return nil
}

// Outcome implements channels.Sessions.
func (a *Agent) Outcome(_ context.Context, turn uuid.UUID) (channels.Outcome, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	text, ok := a.turns[turn]
	switch {
	case !ok:
		return channels.Outcome{}, fault.NotFoundf("Turn not found.")
	case a.hold:
		return channels.Outcome{}, nil
	case a.Answer != nil:
		return a.Answer(text), nil
	}
	return channels.Outcome{Ended: true, Text: "Echo: " + text}, nil
}

// Cancel implements channels.Sessions.
func (a *Agent) Cancel(context.Context, uuid.UUID) error { return nil }

// Paragraphs returns a text of n paragraphs of 100 characters.
func Paragraphs(n int) string {
	return strings.TrimSpace(strings.Repeat(strings.Repeat("word ", 19)+"end.\n\n", n))
}

// files takes PNG images, which it calls by their type, and hears one word in every recording.
type files struct{}

func (files) Attach(_ context.Context, name string, data []byte) (string, error) {
	if kind := http.DetectContentType(data); kind == "image/png" {
		return kind, nil
	}
	return "", fault.Invalidf("%s can't be attached.", name)
}

func (files) Record(context.Context, string, []byte) (uuid.UUID, error) { return uuid.New(), nil }

func (files) Transcript(context.Context, uuid.UUID) (string, bool, error) { return "spoken", true, nil }
