package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/fault"
	"helix/backend/providers"
)

// chatHelp is the answer to /help.
const chatHelp = `/new            start a new chat
/sessions       list chats
/switch N       continue chat N of that list
/cancel         stop the answer; /cancelall stops those of all chats
/status         show this chat and what runs
/model REF      answer with provider/model from now on
/mode MODE      ask, read or work: what tools may do without a question
/cost           show what this chat has cost
/quit           leave; the chat stays
A text that you send while Helix answers waits for its turn.`

// pasted is how long lines of one paste may be apart.
const pasted = 40 * time.Millisecond

// terminalChat is a chat in a terminal, line by line. Without a terminal it answers each line of
// standard input.
type terminalChat struct {
	c       *command
	params  agent.SendParams
	mode    string
	person  bool // sits at a terminal
	lines   chan string
	events  chan event
	listed  []agent.Session
	waiting []agent.TurnParams // turns that were sent and have not ended, the running one first
	shown   strings.Builder
}

func (s *chatSendCmd) inTerminal(c *command, p agent.SendParams) error {
	if err := c.connect(); err != nil {
		return err
	}
	t := &terminalChat{c: c, params: p, mode: s.Mode, person: isTerminal(c.env.Stdin), lines: make(chan string), events: make(chan event, 256)}
	if t.params.Model == "" {
		var status agent.StatusResult
		if _, err := c.call("agent.status", struct{}{}, &status); err == nil && !status.Ready {
			return fault.Unavailablef("Set up a model first: helix providers add, then helix providers role chat.")
		}
	}
	ctx, stop := context.WithCancel(c.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.conn.Events(ctx, []string{"chat.assistant_delta", "chat.attempt_discarded", "chat.tool_started", "chat.tool_finished", "chat.notice"}, -1, func(e event) error {
			select {
			case t.events <- e:
			case <-ctx.Done():
			}
			return nil
		}) // without them the answer comes as a whole
	}()
	defer func() { stop(); <-ended }()
	go t.readLines(ctx)
	if t.person {
		c.say("Helix. /help shows what you can do, /quit leaves.")
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
		case <-t.events: // of other chats, or late
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

// readLines passes on the lines of the input; those of a paste come as one.
func (t *terminalChat) readLines(ctx context.Context) {
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
			t.c.say("The input can't be read further: %s. A line has at most 1 MiB.", err)
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

func (t *terminalChat) prompt() {
	if t.person {
		fmt.Fprint(t.c.env.Stderr, "\n> ")
	}
}

// handle does what an input says: a command, or a text for the chat.
func (t *terminalChat) handle(line string) (quit bool, err error) {
	line = strings.TrimSpace(line)
	if line == "" {
		return false, nil
	}
	if !strings.HasPrefix(line, "/") {
		return false, t.report(t.send(line))
	}
	verb, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch verb {
	case "/quit", "/exit":
		return true, nil
	case "/help":
		t.c.say("%s", chatHelp)
	case "/new":
		t.params.SessionID = uuid.Nil
		t.c.say("A new chat begins with your next text.")
	case "/sessions":
		var r agent.ListResult
		_, err = t.c.call("chat.list", agent.ListParams{Limit: 20}, &r)
		t.listed = r.Sessions
		for i, s := range r.Sessions {
			t.c.say("%2d  %s  %s", i+1, s.UpdatedAt.Local().Format(time.DateTime), plain(first(s.Title, "(no title)")))
		}
	case "/switch":
		n, nerr := strconv.Atoi(rest)
		if nerr != nil || n < 1 || n > len(t.listed) {
			t.c.say("Choose a number of /sessions.")
			break
		}
		t.params.SessionID = t.listed[n-1].ID
		t.c.say("%s", plain(first(t.listed[n-1].Title, "(no title)")))
	case "/cancel":
		if len(t.waiting) == 0 {
			t.c.say("Nothing runs.")
			break
		}
		_, err = t.c.call("chat.cancel", t.waiting[0], nil)
	case "/cancelall":
		_, err = t.c.call("chat.cancel_all", struct{}{}, nil)
	case "/model":
		t.params.Model = providers.ModelRef(rest)
		t.c.say("Model: %s", plain(first(rest, "that of the role chat")))
	case "/mode":
		if !slices.Contains([]string{agent.ModeAsk, agent.ModeRead, agent.ModeWork}, rest) {
			t.c.say("The mode is ask, read or work.")
			break
		}
		t.mode = rest
		if t.params.SessionID != uuid.Nil {
			_, err = t.c.call("chat.set_mode", agent.ModeParams{SessionID: t.params.SessionID, Mode: rest}, nil)
		}
		if err == nil {
			t.c.say("Mode: %s", rest)
		}
	case "/cost", "/status":
		err = t.showCost(verb)
	default:
		t.c.say("There is no command %s. /help lists them.", plain(verb))
	}
	return false, t.report(err)
}

// report shows an error and continues, unless nobody would see it.
func (t *terminalChat) report(err error) error {
	if err == nil || !t.person {
		return err
	}
	t.c.say("%s", plain(fault.As(err).Message))
	return nil
}

func (t *terminalChat) showCost(verb string) error {
	if t.params.SessionID == uuid.Nil {
		t.c.say("This chat has not begun.")
		return nil
	}
	var cost agent.CostResult
	if _, err := t.c.call("chat.cost", agent.SessionParams{SessionID: t.params.SessionID}, &cost); err != nil {
		return err
	}
	if verb == "/status" {
		var s agent.StatusResult
		if _, err := t.c.call("agent.status", struct{}{}, &s); err != nil {
			return err
		}
		var got agent.GetResult
		if _, err := t.c.call("chat.get", agent.SessionParams{SessionID: t.params.SessionID}, &got); err != nil {
			return err
		}
		model := first(string(t.params.Model), string(got.Session.Model), "that of the role chat")
		t.c.say("Chat %s, mode %s, model %s; %d running, %d queued", t.params.SessionID, got.Session.Mode, plain(model), len(s.Running), s.Queued)
	}
	t.c.say("%d calls of a model, $%.4f", cost.Calls, float64(cost.CostMicros)/1e6)
	return nil
}

func (t *terminalChat) send(text string) error {
	fresh := t.params.SessionID == uuid.Nil
	if fresh {
		var made agent.SessionResult
		if _, err := t.c.call("chat.create", agent.CreateParams{Mode: t.mode}, &made); err != nil {
			return err
		}
		t.params.SessionID = made.Session.ID
	}
	t.params.Text = text
	var sent agent.SendResult
	if _, err := t.c.call("chat.send", t.params, &sent); err != nil {
		if fresh { // an empty chat is of no use
			_, _ = t.c.call("chat.delete", agent.SessionParams{SessionID: t.params.SessionID}, nil)
			t.params.SessionID = uuid.Nil
		}
		return err
	}
	if len(t.waiting) > 0 && t.person {
		t.c.say("Waits for its turn.")
	}
	t.waiting = append(t.waiting, agent.TurnParams{SessionID: t.params.SessionID, TurnID: &sent.TurnID})
	return nil
}

// follow shows the running turn until it ends, and handles what is typed meanwhile.
func (t *terminalChat) follow() (quit bool, err error) {
	running := t.waiting[0]
	turn := *running.TurnID
	t.shown.Reset()
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
					t.c.say("The chat waits for an answer: helix approvals decide %s --approve", a.turn.Approvals[0])
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
			if err := t.c.conn.Call(ctx, "chat.cancel", running, nil); err == nil {
				t.c.say("Stopped.")
			}
			return true, nil
		}
	}
}

// showEvent shows what an event of the turn says.
func (t *terminalChat) showEvent(turn uuid.UUID, e event) {
	var x struct {
		TurnID uuid.UUID
		Offset int
		Delta  string
		Tool   string
		Status string
		Text   string
	}
	if json.Unmarshal(e.Params, &x) != nil || x.TurnID != turn || !t.person {
		return
	}
	switch e.Method {
	case "chat.assistant_delta":
		if x.Offset == 0 && t.shown.Len() > 0 {
			t.endLine()
			t.shown.Reset()
		}
		if x.Offset == t.shown.Len() { // else a part was missed: the end brings the whole
			t.shown.WriteString(x.Delta)
			fmt.Fprint(t.c.env.Stdout, visible(x.Delta))
		}
	case "chat.attempt_discarded":
		if t.shown.Len() > 0 {
			t.endLine()
			t.c.say("The answer starts again.")
			t.shown.Reset()
		}
	case "chat.tool_started":
		t.endLine()
		t.c.say("· %s …", plain(x.Tool))
	case "chat.tool_finished":
		t.c.say("· %s: %s", plain(x.Tool), plain(x.Status))
	case "chat.notice":
		t.endLine()
		t.c.say("%s", plain(x.Text))
	}
}

// endLine ends the line that the answer is in.
func (t *terminalChat) endLine() {
	if s := t.shown.String(); s != "" && !strings.HasSuffix(s, "\n") {
		fmt.Fprintln(t.c.env.Stdout)
	}
}

// visible keeps the lines of a text and replaces what could move a terminal's cursor.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control)) {
			return '�'
		}
		return r
	}, s)
}

// finish shows the rest of the answer and how the turn ended.
func (t *terminalChat) finish(turn agent.Turn) error {
	for more := true; more; { // what came before the end
		select {
		case e := <-t.events:
			t.showEvent(turn.TurnID, e)
		default:
			more = false
		}
	}
	var page agent.MessagesResult
	if _, err := t.c.call("chat.messages", agent.MessagesParams{SessionID: turn.SessionID, Limit: 200}, &page); err != nil {
		return t.report(err)
	}
	answer := ""
	for _, m := range page.Messages {
		if m.TurnID != turn.TurnID || m.Role != "assistant" {
			continue
		}
		text := ""
		for _, p := range m.Parts {
			if p.Kind == agent.PartText {
				text += p.Text
			}
		}
		if text != "" {
			answer = text
		}
	}
	rest, seen := strings.CutPrefix(answer, t.shown.String())
	if !seen {
		t.endLine()
		rest = answer
	}
	fmt.Fprint(t.c.env.Stdout, visible(rest))
	if !strings.HasSuffix(answer, "\n") && answer != "" {
		fmt.Fprintln(t.c.env.Stdout)
	}
	err := turnError(turn)
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

// lines say in full what is asked for.
func (a approval) lines() (out []string) {
	for _, r := range a.Requested {
		out = append(out, capability(r.Capability, r.Resource)+" "+r.Why)
	}
	if q := a.Question; q != nil {
		if q.Message != "" {
			out = append(out, q.Message)
		}
		if len(q.Details) > 0 {
			out = append(out, string(q.Details))
		}
	}
	return out
}

// decide asks the person at the terminal a question of Approvals.
func (t *terminalChat) decide(id uuid.UUID) (quit bool, err error) {
	raw, err := t.c.call("approvals.get", map[string]any{"id": id}, nil)
	if err != nil {
		return false, t.report(err)
	}
	var got struct {
		Approval approval
		approval
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		return false, err
	}
	a := got.Approval
	if a.ID == "" {
		a = got.approval
	}
	if a.Status != "pending" {
		return false, nil
	}
	t.endLine()
	t.shown.Reset()
	fmt.Fprintf(t.c.env.Stderr, "%s asks: %s\n", plain(first(a.Subject.Name, a.Subject.ID)), plain(first(a.Sentence, a.wants())))
	for _, line := range a.lines() {
		fmt.Fprintf(t.c.env.Stderr, "  %s\n", cut(plain(line), 200))
	}
	keys := "y once, n deny, v view"
	if a.Question != nil {
		var names []string
		for i, c := range a.Question.Choices {
			names = append(names, fmt.Sprintf("%d %s", i+1, plain(c.Label)))
		}
		keys = strings.Join(names, ", ") + ", v view"
	}
	for {
		fmt.Fprintf(t.c.env.Stderr, "[%s] ", keys)
		var line string
		var ok bool
		select {
		case line, ok = <-t.lines:
		case <-t.c.ctx.Done():
		}
		if !ok {
			return true, nil
		}
		p := map[string]any{"id": a.ID, "definitionHash": a.DefinitionHash}
		switch key := strings.ToLower(strings.TrimSpace(line)); {
		case key == "v":
			fmt.Fprintf(t.c.env.Stderr, "%s\n", plain(strings.ReplaceAll(a.Tier, "_", " ")))
			for _, text := range a.lines() {
				for line := range strings.Lines(text) {
					fmt.Fprintf(t.c.env.Stderr, "  %s\n", plain(strings.TrimRight(line, "\n")))
				}
			}
			continue
		case key == "/quit":
			return true, nil
		case a.Question != nil:
			n, err := strconv.Atoi(key)
			if err != nil || n < 1 || n > len(a.Question.Choices) {
				continue
			}
			p["choice"], p["decision"] = a.Question.Choices[n-1].ID, "deny"
			if a.Question.Choices[n-1].Approves {
				p["decision"] = "approve"
			}
		case key == "y":
			p["decision"], p["scope"] = "approve", "once"
		case key == "n":
			p["decision"] = "deny"
		default:
			continue
		}
		_, err := t.c.call("approvals.decide", p, nil)
		var f *fault.Error
		if errors.As(err, &f) && f.Kind == fault.Conflict { // answered elsewhere
			err = nil
		}
		return false, t.report(err)
	}
}
