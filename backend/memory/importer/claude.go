package importer

import (
	"encoding/json"
	"time"
)

// claudeConversation is an element of conversations.json of a Claude export. Older exports have the
// text of a message in text, newer ones also in content blocks.
type claudeConversation struct {
	UUID      string          `json:"uuid"`
	Name      string          `json:"name"`
	CreatedAt flexTime        `json:"created_at"`
	UpdatedAt flexTime        `json:"updated_at"`
	Messages  []claudeMessage `json:"chat_messages"`
	Model     string          `json:"model"`
}

type claudeMessage struct {
	UUID      string          `json:"uuid"`
	Sender    string          `json:"sender"`
	Text      string          `json:"text"`
	Content   json.RawMessage `json:"content"`
	CreatedAt flexTime        `json:"created_at"`
	Files     []struct {
		Name string `json:"file_name"`
		Text string `json:"extracted_content"`
	} `json:"attachments"`
}

// parseClaude parses one conversation, including the text of its attachments.
func parseClaude(raw []byte, zone *time.Location) (*Conversation, error) {
	var in claudeConversation
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, err
	}
	if in.Messages == nil || firstOf(in.UUID) == "" {
		return nil, errShape
	}
	c := &Conversation{Source: Claude, ExternalID: firstOf(in.UUID), Title: line(in.Name), Participants: []string{"You", "Claude"}}
	for i := range in.Messages {
		if t, ok := in.Messages[i].turn(zone); ok {
			if t.Role == "assistant" {
				t.Model = cut(clean(in.Model), maxTag)
			}
			c.Turns = append(c.Turns, t)
		}
	}
	c.Started, c.Ended = span(c.Turns)
	if at, ok := in.CreatedAt.time(zone); ok && at != nil {
		c.Started = at
	}
	if at, ok := in.UpdatedAt.time(zone); ok && at != nil && c.Ended == nil {
		c.Ended = at
	}
	return c, nil
}

func (m *claudeMessage) turn(zone *time.Location) (Turn, bool) {
	t := Turn{ExternalID: firstOf(m.UUID)}
	switch m.Sender {
	case "human", "user":
		t.Role, t.Speaker = "user", "You"
	case "assistant":
		t.Role, t.Speaker = "assistant", "Claude"
	default:
		return Turn{}, false
	}
	parts := m.blocks()
	if len(parts) == 0 {
		parts = append(parts, m.Text)
	}
	for _, f := range m.Files {
		if text := clean(f.Text); text != "" {
			if name := line(f.Name); name != "" {
				text = "[" + name + "]\n" + text
			}
			parts = append(parts, text)
		}
	}
	t.Text = joinParts(parts)
	t.At, _ = m.CreatedAt.time(zone)
	return t, t.Text != ""
}

// blocks returns the texts of the content blocks, without thinking and tool use.
func (m *claudeMessage) blocks() []string {
	var one string
	if json.Unmarshal(m.Content, &one) == nil && clean(one) != "" {
		return []string{one}
	}
	var list []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(m.Content, &list) != nil {
		return nil
	}
	var out []string
	for _, b := range list {
		if b.Type == "text" && clean(b.Text) != "" {
			out = append(out, b.Text)
		}
	}
	return out
}
