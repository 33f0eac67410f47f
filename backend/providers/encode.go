package providers

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"helix/backend/fault"
)

// Call is a request addressed to one model of one service.
type Call struct {
	Request
	Provider string
	ID       string // the model's name at the service
	Info     ModelInfo
	// Official reports that the service is the one that defined the wire. Members that compatible
	// servers reject are sent only to it.
	Official bool
	Quirks   map[string]string
}

// maxAttachment is the largest attachment, in bytes.
const maxAttachment = 10 << 20

const interrupted = "no result: interrupted"

type object = map[string]any

// encodeCall returns the body of a call and warnings about what was left out. Equal calls have equal
// bytes, so that prompt caches hit: members are sorted, and nothing depends on the time.
func encodeCall(wire string, c Call) (body []byte, warnings []string, err error) {
	p := plan{call: c, wire: wire}
	p.messages = p.arrange(c.Messages)
	p.tools = slices.Clone(c.Tools)
	slices.SortFunc(p.tools, func(a, b ToolDecl) int { return strings.Compare(a.Name, b.Name) })
	var o object
	switch wire {
	case WireResponses:
		o = p.responses()
	case WireAnthropic:
		o, err = p.anthropic()
	case WireGemini:
		o, err = p.gemini()
	default:
		o = p.chat()
	}
	if err != nil {
		return nil, nil, err
	}
	var b bytes.Buffer
	n, _ := size(c.Request)
	b.Grow(n + n/8 + 512)
	if err := writeJSON(&b, o); err != nil {
		return nil, nil, fault.Invalidf("The request can't be encoded.").WithCause(err)
	}
	return b.Bytes(), p.warnings, nil
}

// plan is a call being encoded.
type plan struct {
	call     Call
	wire     string
	messages []Message
	from     []int // for each message, the index of the caller's message that it came from
	tools    []ToolDecl
	warnings []string
}

func (p *plan) warn(format string, args ...any) {
	p.warnings = append(p.warnings, fmt.Sprintf(format, args...))
}

// arrange places exactly one result directly after every tool call, and drops what the model does not
// support.
func (p *plan) arrange(in []Message) []Message {
	results, place := map[string]Part{}, map[string]int{}
	for i, m := range in {
		for _, part := range m.Parts {
			if part.Kind == PartToolResult {
				if _, twice := results[part.ID]; twice {
					p.warn("a second result of %s was dropped", part.ID)
					continue
				}
				results[part.ID], place[part.ID] = part, i
			}
		}
	}
	out := make([]Message, 0, len(in))
	p.from = make([]int, 0, len(in))
	called := map[string]bool{}
	for i, m := range in {
		role := m.Role
		if role == Tool {
			role = User
		}
		if onlyText(m.Parts) {
			out = append(out, Message{Role: role, Parts: m.Parts})
			p.from = append(p.from, i)
			continue
		}
		var parts, answers []Part
		answered := i
		for _, part := range p.usable(m.Parts) {
			switch {
			case part.Kind == PartToolResult:
				if !called[part.ID] {
					p.warn("the result of %s has no call and was dropped", part.ID)
				}
				continue
			case part.Kind == PartToolCall && (role != Assistant || called[part.ID]):
				p.warn("the call %s was dropped: its id is used twice, or it is not the model's", part.ID)
				continue
			case part.Kind == PartToolCall:
				called[part.ID] = true
				r, ok := results[part.ID]
				if !ok {
					r = Part{Kind: PartToolResult, ID: part.ID, Text: interrupted, Error: true}
				}
				r.Name = part.Name
				answered = max(answered, place[part.ID])
				answers = append(answers, r)
			}
			parts = append(parts, part)
		}
		if len(parts) > 0 {
			out = append(out, Message{Role: role, Parts: parts})
			p.from = append(p.from, i)
		}
		if len(answers) > 0 {
			out = append(out, Message{Role: Tool, Parts: answers})
			p.from = append(p.from, answered)
		}
	}
	return out
}

// onlyText reports whether a message consists of text only, as most do. Such a message is left
// unchanged.
func onlyText(parts []Part) bool {
	return len(parts) > 0 && !slices.ContainsFunc(parts, func(p Part) bool { return p.Kind != PartText || p.Text == "" })
}

// usable leaves out empty texts, attachments that the model does not support, and parts signed by
// another model.
func (p *plan) usable(in []Part) []Part {
	var out []Part
	for i, part := range in {
		switch part.Kind {
		case PartText:
			if part.Text == "" {
				continue
			}
		case PartImage, PartFile:
			takes := p.call.Info.Caps.Images
			if part.Kind == PartFile {
				takes = p.call.Info.Caps.Files
			}
			if !takes || len(part.Data) > maxAttachment || len(part.Data) == 0 {
				name := part.Name
				if name == "" {
					name = part.Kind
				}
				part = TextPart(fmt.Sprintf("[%s was left out: the model doesn't take it]", name))
				break
			}
			if kind := http.DetectContentType(part.Data); part.Kind == PartImage || part.MediaType == "" {
				part.MediaType, _, _ = strings.Cut(kind, ";")
			}
		case PartReasoning:
			if !p.signed(in[i+1:]) && !p.showsReasoning() {
				continue
			}
		case PartOpaque:
			if !p.own(part.Opaque) {
				continue
			}
		}
		out = append(out, part)
	}
	return out
}

// own reports whether an opaque part came from this provider and model family.
func (p *plan) own(o *Opaque) bool {
	return o != nil && o.Provider == p.call.Provider && (o.Model == p.call.ID || p.call.Info.Family != "" && familyOf(o.Model) == familyOf(p.call.ID))
}

// signed reports whether reasoning is directly followed by its signature.
func (p *plan) signed(next []Part) bool {
	for _, n := range next {
		switch n.Kind {
		case PartReasoning:
			continue
		case PartOpaque:
			return p.own(n.Opaque)
		}
		return false
	}
	return false
}

// showsReasoning reports whether a chat server expects earlier reasoning in a separate member.
func (p *plan) showsReasoning() bool { return p.wire == WireChat && p.call.Info.Interleaved != "" }

// familyOf returns a model's name without its version.
func familyOf(model string) string {
	if i := strings.LastIndexByte(model, '/'); i >= 0 {
		model = model[i+1:]
	}
	end := strings.IndexFunc(model, func(r rune) bool { return r >= '0' && r <= '9' })
	if end > 0 {
		return strings.TrimRight(model[:end], "-._")
	}
	return model
}

// wireName returns a name that every wire accepts. In a name that is too long or has other
// characters, a hash makes it unique.
func wireName(name string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
	if clean == name && len(name) <= 64 && name != "" {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return clean[:min(len(clean), 55)] + "_" + hex.EncodeToString(sum[:4])
}

func text(parts []Part) string {
	var out []string
	for _, p := range parts {
		if p.Kind == PartText && p.Text != "" {
			out = append(out, p.Text)
		}
	}
	return strings.Join(out, "\n\n")
}

func dataURL(p Part) string {
	return "data:" + p.MediaType + ";base64," + base64.StdEncoding.EncodeToString(p.Data)
}

// args returns a call's arguments as a JSON object, even if the model wrote something else.
func args(p Part) json.RawMessage {
	if s, ok := repairArgs([]byte(p.Args)); ok && strings.HasPrefix(s, "{") {
		return json.RawMessage(s)
	}
	b, _ := json.Marshal(object{"text": p.Args})
	return b
}

func (p *plan) input(t ToolDecl) any {
	if len(t.Input) == 0 {
		return object{"type": "object", "properties": object{}}
	}
	s, dropped := dialect(p.wire, false, t.Input)
	for _, d := range dropped {
		p.warn("tool %s: %s", t.Name, d)
	}
	return s
}

func (p *plan) schema() any {
	s, dropped := dialect(p.wire, true, p.call.Schema.Schema)
	for _, d := range dropped {
		p.warn("schema: %s", d)
	}
	return s
}

func (p *plan) temperature() *float64 {
	if p.call.Info.NoTemperature {
		return nil
	}
	return p.call.Temperature
}

func (p *plan) effort() Effort {
	if !p.call.Info.Caps.Reasoning || p.call.Reasoning == EffortNone {
		return ""
	}
	return p.call.Reasoning
}

// cacheKey returns a hash, so that the session's name is not disclosed.
func (p *plan) cacheKey() string {
	if p.call.Key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(p.call.Key))
	return "helix-" + hex.EncodeToString(sum[:12])
}
