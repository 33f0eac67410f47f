package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/channels"
	"helix/backend/fault"
)

type channelsCmd struct {
	List     channelsListCmd     `cmd:"" default:"1" help:"List channels with their state."`
	Add      channelsAddCmd      `cmd:"" help:"Add a Telegram bot, whose token is read from standard input, or a webhook, whose signing secret is printed once."`
	Remove   channelsRemoveCmd   `cmd:"" help:"Remove a channel with its allow-list and queues. Chats stay."`
	Undo     channelsUndoCmd     `cmd:"" help:"Bring a removed channel back."`
	Test     channelsTestCmd     `cmd:"" help:"Check a channel step by step. Nothing is sent to a person."`
	Takeover channelsTakeoverCmd `cmd:"" help:"Run a channel of another device on this one."`
	Enable   channelsEnableCmd   `cmd:"" help:"Switch a channel on."`
	Disable  channelsDisableCmd  `cmd:"" help:"Switch a channel off. What waits is kept."`
	Rotate   channelsRotateCmd   `cmd:"" help:"Make a new signing secret. The former one stays valid until the next rotation."`
	Pair     channelsPairCmd     `cmd:"" help:"Print a code that allows one sender."`
	Allow    channelsAllowCmd    `cmd:"" help:"Allow a sender by id, or change the entry."`
	Disallow channelsDisallowCmd `cmd:"" help:"Remove a sender from the allow-list."`
	Senders  channelsSendersCmd  `cmd:"" help:"List who is allowed to use a channel."`
	Sessions channelsSessionsCmd `cmd:"" help:"List the conversations of a channel with their chats."`
	Send     channelsSendCmd     `cmd:"" help:"Send a text to a conversation."`
	Rejected channelsRejectedCmd `cmd:"" help:"List refused senders. Their texts are not stored."`
	Routes   channelsRoutesCmd   `cmd:"" help:"List where notifications go."`
	Route    channelsRouteCmd    `cmd:"" help:"Send the notifications of a topic to a conversation, or only to the window."`
	Queue    channelsQueueCmd    `cmd:"" help:"List messages that are not answered or sent yet."`
	Retry    channelsRetryCmd    `cmd:"" help:"Send a failed or waiting message now."`
	Drop     channelsDropCmd     `cmd:"" help:"Discard a message that was not sent."`
}

// channelArg names a channel by name or id.
type channelArg struct {
	Channel string `arg:"" name:"channel" help:"Name or id of a channel."`
}

func (a *channelArg) id(c *command) (uuid.UUID, error) {
	if id, err := uuid.Parse(a.Channel); err == nil {
		return id, nil
	}
	var list channels.ListResult
	if _, err := c.call("channels.list", struct{}{}, &list); err != nil {
		return uuid.Nil, err
	}
	for _, ch := range list.Channels {
		if ch.Name == a.Channel {
			return ch.ID, nil
		}
	}
	return uuid.Nil, fault.NotFoundf("No channel is named %q.", a.Channel)
}

func localTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Local().Format(time.DateTime)
}

type channelsListCmd struct{}

func (*channelsListCmd) Run(c *command) error {
	return show(c, "channels.list", struct{}{}, func(r channels.ListResult) {
		if len(r.Channels) == 0 {
			c.say("No channels yet. To add one: helix channels add telegram NAME")
			return
		}
		rows := [][]string{}
		for _, ch := range r.Channels {
			rows = append(rows, []string{ch.Name, ch.Kind, ch.State, localTime(ch.LastIn), localTime(ch.LastOut), fmt.Sprint(ch.Queued), fmt.Sprint(ch.Rejected24h), cut(ch.Error, 60)})
		}
		c.table([]string{"NAME", "KIND", "STATE", "LAST IN", "LAST OUT", "QUEUED", "REJECTED 24H", "ERROR"}, rows)
	})
}

type channelsAddCmd struct {
	Kind     string `arg:"" enum:"telegram,webhook" help:"telegram or webhook"`
	Name     string `arg:"" help:"Name of the channel."`
	ReplyURL string `placeholder:"URL" help:"Where a webhook sends replies: https, or http to this computer."`
	Server   string `placeholder:"URL" help:"Your own Bot API server, instead of Telegram's."`
}

func (a *channelsAddCmd) Run(c *command) error {
	p := channels.AddParams{Kind: a.Kind, Name: a.Name, Config: channels.Config{URL: cmp.Or(a.Server, a.ReplyURL)}}
	if a.Kind == "telegram" {
		if isTerminal(c.env.Stdin) {
			c.say("Paste the bot's token from @BotFather.")
		}
		token, err := c.text("") // never an argument, which other programs can see
		if err != nil {
			return err
		}
		p.Token = strings.TrimSpace(token)
	}
	return show(c, "channels.add", p, func(r channels.AddResult) {
		if r.Secret != "" {
			c.fields("Name", r.Channel.Name, "Receives at", r.Channel.HookURL, "Secret", r.Secret)
			c.say("The secret is shown only once.")
		}
		c.say("Added. Nobody is allowed yet: helix channels pair %s", plain(r.Channel.Name))
	})
}

type channelsRotateCmd struct{ channelArg }

func (a *channelsRotateCmd) Run(c *command) error {
	id, err := a.id(c)
	if err != nil {
		return err
	}
	return show(c, "channels.update", channels.UpdateParams{ID: id, Patch: channels.Patch{RotateSecret: true}}, func(r channels.AddResult) { c.fields("Secret", r.Secret) })
}

type channelsRemoveCmd struct{ channelArg }

func (a *channelsRemoveCmd) Run(c *command) error {
	id, err := a.id(c)
	if err != nil {
		return err
	}
	return show(c, "channels.remove", channels.IDParams{ID: id}, func(r channels.RemoveResult) {
		c.say("Removed. Undo within ten minutes: helix channels undo %s", r.UndoToken)
	})
}

type channelsUndoCmd struct {
	Token string `arg:"" help:"What helix channels remove printed."`
}

func (a *channelsUndoCmd) Run(c *command) error {
	return show(c, "channels.undo", channels.UndoParams{UndoToken: a.Token}, func(r channels.Channel) { c.say("%s: %s", plain(r.Name), r.State) })
}

type channelsTestCmd struct{ channelArg }

func (a *channelsTestCmd) Run(c *command) error {
	id, err := a.id(c)
	if err != nil {
		return err
	}
	ok := true
	err = show(c, "channels.test", channels.IDParams{ID: id}, func(r channels.TestResult) {
		ok = r.OK
		rows := [][]string{}
		for _, s := range r.Steps {
			result := "OK"
			if !s.OK {
				result = strings.TrimSpace(s.Error + " " + s.Hint)
			}
			rows = append(rows, []string{s.Step, result})
		}
		c.table([]string{"STEP", "RESULT"}, rows)
	})
	if err == nil && !ok {
		err = fault.Unavailablef("The channel doesn't work yet.")
	}
	return err
}

type channelsTakeoverCmd struct{ channelArg }

func (a *channelsTakeoverCmd) Run(c *command) error {
	id, err := a.id(c)
	if err != nil {
		return err
	}
	return show(c, "channels.update", channels.UpdateParams{ID: id, Patch: channels.Patch{TakeOver: true}}, func(r channels.AddResult) {
		c.say("%s runs on this device now. Switch it off on the other one.", plain(r.Channel.Name))
	})
}

type channelsRoutesCmd struct{}

func (*channelsRoutesCmd) Run(c *command) error {
	return show(c, "channels.routes", struct{}{}, c.printRoutes)
}

type channelsRouteCmd struct {
	Topic   string `arg:"" enum:"schedule,approval,job,system" help:"schedule, approval, job or system"`
	Channel string `arg:"" help:"Name or id of a channel, or window."`
	Context string `arg:"" optional:"" help:"The conversation."`
	When    string `default:"away" enum:"always,away,never" help:"always, away (no window had the focus for 5 minutes) or never"`
}

func (a *channelsRouteCmd) Run(c *command) error {
	target := a.Channel
	if target != "window" {
		id, err := (&channelArg{a.Channel}).id(c)
		if err != nil {
			return err
		}
		target = "channel:" + id.String() + ":" + a.Context
	}
	return show(c, "channels.set_route", channels.Route{Topic: a.Topic, Target: target, When: a.When}, c.printRoutes)
}

func (c *command) printRoutes(r channels.RoutesResult) {
	rows := [][]string{}
	for _, x := range r.Routes {
		rows = append(rows, []string{x.Topic, x.Target, x.When})
	}
	c.table([]string{"TOPIC", "TARGET", "WHEN"}, rows)
}

type channelsEnableCmd struct {
	channelArg
	RemoveWebhook bool `help:"Make Telegram stop sending the bot's messages to the webhook of another program."`
}

func (a *channelsEnableCmd) Run(c *command) error {
	if a.RemoveWebhook {
		id, err := a.id(c)
		if err != nil {
			return err
		}
		if _, err := c.call("channels.update", channels.UpdateParams{ID: id, Patch: channels.Patch{RemoveWebhook: true}}, nil); err != nil {
			return err
		}
	}
	return a.setEnabled(c, true)
}

type channelsDisableCmd struct{ channelArg }

func (a *channelsDisableCmd) Run(c *command) error { return a.setEnabled(c, false) }

func (a *channelArg) setEnabled(c *command, on bool) error {
	id, err := a.id(c)
	if err != nil {
		return err
	}
	return show(c, "channels.set_enabled", channels.EnabledParams{ID: id, Enabled: on}, func(r channels.Channel) { c.say("%s: %s", plain(r.Name), r.State) })
}

type channelsPairCmd struct{ channelArg }

func (a *channelsPairCmd) Run(c *command) error {
	id, err := a.id(c)
	if err != nil {
		return err
	}
	return show(c, "channels.pair", channels.IDParams{ID: id}, func(r channels.PairResult) {
		c.say("Send this text over the channel before %s: /pair %s", r.ExpiresAt.Local().Format(time.TimeOnly), r.Code)
	})
}

type channelsAllowCmd struct {
	channelArg
	Sender  string   `arg:"" help:"The service's id of the sender, never a name."`
	Label   string   `help:"How the sender is shown."`
	Context []string `placeholder:"ID" help:"A group in which the sender is allowed too; may be repeated."`
	Role    string   `default:"chat" enum:"chat,notify" help:"chat, or notify: it only receives."`
}

func (a *channelsAllowCmd) Run(c *command) error {
	id, err := a.id(c)
	if err != nil {
		return err
	}
	return show(c, "channels.allow", channels.AllowParams{ID: id, SenderID: a.Sender, Label: a.Label, ContextIDs: a.Context, Role: a.Role}, c.printSenders)
}

type channelsDisallowCmd struct {
	channelArg
	Sender string `arg:"" help:"The service's id of the sender."`
}

func (a *channelsDisallowCmd) Run(c *command) error {
	id, err := a.id(c)
	if err != nil {
		return err
	}
	return show(c, "channels.disallow", channels.SenderParams{ID: id, SenderID: a.Sender}, c.printSenders)
}

type channelsSendersCmd struct{ channelArg }

func (a *channelsSendersCmd) Run(c *command) error {
	id, err := a.id(c)
	if err != nil {
		return err
	}
	return show(c, "channels.senders", channels.IDParams{ID: id}, c.printSenders)
}

func (c *command) printSenders(r channels.SendersResult) {
	if len(r.Senders) == 0 {
		c.say("Nobody is allowed: every message is refused without an answer.")
		return
	}
	rows := [][]string{}
	for _, s := range r.Senders {
		rows = append(rows, []string{s.SenderID, s.Label, s.Role, strings.Join(s.ContextIDs, ", "), s.AddedBy, localTime(s.LastSeen)})
	}
	c.table([]string{"SENDER", "LABEL", "ROLE", "GROUPS", "ADDED BY", "LAST SEEN"}, rows)
}

type channelsSessionsCmd struct{ channelArg }

func (a *channelsSessionsCmd) Run(c *command) error {
	id, err := a.id(c)
	if err != nil {
		return err
	}
	return show(c, "channels.sessions", channels.IDParams{ID: id}, func(r channels.SessionsResult) {
		rows := [][]string{}
		for _, b := range r.Bindings {
			rows = append(rows, []string{b.ContextID, b.Title, b.SessionID.String(), localTime(&b.LastAt)})
		}
		c.table([]string{"CONVERSATION", "CHAT", "ID", "LAST"}, rows)
	})
}

type channelsSendCmd struct {
	channelArg
	Context string   `arg:"" help:"The conversation."`
	Text    []string `arg:"" help:"The text."`
}

func (a *channelsSendCmd) Run(c *command) error {
	id, err := a.id(c)
	if err != nil {
		return err
	}
	return show(c, "channels.send", channels.SendParams{ID: id, ContextID: a.Context, Text: strings.Join(a.Text, " ")}, func(r channels.SendResult) { c.say("%s %s", r.MessageID, r.State) })
}

type channelsRejectedCmd struct {
	JSONL  bool       `name:"jsonl" help:"Print one JSON object per line."`
	Limit  int        `default:"50"`
	From   *time.Time `placeholder:"TIME" help:"Only what was refused at or after this time (RFC 3339)."`
	Before *time.Time `placeholder:"TIME" help:"Only what was refused before this time."`
}

// rejectedLine is a line of helix channels rejected --jsonl.
type rejectedLine struct {
	Timestamp time.Time `json:"timestamp"`
	Channel   string    `json:"channel"`
	SenderID  string    `json:"sender_id"`
	Reason    string    `json:"reason"`
	Context   string    `json:"context"`
}

func (a *channelsRejectedCmd) Run(c *command) error {
	return show(c, "channels.rejected", channels.RejectedParams{Limit: a.Limit, From: a.From, Before: a.Before}, func(r channels.RejectedResult) {
		rows := [][]string{}
		for _, e := range r.Entries {
			if a.JSONL {
				line, _ := json.Marshal(rejectedLine{e.Timestamp, e.Channel, e.SenderID, e.Reason, e.Context}) // texts and a time
				c.say("%s", line)
			}
			rows = append(rows, []string{localTime(&e.Timestamp), e.Channel, e.SenderID, e.Context, e.Reason, fmt.Sprint(e.Count)})
		}
		if !a.JSONL {
			c.table([]string{"LAST", "CHANNEL", "SENDER", "CONVERSATION", "REASON", "COUNT"}, rows)
		}
	})
}

type channelsQueueCmd struct {
	State  string `placeholder:"STATE" help:"Only messages in this state."`
	Limit  int    `default:"50"`
	Offset int    `default:"0"`
}

func (a *channelsQueueCmd) Run(c *command) error {
	return show(c, "channels.queue", channels.QueueParams{State: a.State, Limit: a.Limit, Offset: a.Offset}, func(r channels.QueueResult) {
		rows := [][]string{}
		for _, m := range r.Messages {
			rows = append(rows, []string{m.MessageID.String(), m.Direction, m.ContextID, m.State, fmt.Sprint(m.Attempts), cut(m.Error, 60), localTime(&m.At)})
		}
		c.table([]string{"MESSAGE", "DIRECTION", "CONVERSATION", "STATE", "ATTEMPTS", "ERROR", "AT"}, rows)
	})
}

type channelsMessageArg struct {
	Message uuid.UUID `arg:"" help:"Id of a message, from helix channels queue."`
}

func (a *channelsMessageArg) act(c *command, method string) error {
	return show(c, method, channels.MessageParams{MessageID: a.Message}, func(r channels.MessageResult) { c.say("%s", r.State) })
}

type channelsRetryCmd struct{ channelsMessageArg }

func (a *channelsRetryCmd) Run(c *command) error { return a.act(c, "channels.retry") }

type channelsDropCmd struct{ channelsMessageArg }

func (a *channelsDropCmd) Run(c *command) error { return a.act(c, "channels.drop") }
