package tui

import (
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os/signal"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/gateway"
)

const (
	connectLimit = 2 * time.Minute // it may include opening the data folder on a slow computer
	firstWait    = 250 * time.Millisecond
	longestWait  = 5 * time.Second
)

// Options configure the interface. All are required.
type Options struct {
	Conn     Conn // the first one; Run closes it
	Dial     func(ctx context.Context) (Conn, error)
	Settings Settings
	Now      func() time.Time
	NewID    func() uuid.UUID
	In       io.Reader
	Out      io.Writer
	Env      []string
}

// Run shows the interface until the user leaves, and returns the last settings and whether a turn
// of that chat is running. The terminal is restored even after a panic, and when ctx or a hang-up
// ends Run.
func Run(ctx context.Context, o Options) (set Settings, active bool, err error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	m := newModel(o)
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(o.Env), tea.WithoutSignalHandler())
	linked, unlink := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			if r := recover(); r != nil {
				p.Kill()
				panic(r)
			}
		}()
		connect(linked, o, p.Send)
	}()
	_, err = p.Run()
	unlink()
	<-ended
	switch {
	case errors.Is(err, tea.ErrProgramPanic):
		err = fault.Internalf(err, "The interface ended with an error. The chat is kept: helix chat --plain shows it line by line.")
	case ctx.Err() != nil:
		err = nil
	}
	return m.set, m.chat.Turn != nil, err
}

// connect keeps the interface connected until ctx ends, and passes on events.
func connect(ctx context.Context, o Options, send func(tea.Msg)) {
	conn := o.Conn
	for {
		send(connectedMsg{conn})
		follow(ctx, conn, send)
		_ = conn.Close() // it is lost anyway
		for tries := 1; ; tries++ {
			if ctx.Err() != nil {
				return
			}
			send(lostMsg{tries})
			select {
			case <-time.After(waitBefore(tries, rand.Float64())):
			case <-ctx.Done():
				return
			}
			dialing, cancel := context.WithTimeout(ctx, connectLimit)
			next, err := o.Dial(dialing)
			cancel()
			if err == nil {
				conn = next
				break
			}
		}
	}
}

// waitBefore returns the delay before a connection attempt, counted from 1: 250 ms growing to 5 s,
// with a jitter of a fifth either way, so that several clients do not retry in step.
func waitBefore(try int, dice float64) time.Duration {
	d := math.Min(float64(firstWait)*math.Pow(1.7, float64(try-1)), float64(longestWait)/1.2)
	return time.Duration(d * (0.8 + 0.4*dice))
}

// follow passes on events until the connection is lost. Events that arrive while the screen is
// drawn are batched.
func follow(ctx context.Context, conn Conn, send func(tea.Msg)) {
	events := make(chan gateway.Event, 1024)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(events)
		put := func(e gateway.Event) {
			select {
			case events <- e:
			case <-ctx.Done():
			}
		}
		_ = conn.Follow(ctx, Topics(), put, func() { put(gateway.Event{Name: "events.gap"}) }) // why it was lost does not matter
	}()
	for e := range events {
		batch := eventsMsg{e}
		for more := true; more; {
			select {
			case e, ok := <-events:
				if more = ok; ok {
					batch = append(batch, e)
				}
			default:
				more = false
			}
		}
		send(batch)
	}
}
