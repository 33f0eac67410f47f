package importer

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// chatgptConversation is an element of conversations.json of a ChatGPT export: a tree of messages.
// current_node is the leaf that the person saw last.
type chatgptConversation struct {
	ID             string                 `json:"id"`
	ConversationID string                 `json:"conversation_id"`
	Title          string                 `json:"title"`
	CreateTime     flexTime               `json:"create_time"`
	UpdateTime     flexTime               `json:"update_time"`
	CurrentNode    string                 `json:"current_node"`
	Mapping        map[string]chatgptNode `json:"mapping"`
}

type chatgptNode struct {
	Parent   string          `json:"parent"`
	Children []string        `json:"children"`
	Message  *chatgptMessage `json:"message"`
}

type chatgptMessage struct {
	ID     string `json:"id"`
	Author struct {
		Role string `json:"role"`
	} `json:"author"`
	CreateTime flexTime `json:"create_time"`
	Content    struct {
		Type  string            `json:"content_type"`
		Parts []json.RawMessage `json:"parts"`
		Text  string            `json:"text"`
	} `json:"content"`
	Recipient string `json:"recipient"`
	Metadata  struct {
		Hidden bool   `json:"is_visually_hidden_from_conversation"`
		Model  string `json:"model_slug"`
	} `json:"metadata"`
}

// parseChatGPT parses one conversation: the messages of the person and the assistant on the branch
// that leads to the current node.
func parseChatGPT(raw []byte, zone *time.Location) (*Conversation, error) {
	var in chatgptConversation
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, err
	}
	if in.Mapping == nil {
		return nil, errShape
	}
	c := &Conversation{Source: ChatGPT, ExternalID: firstOf(in.ConversationID, in.ID), Title: line(in.Title), Participants: []string{"You", "ChatGPT"}}
	if c.ExternalID == "" {
		return nil, errShape
	}
	for _, id := range in.branch() {
		node := in.Mapping[id]
		if t, ok := node.Message.turn(id, zone); ok {
			c.Turns = append(c.Turns, t)
		}
	}
	c.Started, c.Ended = span(c.Turns)
	if at, ok := in.CreateTime.time(zone); ok && at != nil {
		c.Started = at
	}
	if at, ok := in.UpdateTime.time(zone); ok && at != nil && c.Ended == nil {
		c.Ended = at
	}
	return c, nil
}

// branch returns the ids of the nodes from the root to the current node, or to the newest leaf if
// the export has no current node. It stops at a cycle.
func (c *chatgptConversation) branch() []string {
	id := c.CurrentNode
	if _, ok := c.Mapping[id]; !ok {
		id = c.newestLeaf()
	}
	var ids []string
	seen := map[string]bool{}
	for !seen[id] {
		node, ok := c.Mapping[id]
		if !ok {
			break
		}
		seen[id] = true
		ids = append(ids, id)
		id = node.Parent
	}
	slices.Reverse(ids)
	return ids
}

func (c *chatgptConversation) newestLeaf() string {
	best, latest := "", time.Time{}
	for id, node := range c.Mapping {
		if len(node.Children) > 0 {
			continue
		}
		var at time.Time
		if node.Message != nil {
			if t, ok := node.Message.CreateTime.time(time.UTC); ok && t != nil {
				at = *t
			}
		}
		if best == "" || at.After(latest) || (at.Equal(latest) && id > best) {
			best, latest = id, at
		}
	}
	return best
}

// turn returns the visible text of a message. ok is false for system messages, tools and tool
// calls, hidden messages and messages without text.
func (m *chatgptMessage) turn(id string, zone *time.Location) (Turn, bool) {
	if m == nil || m.Metadata.Hidden {
		return Turn{}, false
	}
	t := Turn{ExternalID: cut(clean(firstOf(m.ID, id)), maxTitle), Role: m.Author.Role}
	switch m.Author.Role {
	case "user":
		t.Speaker = "You"
	case "assistant":
		t.Speaker, t.Model = "ChatGPT", cut(clean(m.Metadata.Model), maxTag)
	default:
		return Turn{}, false
	}
	if m.Recipient != "" && m.Recipient != "all" {
		return Turn{}, false
	}
	switch m.Content.Type {
	case "text", "multimodal_text", "code", "":
	default: // internal content such as thoughts
		return Turn{}, false
	}
	parts := []string{m.Content.Text}
	for _, raw := range m.Content.Parts {
		parts = append(parts, chatgptPart(raw))
	}
	t.Text = joinParts(parts)
	t.At, _ = m.CreateTime.time(zone)
	return t, t.Text != ""
}

// chatgptPart returns the text of one part of a message: a string, or the transcript of speech.
func chatgptPart(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return ""
	}
	if raw[0] == '"' {
		var text string
		_ = json.Unmarshal(raw, &text) // raw was validated with the record
		return text
	}
	var part struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(raw, &part) // a part of another type has no text
	return part.Text
}

// joinParts joins the parts that are not empty as paragraphs.
func joinParts(parts []string) string {
	kept := parts[:0]
	for _, p := range parts {
		if p = clean(p); p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, "\n\n")
}

// firstOf returns the first text that is not empty, as an id.
func firstOf(texts ...string) string {
	for _, t := range texts {
		if t = cut(clean(t), maxTitle); t != "" {
			return t
		}
	}
	return ""
}
