package channels

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/go-telegram/bot/models"

	"helix/backend/fault"
)

// telegramContext returns the id of a conversation: the chat's, and in a forum that of the topic.
func telegramContext(m *models.Message) string {
	id := strconv.FormatInt(m.Chat.ID, 10)
	if m.IsTopicMessage && m.MessageThreadID != 0 {
		id += ":" + strconv.Itoa(m.MessageThreadID)
	}
	return id
}

// telegramChat is the opposite of telegramContext.
func telegramChat(contextID string) (chat int64, topic int, err error) {
	first, second, inTopic := strings.Cut(contextID, ":")
	chat, err = strconv.ParseInt(first, 10, 64)
	if err == nil && inTopic {
		topic, err = strconv.Atoi(second)
	}
	if err != nil {
		return 0, 0, fault.Invalidf("%q is not the id of a Telegram chat.", contextID)
	}
	return chat, topic, nil
}

// incoming returns what an update says. ok is false if it concerns nobody.
func (t *telegram) incoming(u *models.Update) (in Incoming, ok bool) {
	switch {
	case u.Message != nil:
		return t.message(u.Message)
	case u.EditedMessage != nil:
		in, ok = t.message(u.EditedMessage)
		in.Edits = in.MessageID
		in.MessageID += ":edited:" + strconv.Itoa(u.EditedMessage.EditDate)
		return in, ok
	case u.ChannelPost != nil || u.EditedChannelPost != nil:
		return t.message(cmp.Or(u.ChannelPost, u.EditedChannelPost))
	case u.CallbackQuery != nil:
		// Helix sends no buttons, so a button has nothing to say. Strangers are counted.
		q := u.CallbackQuery
		in = Incoming{MessageID: "callback:" + q.ID, SenderID: strconv.FormatInt(q.From.ID, 10), ContextID: strconv.FormatInt(q.From.ID, 10)}
		if m := q.Message.Message; m != nil {
			in.ContextID, in.Group = telegramContext(m), m.Chat.Type != models.ChatTypePrivate
		}
		return in, true
	}
	return in, false
}

// message returns a message. Names are for display only: their owners can change them.
func (t *telegram) message(m *models.Message) (in Incoming, ok bool) {
	in = Incoming{
		MessageID: strconv.FormatInt(m.Chat.ID, 10) + ":" + strconv.Itoa(m.ID), ContextID: telegramContext(m),
		Text: cmp.Or(m.Text, m.Caption), Group: m.Chat.Type != models.ChatTypePrivate,
	}
	switch {
	case m.SenderChat != nil: // an anonymous admin, or a channel: the person is not known
		in.SenderID, in.Anonymous = strconv.FormatInt(m.SenderChat.ID, 10), true
	case m.From == nil:
		in.SenderID, in.Anonymous = strconv.FormatInt(m.Chat.ID, 10), true
	default:
		in.SenderID = strconv.FormatInt(m.From.ID, 10)
		in.SenderLabel = clip(strings.TrimSpace(m.From.FirstName + " " + m.From.LastName))
	}
	if in.Text, ok = t.command(in.Text); !ok {
		return in, false
	}
	if m.ForwardOrigin != nil && in.Text != "" {
		in.Text = "Forwarded message:\n" + in.Text // so it is no command, and the transcript says whose words these may not be
	}
	in.Media = t.media(m)
	return in, true
}

// command removes the bot's name from a command. ok is false if the command is for another bot.
func (t *telegram) command(text string) (_ string, ok bool) {
	if !strings.HasPrefix(text, "/") {
		return text, true
	}
	word, rest, _ := strings.Cut(text, " ")
	name, to, named := strings.Cut(word, "@")
	if !named || strings.Contains(name, "\n") {
		return text, true
	}
	t.mu.Lock()
	mine := t.me != nil && strings.EqualFold(to, t.me.Username)
	t.mu.Unlock()
	return strings.TrimSpace(name + " " + rest), mine
}

// media returns the files of a message. Those that Helix doesn't take have no Fetch.
func (t *telegram) media(m *models.Message) (list []Media) {
	add := func(id, name string, size int64, audio bool) {
		list = append(list, Media{Name: name, Bytes: size, Audio: audio, Fetch: func(ctx context.Context) ([]byte, error) { return t.download(ctx, id) }})
	}
	switch {
	case m.Voice != nil:
		add(m.Voice.FileID, "voice message", m.Voice.FileSize, true)
	case m.Audio != nil:
		add(m.Audio.FileID, cmp.Or(m.Audio.FileName, "audio"), m.Audio.FileSize, true)
	case len(m.Photo) > 0:
		largest := m.Photo[len(m.Photo)-1]
		add(largest.FileID, "photo", int64(largest.FileSize), false)
	case m.Animation != nil, m.Sticker != nil, m.Video != nil, m.VideoNote != nil, m.Contact != nil, m.Location != nil, m.Venue != nil, m.Poll != nil, m.Story != nil, m.PaidMedia != nil, m.Game != nil, m.Dice != nil, m.Checklist != nil:
		list = append(list, Media{Name: "attachment"})
	case m.Document != nil: // after Animation, which comes as a document too
		add(m.Document.FileID, cmp.Or(m.Document.FileName, "document"), m.Document.FileSize, false)
	}
	return list
}
