package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/app/cli/tui"
	"helix/backend/agent"
	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/storage"
)

// chatConnectLimit is the time limit for connecting, which may include opening the data folder on a slow computer.
const chatConnectLimit = 2 * time.Minute

// chatConn is a connection of the chat to a backend.
type chatConn struct {
	*gateway.Client
	close func() error
}

// Follow starts at the time of the connection, so that nothing is missed in between.
func (c chatConn) Follow(ctx context.Context, topics []string, fn func(gateway.Event), gap func()) error {
	return c.Client.Follow(ctx, topics, int64(min(c.Hello().Seq, 1<<62)), fn, gap)
}

func (c chatConn) Close() error { return c.close() }

// dialChat connects as connect does, but the connection ends when it is lost, because Helix may
// then be at another address. Only with open does it open a backend if none is running; own reports
// that it did.
func (c *command) dialChat(ctx context.Context, open bool) (conn tui.Conn, own bool, err error) {
	err = c.waitTurn(ctx, func() error {
		opts, err := c.remote(ctx)
		switch {
		case err != nil:
			return err
		case opts == nil && !open:
			return fault.Unavailablef("Helix is not running.")
		case opts == nil:
			mine, err := c.open(ctx)
			if err == nil {
				conn, own = chatConn{mine.client, mine.Close}, true
			}
			return err
		}
		pipe, err := gateway.DialPipe(ctx, *opts)
		if err != nil {
			return err
		}
		client, err := gateway.DialOver(ctx, pipe, *opts)
		if err == nil {
			conn = chatConn{client, client.Close}
		}
		return err
	})
	return conn, own, err
}

// inTerminal chats with a person: on the full screen of a terminal that supports it, else line by
// line.
func (s *chatSendCmd) inTerminal(c *command, p agent.SendParams) error {
	set := tui.Settings{SessionID: p.SessionID, Model: p.Model, Mode: s.Mode, Budget: p.Budget, Files: p.Attachments}
	if s.Plain || c.JSON || c.Quiet || !isTerminal(c.env.Stdin) || !isTerminal(c.env.Stdout) || os.Getenv("TERM") == "dumb" {
		return chatByLine(c, set)
	}
	c.LogLevel = "error+100" // log only to the file, since the screen is in use
	c.background, c.listens = true, true
	ctx, cancel := context.WithTimeout(c.ctx, chatConnectLimit)
	conn, own, err := c.dialChat(ctx, true)
	cancel()
	if err != nil {
		return err
	}
	c.Quiet = true
	again := func(ctx context.Context) (tui.Conn, error) {
		conn, _, err := c.dialChat(ctx, own)
		return conn, err
	}
	set, active, err := tui.Run(c.ctx, tui.Options{Conn: conn, Dial: again, Settings: set, Now: time.Now, NewID: storage.NewID, In: c.env.Stdin, Out: c.env.Stdout, Env: os.Environ()})
	c.Quiet = false
	if set.SessionID != uuid.Nil {
		c.say("Continue this chat with: helix chat --session %s", set.SessionID)
		if active && own {
			c.say("Its turn continues the next time Helix runs.")
		}
	}
	return err
}

// pasted is the maximum interval between lines of one paste.
const pasted = 40 * time.Millisecond

// lineChat is a chat line by line. Without a terminal it processes each line of standard input.
type lineChat struct {
	c       *command
	conn    tui.Conn
	set     tui.Settings
	person  bool // is at a terminal
	lines   chan string
	events  chan gateway.Event
	waiting []agent.TurnParams // turns that were sent and have not ended, the running one first
	chat    tui.Chat           // of the running turn
	tools   map[string]string  // names of its calls
	shown   string             // of the streaming answer
}

func chatByLine(c *command, set tui.Settings) error {
	if err := c.connect(); err != nil {
		return err
	}
	t := &lineChat{c: c, set: set, person: isTerminal(c.env.Stdin), lines: make(chan string), events: make(chan gateway.Event, 1024), tools: map[string]string{}}
	switch x := c.conn.(type) {
	case *remote:
		t.conn = chatConn{x.client, x.Close}
	case *own:
		t.conn = chatConn{x.client, x.Close}
	}
	if set.Model == "" {
		var status agent.StatusResult
		if _, err := c.call("agent.status", struct{}{}, &status); err == nil && !status.Ready {
			return fault.Unavailablef("Set up a model first: helix providers add, then helix providers role chat.")
		}
	}
	ctx, stop := context.WithCancel(c.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = t.conn.Follow(ctx, tui.Topics(), func(e gateway.Event) {
			select {
			case t.events <- e:
			default: // the end of the turn brings the complete answer
			}
		}, nil) // without them the answer is shown at the end
	}()
	defer func() { stop(); <-ended }()
	go t.readLines(ctx)
	if t.person {
		c.say("Helix. Type /help for help, /quit to leave.")
	}
	for {
		t.prompt()
		select {
		case line, ok := <-t.lines:
			if !ok {
				return nil
			}
			if quit, err := t.handle(line); quit || err != nil {
				return err
			}
		case <-c.ctx.Done():
			return nil
		}
		for len(t.waiting) > 0 {
			quit, err := t.follow()
			if quit || err != nil {
				return err
			}
		}
	}
}

// readLines passes on the lines of the input; the lines of a paste are joined.
func (t *lineChat) readLines(ctx context.Context) {
	defer close(t.lines)
	raw := make(chan string)
	go func() {
		defer close(raw)
		in := bufio.NewScanner(t.c.env.Stdin)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			select {
			case raw <- in.Text():
			case <-ctx.Done():
				return
			}
		}
		if err := in.Err(); err != nil {
			t.c.say("Couldn't read more input: %s. A line can have at most 1 MiB.", err)
		}
	}()
	for {
		line, ok := <-raw
		for more := ok && t.person; more; {
			select {
			case next, open := <-raw:
				if more = open; open {
					line += "\n" + next
				}
			case <-time.After(pasted):
				more = false
			}
		}
		if !ok {
			return
		}
		select {
		case t.lines <- line:
		case <-ctx.Done():
			return
		}
	}
}

func (t *lineChat) prompt() {
	if t.person {
		fmt.Fprint(t.c.env.Stderr, "\n> ")
	}
}

// handle executes an input.
func (t *lineChat) handle(line string) (quit bool, err error) {
	if line = strings.TrimSpace(line); line == "" {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(t.c.ctx, t.c.Timeout)
	defer cancel()
	turn := storage.NewID()
	out, err := tui.Do(ctx, t.conn, t.set, turn, line)
	t.set = out.Settings
	if err != nil {
		return false, t.report(err)
	}
	if out.Listed {
		for i, s := range t.set.Listed {
			t.c.say("%s", tui.SessionRow(i, s))
		}
	}
	if out.Text != "" {
		t.c.say("%s", tui.Visible(out.Text))
	}
	if out.Sent != nil {
		if len(t.waiting) > 0 && t.person {
			t.c.say("Queued.")
		}
		t.waiting = append(t.waiting, agent.TurnParams{SessionID: t.set.SessionID, TurnID: &turn})
	}
	return out.Quit, nil
}

// report prints an error and continues, unless no person is there to see it.
func (t *lineChat) report(err error) error {
	if err == nil || !t.person {
		return err
	}
	t.c.say("%s", plain(fault.As(err).Message))
	return nil
}

// follow shows the running turn until it ends, and handles input meanwhile.
func (t *lineChat) follow() (quit bool, err error) {
	running := t.waiting[0]
	turn := *running.TurnID
	t.chat, t.shown = tui.Chat{Session: agent.Session{ID: running.SessionID}}, ""
	type answer struct {
		turn agent.Turn
		err  error
	}
	answers := make(chan answer, 1)
	wait := func() {
		go func() {
			var got agent.TurnResult
			_, err := t.c.call("chat.wait", agent.WaitParams{TurnID: turn, WaitMs: 20_000}, &got)
			answers <- answer{got.Turn, err}
		}()
	}
	wait()
	lines := t.lines
	if !t.person {
		lines = nil // the next line waits for the answer to this one
	}
	for {
		select {
		case e := <-t.events:
			t.showEvent(turn, e)
		case line, ok := <-lines:
			if !ok {
				lines = nil
				continue
			}
			if quit, err := t.handle(line); quit || err != nil {
				return quit, err
			}
		case a := <-answers:
			switch {
			case a.err != nil:
				t.waiting = t.waiting[1:]
				return false, t.report(a.err)
			case a.turn.State == agent.Waiting && len(a.turn.Approvals) > 0:
				if !t.person {
					t.c.say("The chat is waiting for an answer: helix approvals decide %s --approve", a.turn.Approvals[0])
					return false, failed{ExitCode(fault.Denied)}
				}
				if quit, err := t.decide(a.turn.Approvals[0]); quit || err != nil {
					return quit, err
				}
			case a.turn.FinishedAt != nil:
				t.waiting = t.waiting[1:]
				return false, t.finish(a.turn)
			}
			wait()
		case <-t.c.ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.c.ctx), 10*time.Second)
			defer cancel()
			if err := t.conn.Call(ctx, "chat.cancel", running, nil); err == nil {
				t.c.say("Stopped.")
			}
			return true, nil
		}
	}
}

// showEvent prints an event of the turn.
func (t *lineChat) showEvent(turn uuid.UUID, e gateway.Event) {
	if !t.person {
		return
	}
	t.chat.Event(e)
	text, restarted := "", false
	if l := t.chat.Live; l != nil && l.TurnID == turn {
		text, restarted = l.Text(), l.Restarted
	}
	rest, continues := strings.CutPrefix(text, t.shown)
	if !continues {
		if t.endLine(); restarted {
			t.c.say("The answer was restarted.")
		}
		rest = text
	}
	t.shown = text
	fmt.Fprint(t.c.env.Stdout, tui.Visible(rest))
	var x struct {
		TurnID                           uuid.UUID
		CallID, Tool, Status, Kind, Text string
	}
	if json.Unmarshal(e.Data, &x) != nil || x.TurnID != turn {
		return
	}
	switch e.Name {
	case "chat.tool_started":
		t.endLine()
		t.tools[x.CallID] = x.Tool
		t.c.say("· %s …", plain(x.Tool))
	case "chat.tool_finished":
		t.c.say("· %s: %s", plain(t.tools[x.CallID]), plain(x.Status))
	case "chat.notice":
		if x.Kind != "approval" { // decide shows approvals
			t.endLine()
			t.c.say("%s", plain(x.Text))
		}
	}
}

// endLine ends the line of a partial answer.
func (t *lineChat) endLine() {
	if t.shown != "" && !strings.HasSuffix(t.shown, "\n") {
		fmt.Fprintln(t.c.env.Stdout)
	}
}

// finish prints the rest of the answer and how the turn ended.
func (t *lineChat) finish(turn agent.Turn) error {
	for more := true; more; { // events before the end
		select {
		case e := <-t.events:
			t.showEvent(turn.TurnID, e)
		default:
			more = false
		}
	}
	texts, err := t.c.answers(turn.SessionID, turn.TurnID)
	if err != nil {
		return t.report(err)
	}
	answer := ""
	if len(texts) > 0 {
		answer = texts[len(texts)-1]
	}
	rest, seen := strings.CutPrefix(answer, t.shown)
	if !seen {
		t.endLine()
		rest = answer
	}
	fmt.Fprint(t.c.env.Stdout, tui.Visible(rest))
	if !strings.HasSuffix(answer, "\n") && answer != "" {
		fmt.Fprintln(t.c.env.Stdout)
	}
	err = turnError(turn)
	if err == nil {
		return nil
	}
	if !t.person {
		return err
	}
	help := ""
	switch turn.StopReason {
	case agent.StopBudget:
		help = " Raise it with: helix agent budget"
	case agent.StopMaxTurns:
		help = " Send a text to continue."
	}
	t.c.say("%s%s", plain(fault.As(err).Message), help)
	return nil
}

// decide asks the person to answer an approval.
func (t *lineChat) decide(id uuid.UUID) (quit bool, err error) {
	ctx, cancel := context.WithTimeout(t.c.ctx, t.c.Timeout)
	q, err := tui.Ask(ctx, t.conn, id)
	cancel()
	if err != nil || q == nil {
		return false, t.report(err)
	}
	t.endLine()
	t.shown = ""
	out := t.c.env.Stderr
	fmt.Fprintln(out, q.Sentence())
	for _, line := range q.Lines() {
		fmt.Fprintf(out, "  %s\n", cut(line, 200))
	}
	for {
		fmt.Fprintf(out, "[%s] ", q.Keys())
		var line string
		var ok bool
		select {
		case line, ok = <-t.lines:
		case <-t.c.ctx.Done():
		}
		key := strings.ToLower(strings.TrimSpace(line))
		if !ok || key == "/quit" {
			return true, nil
		}
		if key == "v" {
			_, _ = io.WriteString(out, q.Full()+"\n")
		}
		if p, ok := q.Answer(key); ok {
			ctx, cancel := context.WithTimeout(t.c.ctx, t.c.Timeout)
			defer cancel()
			return false, t.report(tui.Decide(ctx, t.conn, p))
		}
	}
}
