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

// Call is a request made out to one model of one service.
type Call struct {
	Request
	Provider string
	ID       string // the model's name at the service
	Info     ModelInfo
	// Official says that the service is the one that defined the wire, so that members which
	// compatible servers refuse may be sent.
	Official bool
	Quirks   map[string]string
}

// Limits of what is attached.
const maxAttachment = 10 << 20

const interrupted = "no result: interrupted"

type object = map[string]any

// encodeCall returns the body of a call and what had to be left out. Equal calls have equal bytes,
// so that the services' caches hit: members are sorted, and nothing depends on the time.
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

// plan is a call while it becomes a body.
type plan struct {
	call     Call
	wire     string
	messages []Message
	from     []int // for each of messages, which of the caller's it came from
	tools    []ToolDecl
	warnings []string
}

func (p *plan) warn(format string, args ...any) {
	p.warnings = append(p.warnings, fmt.Sprintf(format, args...))
}

// arrange pairs every tool call with exactly one result, right after it, and drops what the model
// can't take.
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
	var out []Message
	called := map[string]bool{}
	for i, m := range in {
		role := m.Role
		if role == Tool {
			role = User
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

// usable leaves out empty texts, attachments that the model does not take, and what another model
// signed.
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

// signed reports whether what follows reasoning is its own signature.
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

// showsReasoning reports whether a chat server wants earlier reasoning in a member of its own.
func (p *plan) showsReasoning() bool { return p.wire == WireChat && p.call.Info.Interleaved != "" }

// familyOf is a model's name without its version.
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

// wireName returns a name that every wire takes: one that is too long or has other characters gets
// a hash.
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

// args returns a call's arguments as a JSON object, whatever the model wrote.
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

// cacheKey is a hash: the session's own name is nobody else's business.
func (p *plan) cacheKey() string {
	if p.call.Key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(p.call.Key))
	return "helix-" + hex.EncodeToString(sum[:12])
}

// — chat completions —

func (p *plan) chat() object {
	c := p.call
	o := object{"model": c.ID}
	var messages []object
	if s := text(c.System); s != "" {
		messages = append(messages, object{"role": "system", "content": s})
	}
	for _, m := range p.messages {
		if m.Role == Tool {
			for _, r := range m.Parts {
				messages = append(messages, object{"role": "tool", "tool_call_id": r.ID, "content": r.Text})
			}
			continue
		}
		messages = append(messages, p.chatMessage(m))
	}
	o["messages"] = messages
	if c.MaxOutput > 0 {
		name := c.Quirks["max_tokens"]
		if name == "" {
			name = "max_tokens"
			if c.Official {
				name = "max_completion_tokens"
			}
		}
		o[name] = c.MaxOutput
	}
	if !c.NoStream {
		o["stream"] = true
		o["stream_options"] = object{"include_usage": true}
	}
	if len(p.tools) > 0 {
		var tools []object
		for _, t := range p.tools {
			tools = append(tools, object{"type": "function", "function": object{"name": wireName(t.Name), "description": t.Description, "parameters": p.input(t)}})
		}
		o["tools"] = tools
		switch c.Choice.Mode {
		case "none", "required":
			o["tool_choice"] = c.Choice.Mode
		case "tool":
			o["tool_choice"] = object{"type": "function", "function": object{"name": wireName(c.Choice.Name)}}
		default:
			o["tool_choice"] = "auto"
		}
	}
	if c.Schema != nil {
		o["response_format"] = object{"type": "json_schema", "json_schema": object{"name": wireName(c.Schema.Name), "strict": true, "schema": p.schema()}}
	}
	if e := p.effort(); e != "" {
		if c.Quirks["reasoning"] == "object" {
			o["reasoning"] = object{"effort": e}
		} else {
			o["reasoning_effort"] = e
		}
	}
	p.common(o, "stop")
	if k := p.cacheKey(); k != "" && c.Official {
		o["prompt_cache_key"] = k
	}
	return o
}

func (p *plan) common(o object, stop string) {
	if t := p.temperature(); t != nil {
		o["temperature"] = *t
	}
	if len(p.call.Stop) > 0 && stop != "" {
		o[stop] = p.call.Stop
	}
	if p.call.Seed != nil {
		o["seed"] = *p.call.Seed
	}
}

func (p *plan) chatMessage(m Message) object {
	o := object{"role": m.Role}
	var list, calls []object
	var plain, reasoning strings.Builder
	rich := false
	for _, part := range m.Parts {
		switch part.Kind {
		case PartText:
			list = append(list, object{"type": "text", "text": part.Text})
			plain.WriteString(part.Text)
		case PartImage:
			rich = true
			list = append(list, object{"type": "image_url", "image_url": object{"url": dataURL(part)}})
		case PartFile:
			rich = true
			list = append(list, object{"type": "file", "file": object{"filename": part.Name, "file_data": dataURL(part)}})
		case PartReasoning:
			reasoning.WriteString(part.Text)
		case PartToolCall:
			call := object{"id": part.ID, "type": "function", "function": object{"name": wireName(part.Name), "arguments": string(args(part))}}
			calls = append(calls, call)
		case PartOpaque:
			switch part.Opaque.Kind {
			case "reasoning_details":
				o["reasoning_details"] = json.RawMessage(part.Opaque.Data)
			case "extra_content":
				defer func(at int) { // it precedes its call
					if at < len(calls) {
						calls[at]["extra_content"] = json.RawMessage(part.Opaque.Data)
					}
				}(len(calls))
			}
		}
	}
	switch {
	case rich:
		o["content"] = list
	case len(list) > 0:
		o["content"] = plain.String()
	default:
		o["content"] = nil
	}
	if reasoning.Len() > 0 && p.showsReasoning() && o["reasoning_details"] == nil {
		o[p.call.Info.Interleaved] = reasoning.String()
	}
	if len(calls) > 0 {
		o["tool_calls"] = calls
	}
	return o
}

// — Responses —

func (p *plan) responses() object {
	c := p.call
	o := object{"model": c.ID, "store": false}
	if s := text(c.System); s != "" {
		o["instructions"] = s
	}
	input := []object{}
	for _, m := range p.messages {
		var content []object
		flush := func() {
			if len(content) > 0 {
				input = append(input, object{"role": m.Role, "content": content})
				content = nil
			}
		}
		for _, part := range m.Parts {
			switch part.Kind {
			case PartText:
				kind := "input_text"
				if m.Role == Assistant {
					kind = "output_text"
				}
				content = append(content, object{"type": kind, "text": part.Text})
			case PartImage:
				content = append(content, object{"type": "input_image", "image_url": dataURL(part)})
			case PartFile:
				content = append(content, object{"type": "input_file", "filename": part.Name, "file_data": dataURL(part)})
			case PartToolCall:
				flush()
				input = append(input, object{"type": "function_call", "call_id": part.ID, "name": wireName(part.Name), "arguments": string(args(part))})
			case PartToolResult:
				flush()
				input = append(input, object{"type": "function_call_output", "call_id": part.ID, "output": part.Text})
			case PartOpaque:
				var item object
				if part.Opaque.Kind == "reasoning" && json.Unmarshal(part.Opaque.Data, &item) == nil {
					flush()
					delete(item, "status")
					input = append(input, item)
				}
			}
		}
		flush()
	}
	o["input"] = input
	if c.MaxOutput > 0 {
		o["max_output_tokens"] = max(c.MaxOutput, 16)
	}
	if !c.NoStream {
		o["stream"] = true
	}
	if len(p.tools) > 0 {
		var tools []object
		for _, t := range p.tools {
			tools = append(tools, object{"type": "function", "name": wireName(t.Name), "description": t.Description, "parameters": p.input(t), "strict": false})
		}
		o["tools"] = tools
		switch c.Choice.Mode {
		case "none", "required":
			o["tool_choice"] = c.Choice.Mode
		case "tool":
			o["tool_choice"] = object{"type": "function", "name": wireName(c.Choice.Name)}
		default:
			o["tool_choice"] = "auto"
		}
	}
	if c.Schema != nil {
		o["text"] = object{"format": object{"type": "json_schema", "name": wireName(c.Schema.Name), "strict": true, "schema": p.schema()}}
	}
	if c.Info.Caps.Reasoning {
		o["include"] = []string{"reasoning.encrypted_content"}
		if e := p.effort(); e != "" {
			o["reasoning"] = object{"effort": e, "summary": "auto"}
		}
	}
	if t := p.temperature(); t != nil {
		o["temperature"] = *t
	}
	if k := p.cacheKey(); k != "" {
		o["prompt_cache_key"] = k
	}
	return o
}

// — Anthropic —

// minCached is the least prompt in bytes that is worth a mark: services ignore shorter ones.
const minCached = 4 << 10

func (p *plan) anthropic() (object, error) {
	c := p.call
	output := c.MaxOutput
	if output == 0 {
		output = max(min(c.Info.Output, 8192), 1024)
	}
	o := object{"model": c.ID}
	if budget := map[Effort]int{EffortLow: 2048, EffortMedium: 8192, EffortHigh: 24576}[p.effort()]; budget > 0 && c.Schema == nil && c.Choice.Mode != "tool" && c.Choice.Mode != "required" {
		if c.Quirks["thinking"] == "adaptive" {
			o["thinking"] = object{"type": "adaptive"}
			o["output_config"] = object{"effort": c.Reasoning}
		} else {
			o["thinking"] = object{"type": "enabled", "budget_tokens": budget}
			output += budget
		}
	} else if t := p.temperature(); t != nil {
		o["temperature"] = min(*t, 1)
	}
	if c.Info.Output > 0 {
		output = min(output, c.Info.Output)
	}
	o["max_tokens"] = output
	size := 0
	marks := slices.Clone(c.CacheMarks)
	slices.Sort(marks)
	marks = slices.Compact(marks)
	if len(marks) > 4 {
		marks = append(marks[:1:1], marks[len(marks)-3:]...)
	}
	mark := func(at int, content []object) {
		if slices.Contains(marks, at) && len(content) > 0 && size >= minCached {
			content[len(content)-1]["cache_control"] = object{"type": "ephemeral"}
		}
	}
	for _, t := range p.tools {
		size += len(t.Input) + len(t.Description)
	}
	if s := text(c.System); s != "" {
		size += len(s)
		system := []object{{"type": "text", "text": s}}
		mark(-1, system)
		o["system"] = system
	}
	var messages []object
	for at, m := range p.messages {
		role := m.Role
		if role == Tool {
			role = User
		}
		var content []object
		for i := 0; i < len(m.Parts); i++ {
			part := m.Parts[i]
			size += len(part.Text) + len(part.Args)
			switch part.Kind {
			case PartText:
				content = append(content, object{"type": "text", "text": part.Text})
			case PartImage, PartFile:
				kind := "image"
				if part.Kind == PartFile {
					kind = "document"
				}
				content = append(content, object{"type": kind, "source": object{"type": "base64", "media_type": part.MediaType, "data": part.Data}})
			case PartToolCall:
				content = append(content, object{"type": "tool_use", "id": part.ID, "name": wireName(part.Name), "input": args(part)})
			case PartToolResult:
				r := object{"type": "tool_result", "tool_use_id": part.ID, "content": []object{{"type": "text", "text": orDash(part.Text)}}}
				if part.Error {
					r["is_error"] = true
				}
				content = append(content, r)
			case PartReasoning: // with its signature, or not at all
				if i+1 < len(m.Parts) && m.Parts[i+1].Kind == PartOpaque && m.Parts[i+1].Opaque.Kind == "signature" {
					i++
					content = append(content, object{"type": "thinking", "thinking": part.Text, "signature": string(m.Parts[i].Opaque.Data)})
				}
			case PartOpaque:
				switch part.Opaque.Kind {
				case "signature": // of thinking that the service keeps to itself
					content = append(content, object{"type": "thinking", "thinking": "", "signature": string(part.Opaque.Data)})
				case "redacted_thinking":
					content = append(content, object{"type": "redacted_thinking", "data": string(part.Opaque.Data)})
				case "block":
					var block object
					if json.Unmarshal(part.Opaque.Data, &block) == nil {
						content = append(content, block)
					}
				}
			}
		}
		if at+1 == len(p.from) || p.from[at+1] != p.from[at] {
			mark(p.from[at], content)
		}
		if n := len(messages); n > 0 && messages[n-1]["role"] == role {
			messages[n-1]["content"] = append(messages[n-1]["content"].([]object), content...)
		} else if len(content) > 0 {
			messages = append(messages, object{"role": role, "content": content})
		}
	}
	if len(messages) == 0 {
		return nil, fault.Invalidf("A request needs a message.")
	}
	o["messages"] = messages
	if !c.NoStream {
		o["stream"] = true
	}
	var tools []object
	for _, t := range p.tools {
		tools = append(tools, object{"name": wireName(t.Name), "description": t.Description, "input_schema": p.input(t)})
	}
	choice := object{"type": "auto"}
	switch c.Choice.Mode {
	case "none":
		choice = object{"type": "none"}
	case "required":
		choice = object{"type": "any"}
	case "tool":
		choice = object{"type": "tool", "name": wireName(c.Choice.Name)}
	}
	if c.Schema != nil { // the answer is the input of a tool that must be called
		name := wireName(c.Schema.Name)
		tools = append(tools, object{"name": name, "description": "Gives the answer.", "input_schema": p.schema()})
		choice = object{"type": "tool", "name": name}
	}
	if len(tools) > 0 {
		o["tools"], o["tool_choice"] = tools, choice
	}
	if len(c.Stop) > 0 {
		o["stop_sequences"] = c.Stop
	}
	return o, nil
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// — Gemini —

func (p *plan) gemini() (object, error) {
	c := p.call
	o := object{}
	if s := text(c.System); s != "" {
		o["systemInstruction"] = object{"parts": []object{{"text": s}}}
	}
	var contents []object
	for _, m := range p.messages {
		role := "user"
		if m.Role == Assistant {
			role = "model"
		}
		var parts []object
		signature := ""
		add := func(part object) {
			if signature != "" {
				part["thoughtSignature"], signature = signature, ""
			}
			parts = append(parts, part)
		}
		for _, part := range m.Parts {
			switch part.Kind {
			case PartText:
				add(object{"text": part.Text})
			case PartReasoning:
				add(object{"text": part.Text, "thought": true})
			case PartImage, PartFile:
				add(object{"inlineData": object{"mimeType": part.MediaType, "data": part.Data}})
			case PartToolCall:
				add(object{"functionCall": object{"id": part.ID, "name": wireName(part.Name), "args": args(part)}})
			case PartToolResult:
				key := "result"
				if part.Error {
					key = "error"
				}
				add(object{"functionResponse": object{"id": part.ID, "name": wireName(part.Name), "response": object{key: part.Text}}})
			case PartOpaque:
				if signature = string(part.Opaque.Data); part.Opaque.Kind == "part" {
					add(object{"text": ""})
				}
			}
		}
		if n := len(contents); n > 0 && contents[n-1]["role"] == role {
			contents[n-1]["parts"] = append(contents[n-1]["parts"].([]object), parts...)
		} else if len(parts) > 0 {
			contents = append(contents, object{"role": role, "parts": parts})
		}
	}
	if len(contents) == 0 {
		return nil, fault.Invalidf("A request needs a message.")
	}
	o["contents"] = contents
	g := object{}
	if c.MaxOutput > 0 {
		g["maxOutputTokens"] = c.MaxOutput
	}
	p.common(g, "stopSequences")
	if c.Schema != nil {
		g["responseMimeType"], g["responseSchema"] = "application/json", p.schema()
	}
	if e := p.effort(); e != "" {
		g["thinkingConfig"] = object{"includeThoughts": true, "thinkingBudget": map[Effort]int{EffortLow: 1024, EffortMedium: 8192, EffortHigh: 24576}[e]}
	}
	if len(g) > 0 {
		o["generationConfig"] = g
	}
	if len(p.tools) > 0 {
		var tools []object
		for _, t := range p.tools {
			f := object{"name": wireName(t.Name), "description": t.Description}
			if len(t.Input) > 0 {
				f["parameters"] = p.input(t)
			}
			tools = append(tools, f)
		}
		o["tools"] = []object{{"functionDeclarations": tools}}
		config := object{"mode": "AUTO"}
		switch c.Choice.Mode {
		case "none":
			config["mode"] = "NONE"
		case "required":
			config["mode"] = "ANY"
		case "tool":
			config["mode"], config["allowedFunctionNames"] = "ANY", []string{wireName(c.Choice.Name)}
		}
		o["toolConfig"] = object{"functionCallingConfig": config}
	}
	return o, nil
}
