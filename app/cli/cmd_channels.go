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
	List   channelsListCmd      `cmd:"" default:"1" help:"List channels with their state."`
	Add    channelsAddCmd       `cmd:"" help:"Add a Telegram bot, whose token is read from standard input, or a webhook, whose signing secret is printed once."`
	Remove struct{ channelArg } `cmd:"" help:"Remove a channel with its allow-list and queues. Chats stay." call:"channels.remove" say:"Removed. Undo within ten minutes: helix channels undo $undoToken"`
	Undo   struct {
		Token string `arg:"" param:"undoToken" help:"What helix channels remove printed."`
	} `cmd:"" help:"Bring a removed channel back." call:"channels.undo" say:"$name: $state"`
	Test     channelsTestCmd              `cmd:"" help:"Check a channel step by step. Nothing is sent to a person."`
	Takeover struct{ channelArg }         `cmd:"" help:"Run a channel of another device on this one." call:"channels.update" with:"{\"patch\":{\"takeOver\":true}}" say:"${channel.name} runs on this device now. Switch it off on the other one."`
	Enable   channelsEnableCmd            `cmd:"" help:"Switch a channel on."`
	Disable  struct{ channelArg }         `cmd:"" help:"Switch a channel off. What waits is kept." call:"channels.set_enabled" with:"{\"enabled\":false}" say:"$name: $state"`
	Rotate   channelsRotateCmd            `cmd:"" help:"Make a new signing secret. The former one stays valid until the next rotation." with:"{\"patch\":{\"rotateSecret\":true}}"`
	Pair     channelsPairCmd              `cmd:"" help:"Print a code that allows one sender."`
	Allow    channelsAllowCmd             `cmd:"" help:"Allow a sender by id, or change the entry."`
	Disallow channelsDisallowCmd          `cmd:"" help:"Remove a sender from the allow-list."`
	Senders  channelsSendersCmd           `cmd:"" help:"List who is allowed to use a channel."`
	Sessions channelsSessionsCmd          `cmd:"" help:"List the conversations of a channel with their chats."`
	Send     channelsSendCmd              `cmd:"" help:"Send a text to a conversation."`
	Rejected channelsRejectedCmd          `cmd:"" help:"List refused senders. Their texts are not stored."`
	Routes   channelsRoutesCmd            `cmd:"" help:"List where notifications go."`
	Route    channelsRouteCmd             `cmd:"" help:"Send the notifications of a topic to a conversation, or only to the window."`
	Queue    channelsQueueCmd             `cmd:"" help:"List messages that are not answered or sent yet."`
	Retry    struct{ channelsMessageArg } `cmd:"" help:"Send a failed or waiting message now." call:"channels.retry" say:"$state"`
	Drop     struct{ channelsMessageArg } `cmd:"" help:"Discard a message that was not sent." call:"channels.drop" say:"$state"`
}

// channelArg names a channel by name or id.
type channelArg struct {
	Channel string `arg:"" name:"channel" param:"id" ref:"channels" help:"Name or id of a channel."`
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
		list(c, r.Channels, "No channels yet. To add one: helix channels add telegram NAME", []string{"NAME", "KIND", "STATE", "LAST IN", "LAST OUT", "QUEUED", "REJECTED 24H", "ERROR"}, func(ch channels.Channel) []string {
			return []string{ch.Name, ch.Kind, ch.State, localTime(ch.LastIn), localTime(ch.LastOut), fmt.Sprint(ch.Queued), fmt.Sprint(ch.Rejected24h), cut(ch.Error, 60)}
		})
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

func (*channelsRotateCmd) Run(c *command) error {
	return answer(c, "channels.update", func(r channels.AddResult) { c.fields("Secret", r.Secret) })
}

type channelsTestCmd struct{ channelArg }

func (*channelsTestCmd) Run(c *command) error {
	ok := true
	err := answer(c, "channels.test", func(r channels.TestResult) {
		ok = r.OK
		list(c, r.Steps, "", []string{"STEP", "RESULT"}, func(s channels.TestStep) []string {
			result := "OK"
			if !s.OK {
				result = strings.TrimSpace(s.Error + " " + s.Hint)
			}
			return []string{s.Step, result}
		})
	})
	if err == nil && !ok {
		err = fault.Unavailablef("The channel doesn't work yet.")
	}
	return err
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
		id, err := c.idOf(channelKind, a.Channel, false)
		if err != nil {
			return err
		}
		target = "channel:" + id + ":" + a.Context
	}
	return show(c, "channels.set_route", channels.Route{Topic: a.Topic, Target: target, When: a.When}, c.printRoutes)
}

func (c *command) printRoutes(r channels.RoutesResult) {
	list(c, r.Routes, "", []string{"TOPIC", "TARGET", "WHEN"}, func(x channels.Route) []string {
		return []string{x.Topic, x.Target, x.When}
	})
}

type channelsEnableCmd struct {
	channelArg
	RemoveWebhook bool `help:"Make Telegram stop sending the bot's messages to the webhook of another program."`
}

func (a *channelsEnableCmd) Run(c *command) error {
	id, err := c.idOf(channelKind, a.Channel, false)
	if err != nil {
		return err
	}
	if a.RemoveWebhook {
		if _, err := c.call("channels.update", map[string]any{"id": id, "patch": channels.Patch{RemoveWebhook: true}}, nil); err != nil {
			return err
		}
	}
	return show(c, "channels.set_enabled", map[string]any{"id": id, "enabled": true}, func(r channels.Channel) { c.say("%s: %s", plain(r.Name), r.State) })
}

type channelsPairCmd struct{ channelArg }

func (*channelsPairCmd) Run(c *command) error {
	return answer(c, "channels.pair", func(r channels.PairResult) {
		c.say("Send this text over the channel before %s: /pair %s", r.ExpiresAt.Local().Format(time.TimeOnly), r.Code)
	})
}

type channelsAllowCmd struct {
	channelArg
	Sender  string   `arg:"" param:"senderId" help:"The service's id of the sender, never a name."`
	Label   string   `help:"How the sender is shown."`
	Context []string `param:"contextIds" placeholder:"ID" help:"A group in which the sender is allowed too; may be repeated."`
	Role    string   `default:"chat" enum:"chat,notify" help:"chat, or notify: it only receives."`
}

func (*channelsAllowCmd) Run(c *command) error { return answer(c, "channels.allow", c.printSenders) }

type channelsDisallowCmd struct {
	channelArg
	Sender string `arg:"" param:"senderId" help:"The service's id of the sender."`
}

func (*channelsDisallowCmd) Run(c *command) error {
	return answer(c, "channels.disallow", c.printSenders)
}

type channelsSendersCmd struct{ channelArg }

func (*channelsSendersCmd) Run(c *command) error {
	return answer(c, "channels.senders", c.printSenders)
}

func (c *command) printSenders(r channels.SendersResult) {
	list(c, r.Senders, "Nobody is allowed: every message is refused without an answer.", []string{"SENDER", "LABEL", "ROLE", "GROUPS", "ADDED BY", "LAST SEEN"}, func(s channels.Sender) []string {
		return []string{s.SenderID, s.Label, s.Role, strings.Join(s.ContextIDs, ", "), s.AddedBy, localTime(s.LastSeen)}
	})
}

type channelsSessionsCmd struct{ channelArg }

func (*channelsSessionsCmd) Run(c *command) error {
	return answer(c, "channels.sessions", func(r channels.SessionsResult) {
		list(c, r.Bindings, "", []string{"CONVERSATION", "CHAT", "ID", "LAST"}, func(b channels.Binding) []string {
			return []string{b.ContextID, b.Title, b.SessionID.String(), localTime(&b.LastAt)}
		})
	})
}

type channelsSendCmd struct {
	channelArg
	Context string   `arg:"" help:"The conversation."`
	Text    []string `arg:"" help:"The text."`
}

func (a *channelsSendCmd) Run(c *command) error {
	id, err := c.idOf(channelKind, a.Channel, false)
	if err != nil {
		return err
	}
	return show(c, "channels.send", map[string]any{"id": id, "contextId": a.Context, "text": strings.Join(a.Text, " ")}, func(r channels.SendResult) { c.say("%s %s", r.MessageID, r.State) })
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

func (*channelsQueueCmd) Run(c *command) error {
	return answer(c, "channels.queue", func(r channels.QueueResult) {
		list(c, r.Messages, "", []string{"MESSAGE", "DIRECTION", "CONVERSATION", "STATE", "ATTEMPTS", "ERROR", "AT"}, func(m channels.Queued) []string {
			return []string{m.MessageID.String(), m.Direction, m.ContextID, m.State, fmt.Sprint(m.Attempts), cut(m.Error, 60), localTime(&m.At)}
		})
	})
}

type channelsMessageArg struct {
	Message uuid.UUID `arg:"" param:"messageId" help:"Id of a message, from helix channels queue."`
}
