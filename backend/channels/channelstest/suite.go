package channelstest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"helix/backend/channels"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

// Sender is who writes in the suite, in a conversation of its own.
const Sender = "42"

// Peer is the service that a channel connects to. Its limits are those of its adapter.
type Peer interface {
	// Add says how its channel is added.
	Add() channels.AddParams
	// Connect is called when the channel runs, and again after a restart.
	Connect(s *channels.Service, added channels.AddResult)
	// Say delivers a message of Sender and waits until it is confirmed. The same id is the same message.
	Say(t *testing.T, id int, text string)
	// SendFile delivers a message with a file.
	SendFile(t *testing.T, id int, name string, data []byte)
	// Refuse makes the next n messages of Helix fail for now.
	Refuse(n int)
	// Sent returns what Helix has sent: texts without format, and files.
	Sent() <-chan channels.Outgoing
}

// Rig is a service with one channel and its peer.
type Rig struct {
	*channels.Service
	Peer  Peer
	Agent *Agent
	Added channels.AddResult
	DB    *storage.DB
	Ctx   context.Context

	t    *testing.T
	o    channels.Options
	with func(*channels.Service)
	stop func()
}

// NewRig starts a service with a channel of a peer, in which Sender is allowed. with may change the service.
func NewRig(t *testing.T, p Peer, o channels.Options, with func(*channels.Service)) *Rig {
	t.Helper()
	db := storagetest.Open(t)
	r := &Rig{Peer: p, Agent: &Agent{}, DB: db, Ctx: storagetest.Ctx(t, db), t: t, o: o, with: with}
	r.o.Sessions, r.o.Files, r.o.Secrets = r.Agent, files{}, storage.NewSecrets(db)
	r.start()
	t.Cleanup(func() { r.stop() })
	var err error
	if r.Added, err = r.Service.Add(r.Ctx, p.Add()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Allow(r.Ctx, channels.AllowParams{ID: r.Added.Channel.ID, SenderID: Sender}); err != nil {
		t.Fatal(err)
	}
	p.Connect(r.Service, r.Added)
	r.WaitState(channels.Connected)
	return r
}

func (r *Rig) start() {
	r.Service = channels.New(r.DB, r.o)
	if r.with != nil {
		r.with(r.Service)
	}
	r.Agent.Notify(r.TurnEnded)
	ctx, cancel := context.WithCancel(r.Ctx)
	done := make(chan error, 1)
	service := r.Service
	go func() { done <- service.Run(ctx) }()
	r.stop = func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
		r.stop = func() {}
	}
}

// Restart ends the service and starts another with the same data.
func (r *Rig) Restart() {
	r.stop()
	r.start()
	r.Peer.Connect(r.Service, r.Added)
	r.WaitState(channels.Connected)
}

// Count returns the number that a query finds.
func (r *Rig) Count(query string) (n int) {
	r.t.Helper()
	if err := r.DB.Read(r.Ctx, func(tx *storage.Tx) error { return tx.QueryRow(query).Scan(&n) }); err != nil {
		r.t.Fatal(err)
	}
	return n
}

// Wait waits until a query finds a number.
func (r *Rig) Wait(query string, want int) {
	r.t.Helper()
	testkit.Eventually(r.t, query, func() int { return r.Count(query) }, func(n int) bool { return n == want })
}

// WaitState waits until the channel is in a state.
func (r *Rig) WaitState(state string) (c channels.Channel) {
	r.t.Helper()
	return testkit.Eventually(r.t, "the state "+state, func() channels.Channel {
		c, err := r.Get(r.Ctx, channels.IDParams{ID: r.Added.Channel.ID})
		if err != nil {
			r.t.Fatal(err)
		}
		return c
	}, func(c channels.Channel) bool { return c.State == state })
}

// Next returns the text of the next message that Helix sends.
func (r *Rig) Next() string {
	return (<-r.Peer.Sent()).Text
}

// Run checks that an adapter and the service around it lose, repeat and reorder nothing.
func Run(t *testing.T, limits channels.Limits, newRig func(t *testing.T) *Rig) {
	t.Run("a message is stored before it is confirmed", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.Agent.Hold(true)
		r.Peer.Say(t, 1, "Hello")
		if n := r.Count(`SELECT count(*) FROM channel_inbox`); n != 1 {
			t.Errorf("%d rows", n)
		}
	})
	t.Run("messages of a conversation are answered in order", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		var want, got []string
		for i := range 6 {
			r.Peer.Say(t, i+1, fmt.Sprint("message ", i))
			want = append(want, fmt.Sprint("Echo: message ", i))
		}
		for range want {
			got = append(got, r.Next())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	})
	t.Run("a message that is delivered again is handled once", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.Peer.Say(t, 1, "first")
		r.Peer.Say(t, 1, "first")
		r.Peer.Say(t, 2, "second")
		if a, b := r.Next(), r.Next(); a != "Echo: first" || b != "Echo: second" {
			t.Errorf("%q, %q", a, b)
		}
		if n := len(r.Agent.Inputs()); n != 2 {
			t.Errorf("%d inputs", n)
		}
	})
	t.Run("a restart continues the conversation", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.Agent.Hold(true)
		r.Peer.Say(t, 1, "before")
		r.Restart()
		r.Agent.Hold(false)
		if got := r.Next(); got != "Echo: before" {
			t.Errorf("%q", got)
		}
		r.Peer.Say(t, 2, "after")
		if got := r.Next(); got != "Echo: after" {
			t.Errorf("%q", got)
		}
		if in := r.Agent.Inputs(); len(in) != 2 || in[0].Session != in[1].Session {
			t.Errorf("%+v", in)
		}
	})
	t.Run("a message that can't be sent is sent later, before the next one", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.Peer.Refuse(1)
		r.Peer.Say(t, 1, "first")
		r.Wait(`SELECT count(*) FROM channel_outbox`, 1)
		r.Peer.Say(t, 2, "second")
		if a, b := r.Next(), r.Next(); a != "Echo: first" || b != "Echo: second" {
			t.Errorf("%q, %q", a, b)
		}
		r.Wait(`SELECT sum(attempts) FROM channel_outbox WHERE state = 'sent'`, 3)
	})
	t.Run("a long answer comes in parts", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		long := Paragraphs(limits.Text / 100 * 5 / 2)
		r.Agent.Answer = func(string) channels.Outcome { return channels.Outcome{Ended: true, Text: long} }
		r.Peer.Say(t, 1, "Tell me")
		var got []string
		for len(strings.Join(got, "\n\n")) < len(long) {
			part := r.Next()
			if limits.Unit(part) > limits.Text {
				t.Errorf("a part of %d units", limits.Unit(part))
			}
			got = append(got, part)
		}
		if strings.Join(got, "\n\n") != long {
			t.Errorf("%d parts that are not the answer", len(got))
		}
	})
	t.Run("files are kept by their content, and sound becomes text", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.Peer.SendFile(t, 1, `..\..\evil.exe`, []byte("\x89PNG\r\n\x1a\n…"))
		if got := r.Next(); got != "Echo: [evil.exe image/png]" {
			t.Errorf("%q", got)
		}
		r.Peer.SendFile(t, 2, "photo.png", []byte("OggS\x00…"))
		if got := r.Next(); got != "Echo: spoken" {
			t.Errorf("%q", got)
		}
		r.Peer.SendFile(t, 3, "notes.txt", []byte("MZ\x00\x01"))
		if got := r.Next(); got != "notes.txt can't be attached." {
			t.Errorf("%q", got)
		}
	})
	t.Run("an answer of more than ten parts is a file", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		long := Paragraphs(limits.Text / 100 * 11)
		r.Agent.Answer = func(string) channels.Outcome { return channels.Outcome{Ended: true, Text: long} }
		r.Peer.Say(t, 1, "Tell me")
		if m := <-r.Peer.Sent(); m.File == nil || string(m.File.Data) != long || m.Text == "" {
			t.Errorf("%.100q, %v", m.Text, m.File != nil)
		}
	})
	t.Run("a channel says that it is connected, and stops when it is disabled", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.Peer.Say(t, 1, "Hello")
		r.Next()
		if c := r.WaitState(channels.Connected); c.Error != "" || c.Since.IsZero() {
			t.Errorf("%+v", c)
		}
		if c, err := r.SetEnabled(r.Ctx, channels.EnabledParams{ID: r.Added.Channel.ID}); err != nil || c.State != channels.Disabled {
			t.Errorf("%+v, %v", c, err)
		}
	})
}
