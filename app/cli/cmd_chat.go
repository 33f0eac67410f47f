package cli

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/app/cli/tui"
	"helix/backend/agent"
	"helix/backend/fault"
	"helix/backend/providers"
)

type chatCmd struct {
	Send    chatSendCmd    `cmd:"" default:"withargs" help:"Chat with Helix in the terminal; with -p, send one message and print the answer."`
	List    chatListCmd    `cmd:"" help:"List chats."`
	Show    chatShowCmd    `cmd:"" help:"Print a chat." with:"{\"limit\":200}"`
	Search  chatSearchCmd  `cmd:"" help:"Search the text of chats."`
	Rename  chatRenameCmd  `cmd:"" help:"Give a chat a title."`
	Delete  chatDeleteCmd  `cmd:"" help:"Move a chat to the trash."`
	Restore chatRestoreCmd `cmd:"" help:"Restore a chat from the trash."`
	Fork    chatForkCmd    `cmd:"" help:"Continue in a copy."`
	Export  chatExportCmd  `cmd:"" help:"Save a chat as a file."`
	Import  chatImportCmd  `cmd:"" help:"Import a chat that was exported as JSON lines."`
	Context chatContextCmd `cmd:"" help:"Show what the next request contains."`
	Cost    chatCostCmd    `cmd:"" help:"Show what a chat has cost."`
	Replay  chatReplayCmd  `cmd:"" help:"Check that replaying a chat's log gives the requests that were sent."`
}

type chatSendCmd struct {
	Prompt   string   `short:"p" placeholder:"TEXT" help:"The text; - reads standard input. Without it, the chat opens full screen, or, without a terminal, answers each line of standard input."`
	Session  string   `placeholder:"ID" help:"Continue this chat. Default: a new one."`
	Agent    string   `placeholder:"NAME" help:"Who answers; for a new chat. Default: helix."`
	Model    string   `placeholder:"REF" help:"Model as provider/model. Default: the role chat."`
	Attach   []string `placeholder:"FILE" sep:"none" type:"existingfile" help:"Send this file with the text: an image, a PDF or a text file. Can be repeated up to four times."`
	Mode     string   `enum:",ask,read,work" default:"" help:"What tools can do without asking: ask, read or work. Default: ask, or the mode of the chat."`
	MaxCost  float64  `placeholder:"USD" help:"Maximum cost of the turn."`
	MaxTurns int      `placeholder:"N" help:"Maximum number of steps in the turn."`
	Plain    bool     `help:"Chat line by line instead of full screen."`
}

func (s *chatSendCmd) Run(c *command) error {
	if s.MaxCost < 0 || s.MaxCost > 1e6 || s.MaxTurns < 0 {
		return fault.Invalidf("--max-cost and --max-turns must not be negative.")
	}
	p := agent.SendParams{Model: providers.ModelRef(s.Model), Budget: &agent.Budget{MaxTurns: s.MaxTurns, MaxCostMicros: providers.Micros(s.MaxCost * 1e6)}}
	var err error
	if s.Session != "" {
		if p.SessionID, err = uuid.Parse(s.Session); err != nil {
			return fault.Invalidf("--session: %q isn't the ID of a chat.", s.Session)
		}
		if s.Agent != "" {
			return fault.Invalidf("--agent is for a new chat: who answers in a chat can't be changed. Leave out --session or --agent.")
		}
		if s.Mode != "" {
			if _, err := c.call("chat.set_mode", agent.ModeParams{SessionID: p.SessionID, Mode: s.Mode}, nil); err != nil {
				return err
			}
		}
	}
	for _, path := range s.Attach {
		ref, err := tui.Attach(func(method string, params, result any) error {
			_, err := c.call(method, params, result)
			return err
		}, path)
		if err != nil {
			return err
		}
		p.Attachments = append(p.Attachments, ref)
	}
	if s.Prompt == "" {
		return s.inTerminal(c, p)
	}
	if p.Text, err = c.text(s.Prompt); err != nil {
		return err
	}
	var events *eventLog
	if c.JSON {
		var stop func()
		if events, stop, err = c.chatEvents(); err != nil {
			return err
		}
		defer stop()
	}
	if s.Session == "" {
		var made agent.SessionResult
		if _, err := c.call("chat.create", agent.CreateParams{Mode: s.Mode, AgentName: s.Agent}, &made); err != nil {
			return err
		}
		p.SessionID = made.Session.ID
	}
	var sent agent.SendResult
	if _, err := c.call("chat.send", p, &sent); err != nil {
		if s.Session == "" { // an empty chat is useless
			_, _ = c.call("chat.delete", agent.SessionParams{SessionID: p.SessionID}, nil)
		}
		return err
	}
	if s.Session == "" {
		c.say("Chat %s", p.SessionID)
	}
	if events != nil {
		return c.printEvents(events, p.SessionID, sent.TurnID)
	}
	return c.followTurn(p.SessionID, sent.TurnID)
}

// followTurn waits until a turn ends and prints its answer. It does not wait for a turn that waits
// for a person: the turn continues once the question is answered.
func (c *command) followTurn(session, turn uuid.UUID) error {
	var got agent.TurnResult
	steps := 0
	for {
		_, err := c.call("chat.wait", agent.WaitParams{TurnID: turn, WaitMs: 500}, &got)
		switch {
		case err != nil && c.ctx.Err() != nil:
			return c.cancelTurn(session, turn)
		case err != nil:
			return err
		}
		t := got.Turn
		if t.Steps != steps && t.Steps > 1 {
			steps = t.Steps
			c.say("Step %d…", steps)
		}
		switch {
		case t.State == agent.Waiting && len(t.Approvals) > 0:
			return c.waitsForAnswer(t)
		case t.FinishedAt == nil:
			continue
		}
		if err := c.printAnswer(session, turn); err != nil {
			return err
		}
		switch t.StopReason {
		case agent.StopLength:
			c.say("The answer reached the model's length limit.")
		case agent.StopRefusal:
			c.say("The model refused to answer.")
		}
		return turnError(t)
	}
}

// waitsForAnswer says how to answer the questions of a turn.
func (c *command) waitsForAnswer(t agent.Turn) error {
	for _, id := range t.Approvals {
		c.say("The chat is waiting for an answer: helix approvals decide %s --approve", id)
	}
	return failed{ExitCode(fault.Denied)}
}

// cancelTurn stops the turn that Ctrl-C interrupted, so that it spends nothing more.
func (c *command) cancelTurn(session, turn uuid.UUID) error {
	if err := c.callAfterInterrupt("chat.cancel", agent.TurnParams{SessionID: session, TurnID: &turn}, nil); err != nil {
		fmt.Fprintf(c.env.Stderr, "helix: Couldn't cancel the turn: %s It continues in the chat.\n", fault.As(err).Message)
	} else {
		c.say("The turn was canceled.")
	}
	return failed{ExitCode(fault.Canceled)}
}

// turnError returns why a turn has no answer, or nil if it has one.
func turnError(t agent.Turn) error {
	message := "The turn ended with an error."
	if t.Error != nil {
		message = t.Error.Message
	}
	switch t.StopReason {
	case agent.StopAnswer, agent.StopLength, agent.StopRefusal:
		return nil
	case agent.StopBudget, agent.StopMaxTurns, agent.StopLoop, agent.StopTimeout:
		return fault.Limitf("%s", message)
	case agent.StopDenied:
		return fault.Deniedf("A call was not allowed, because nobody was there to allow it.")
	case agent.StopCanceled:
		return fault.New(fault.Canceled, "The turn was canceled.")
	}
	if t.Error != nil {
		switch kind := fault.Kind(t.Error.Kind); kind {
		case fault.Unavailable, fault.Denied, fault.Limit, fault.Timeout:
			return fault.New(kind, "%s", message)
		}
	}
	return fault.Internalf(nil, "%s", message)
}

// printAnswer prints the model's answer in a turn.
func (c *command) printAnswer(session, turn uuid.UUID) error {
	texts, err := c.answers(session, turn)
	for _, text := range texts {
		c.printText(text)
	}
	return err
}

// answers returns the texts of the answers in a turn.
func (c *command) answers(session, turn uuid.UUID) (texts []string, err error) {
	var page agent.MessagesResult
	_, err = c.call("chat.messages", agent.MessagesParams{SessionID: session, Limit: 200}, &page)
	for _, m := range page.Messages {
		if text := tui.TextOf(m); m.TurnID == turn && m.Role == "assistant" && text != "" {
			texts = append(texts, text)
		}
	}
	return texts, err
}

type chatListCmd struct {
	Query    string `arg:"" optional:"" help:"Part of the title."`
	Archived bool   `param:"includeArchived" help:"Include archived chats."`
	Trash    bool   `help:"Show the trash."`
	Limit    int    `default:"50"`
	Offset   int    `default:"0"`
}

func (*chatListCmd) Run(c *command) error {
	return answer(c, "chat.list", func(r agent.ListResult) {
		list(c, r.Sessions, "", []string{"ID", "TITLE", "STATE", "MESSAGES", "CHANGED"}, func(s agent.Session) []string {
			return []string{s.ID.String(), first(s.Title, "(no title)"), s.State, strconv.Itoa(s.MessageCount), s.UpdatedAt.Local().Format(time.DateTime)}
		})
	})
}

type chatID struct {
	ID string `arg:"" param:"sessionId" help:"ID of the chat."`
}

type chatShowCmd struct{ chatID }

func (*chatShowCmd) Run(c *command) error {
	return answer(c, "chat.messages", func(r agent.MessagesResult) {
		if r.More {
			c.say("Earlier messages are left out.")
		}
		for _, m := range r.Messages {
			for _, x := range m.Parts {
				switch x.Kind {
				case agent.PartText, agent.PartNotice:
					c.printText(m.Role + ": " + x.Text)
				case agent.PartImage, agent.PartFile:
					c.printText(m.Role + ": attached " + x.Name)
				case agent.PartToolCall:
					c.printText("called " + x.Tool + " " + string(x.Args))
				case agent.PartToolResult:
					line, _, _ := strings.Cut(x.Text, "\n")
					c.printText("result (" + x.Status + "): " + line)
				}
			}
		}
	})
}

type chatSearchCmd struct {
	Query string `arg:"" help:"Words, or the beginnings of words."`
	Limit int    `default:"20"`
}

func (*chatSearchCmd) Run(c *command) error {
	return answer(c, "chat.search", func(r agent.SearchResult) {
		list(c, r.Hits, "", []string{"CHAT", "TITLE", "WHO", "TEXT"}, func(h agent.Hit) []string {
			return []string{h.SessionID.String(), h.Title, h.Role, strings.Join(strings.Fields(h.Snippet), " ")}
		})
	})
}

type chatRenameCmd struct {
	chatID
	Title string `arg:"" help:"The new title."`
}

func (*chatRenameCmd) Run(c *command) error { return c.changeChat("chat.rename") }

type chatDeleteCmd struct{ chatID }

func (*chatDeleteCmd) Run(c *command) error { return c.changeChat("chat.delete") }

type chatRestoreCmd struct{ chatID }

func (*chatRestoreCmd) Run(c *command) error { return c.changeChat("chat.restore") }

func (c *command) changeChat(method string) error {
	return answer(c, method, func(r agent.SessionResult) {
		c.fields("id", r.Session.ID.String(), "title", r.Session.Title, "state", r.Session.State)
	})
}

type chatForkCmd struct {
	chatID
	At int64 `param:"atSeq" placeholder:"SEQ" help:"End the copy with the turn of this message. Default: the last turn."`
}

func (*chatForkCmd) Run(c *command) error {
	return answer(c, "chat.fork", func(r agent.SessionResult) { c.say("Chat %s", r.Session.ID) })
}

type chatExportCmd struct {
	chatID
	Format string `default:"md" enum:"md,jsonl" help:"Markdown to read, or JSON lines to import again (${enum})."`
	Output string `short:"o" placeholder:"FILE" type:"path" help:"File to write. Default: standard output."`
}

func (e *chatExportCmd) Run(c *command) error {
	p := map[string]any{"sessionId": e.ID, "format": e.Format}
	var r agent.ExportResult
	if _, err := c.call("chat.export", p, &r); err != nil {
		return err
	}
	return c.saveBlob(r.Blob, e.Output)
}

type chatImportCmd struct {
	File string `arg:"" type:"existingfile" help:"The file."`
}

func (i *chatImportCmd) Run(c *command) error {
	path, err := filepath.Abs(i.File)
	if err != nil {
		return err
	}
	return show(c, "chat.import", agent.ImportParams{Path: path}, func(r agent.SessionResult) {
		c.fields("id", r.Session.ID.String(), "title", r.Session.Title, "messages", strconv.Itoa(r.Session.MessageCount))
	})
}

type chatContextCmd struct{ chatID }

func (*chatContextCmd) Run(c *command) error {
	return answer(c, "chat.context", func(r agent.ContextResult) {
		list(c, r.Parts, "", []string{"PART", "NAME", "TOKENS"}, func(p agent.ContextPart) []string {
			return []string{p.Kind, p.Name, strconv.FormatInt(p.Tokens, 10)}
		})
		for _, text := range r.Omitted {
			c.say("%s", text)
		}
		c.say("%d of %d tokens.", r.Used, r.Window)
	})
}

type chatCostCmd struct{ chatID }

func (*chatCostCmd) Run(c *command) error {
	return answer(c, "chat.cost", func(r agent.CostResult) {
		rows := [][]string{}
		for by, list := range map[string][]agent.CostRow{"model": r.ByModel, "purpose": r.ByPurpose} {
			for _, x := range list {
				rows = append(rows, []string{by, x.Key, strconv.Itoa(x.Calls), strconv.FormatInt(x.Tokens, 10), usd(x.CostMicros)})
			}
		}
		slices.SortFunc(rows, func(a, b []string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
		c.table([]string{"BY", "NAME", "CALLS", "TOKENS", "COST"}, rows)
		c.say("%s in %d calls.", usd(r.CostMicros), r.Calls)
	})
}

type chatReplayCmd struct{ chatID }

func (*chatReplayCmd) Run(c *command) error {
	return answer(c, "agent.replay", func(r agent.ReplayResult) {
		c.fields("requests", strconv.Itoa(r.Requests), "identical", strconv.FormatBool(r.Identical))
		if d := r.FirstDifference; d != nil {
			c.fields("first difference", fmt.Sprintf("%s at %d", d.What, d.Seq))
		}
	})
}

type agentCmd struct {
	Status agentStatusCmd `cmd:"" default:"withargs" help:"Show whether the agent is ready, and what it is doing."`
	Tools  agentToolsCmd  `cmd:"" help:"List what the model can call."`
	Budget agentBudgetCmd `cmd:"" help:"Show the budgets, or set one."`
	Ledger agentLedgerCmd `cmd:"" help:"List model calls with their cost."`
	Tree   agentTreeCmd   `cmd:"" help:"Show the subagents of a chat and what they're doing."`

	Personas agentPersonasCmd `cmd:"" aliases:"persona" help:"Show and change the instructions of agents."`
	ToSkill  agentToSkillCmd  `cmd:"" help:"Create a disabled skill from what turns of a chat did."`
	Skills   agentSkillsCmd   `cmd:"" help:"List SKILL.md documents, and allow or add them."`
}

type agentStatusCmd struct{}

func (*agentStatusCmd) Run(c *command) error {
	return show(c, "agent.status", nil, func(r agent.StatusResult) {
		c.fields("ready", strconv.FormatBool(r.Ready), "running", strconv.Itoa(len(r.Running)), "queued", strconv.Itoa(r.Queued))
	})
}

type agentToolsCmd struct{}

func (*agentToolsCmd) Run(c *command) error {
	return show(c, "agent.tools", nil, func(r agent.ToolsResult) {
		list(c, r.Tools, "", []string{"NAME", "FROM", "TIER", "TOKENS", "WHAT IT DOES"}, func(t agent.ToolView) []string {
			return []string{t.Name, t.Origin, t.Tier, strconv.FormatInt(t.Tokens, 10), first(t.Title, t.Description)}
		})
	})
}

type agentBudgetCmd struct {
	Scope  string  `arg:"" optional:"" help:"day, month, provider, session or agent."`
	Amount float64 `arg:"" optional:"" default:"-1" help:"Dollars; 0 removes the limit."`
	Key    string  `help:"Name of the provider or agent, or ID of the chat."`
}

func (b *agentBudgetCmd) Run(c *command) error {
	method, p := "agent.budgets", map[string]any{}
	switch {
	case b.Scope != "" && b.Amount < 0:
		return fault.Invalidf("Enter an amount in dollars, or 0 to remove the limit.")
	case b.Scope != "":
		method = "agent.set_budget"
		p = map[string]any{"scope": b.Scope, "key": b.Key}
		if b.Amount > 0 {
			p["maxCostMicros"] = providers.Micros(b.Amount * 1e6)
		}
	}
	return show(c, method, p, func(r agent.BudgetsResult) {
		list(c, r.Limits, "", []string{"SCOPE", "KEY", "SPENT", "LIMIT"}, func(l agent.BudgetView) []string {
			return []string{l.Scope, l.Key, usd(l.SpentMicros), usd(l.MaxCostMicros)}
		})
	})
}

func usd(m providers.Micros) string { return fmt.Sprintf("$%.4f", float64(m)/1e6) }

type agentLedgerCmd struct {
	By    string `default:"call" enum:"call,day,model,purpose,provider,session" help:"Sum by (${enum})."`
	Limit int    `default:"50"`
}

func (l *agentLedgerCmd) Run(c *command) error {
	return show(c, "agent.ledger", agent.LedgerParams{GroupBy: l.By, Limit: l.Limit}, func(r agent.LedgerResult) {
		list(c, r.Rows, "", []string{"AT", "WHAT", "STATE", "CALLS", "IN", "OUT", "COST"}, func(x agent.LedgerRow) []string {
			key, at := x.Key, ""
			if key == "" {
				key = x.Provider + "/" + x.Model
			}
			if x.At != nil {
				at = x.At.Local().Format(time.DateTime)
			}
			return []string{at, key, x.State, strconv.Itoa(x.Calls), strconv.FormatInt(x.Input, 10), strconv.FormatInt(x.Output, 10), usd(x.CostMicros)}
		})
	})
}
