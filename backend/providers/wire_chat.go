package providers

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// chatDecoder reads OpenAI chat completions, including the variations that compatible servers send.
type chatDecoder struct {
	assembler
	plain   bool // reasoning came in a separate member, so the details repeat it
	details []reasoningDetail
	refused bool
}

// reasoningDetail is an element of reasoning_details, which OpenRouter requires back unchanged.
type reasoningDetail struct {
	Type      string `json:"type"`
	Text      string `json:"text,omitempty"`
	Summary   string `json:"summary,omitempty"`
	Data      string `json:"data,omitempty"`
	Signature string `json:"signature,omitempty"`
	ID        string `json:"id,omitempty"`
	Format    string `json:"format,omitempty"`
	Index     int64  `json:"index"`
}

func (d *chatDecoder) event(data []byte) (bool, error) {
	c := cursor{b: data}
	var err error
	var isError bool
	c.object(func(key []byte) {
		switch string(key) {
		case "choices":
			n := int64(0)
			c.array(func() {
				if e := d.choice(&c, n); err == nil {
					err = e
				}
				n++
			})
		case "usage":
			d.usageOf(&c)
		case "x_groq":
			c.object(func(key []byte) {
				switch {
				case string(key) == "usage" && !d.counted:
					d.usageOf(&c)
				case string(key) == "error" && c.peek() == '"':
					isError = true
					err = serviceError(&c, 0)
				}
			})
		case "citations":
			c.array(func() {
				if c.peek() == '"' {
					d.source(Event{URL: c.str()})
				}
			})
		case "search_results":
			c.array(func() { d.annotation(&c) })
		case "error":
			if ch := c.peek(); ch == '{' || ch == '"' {
				isError = true
				err = serviceError(&c, 0)
			}
		case "object":
			isError = isError || string(c.bytes()) == "error"
		}
	})
	if err == nil {
		err = c.end()
	}
	if err == nil && isError { // some servers put the error at the top level
		err = serviceError(&cursor{b: data}, 0)
	}
	return false, err
}

func (d *chatDecoder) choice(c *cursor, index int64) (err error) {
	var delta, finish, failure []byte
	c.object(func(key []byte) {
		switch string(key) {
		case "index":
			index = c.count()
		case "usage": // Moonshot
			if !d.counted {
				d.usageOf(c)
			}
		case "error":
			if c.peek() == '{' {
				failure = c.raw()
			}
		case "delta", "message":
			if c.peek() == '{' {
				delta = c.raw()
			}
		case "finish_reason":
			finish = c.bytes()
		}
	})
	if c.bad || index != 0 {
		return nil
	}
	if delta != nil {
		err = d.delta(delta)
	}
	if err == nil && failure != nil {
		return serviceError(&cursor{b: failure}, 0)
	}
	if len(finish) > 0 {
		d.finish(chatReason(string(finish)), string(wellFormed(finish)))
	}
	return err
}

func chatReason(raw string) string {
	switch strings.ToLower(raw) {
	case "stop", "stop_sequence", "end_turn", "eos", "eos_token":
		return FinishStop
	case "length", "max_tokens", "model_length":
		return FinishLength
	case "tool_calls", "tool_call", "function_call", "tool_use":
		return FinishToolCalls
	case "content_filter", "safety":
		return FinishContentFilter
	case "refusal":
		return FinishRefusal
	}
	return FinishUnknown
}

func (d *chatDecoder) delta(b []byte) (err error) {
	c := cursor{b: b}
	var reasoning, content, details []byte
	c.object(func(key []byte) {
		switch string(key) {
		case "content":
			if c.peek() == '[' {
				d.contentParts(&c)
				return
			}
			content = c.bytes()
		case "reasoning", "reasoning_content", "reasoning_text", "thinking":
			if c.peek() == '"' {
				if b := c.bytes(); len(reasoning) == 0 {
					reasoning = b
				}
			}
		case "reasoning_details":
			details = c.raw()
		case "audio": // the transcript of spoken output
			c.object(func(key []byte) {
				if string(key) == "transcript" {
					d.text(EventText, 0, c.bytes(), false)
				}
			})
		case "refusal":
			if b := c.bytes(); len(b) > 0 {
				d.text(EventText, 0, b, false)
				d.refused = true
			}
		case "tool_calls":
			c.array(func() {
				if e := d.toolCall(&c); err == nil {
					err = e
				}
			})
		case "function_call":
			if c.peek() == '{' {
				err = d.function(&c, 0, "")
			}
		case "annotations":
			c.array(func() { d.annotation(&c) })
		}
	})
	if len(reasoning) > 0 {
		d.plain = true
		d.text(EventReasoning, 0, reasoning, false)
	}
	if details != nil {
		d.addDetails(details)
	}
	d.text(EventText, 0, content, false)
	return err
}

// contentParts reads content given as a list, which with Mistral includes the reasoning.
func (d *chatDecoder) contentParts(c *cursor) {
	c.array(func() {
		var kind string
		var text []byte
		c.object(func(key []byte) {
			switch string(key) {
			case "type":
				kind = c.str()
			case "text":
				text = c.bytes()
			case "thinking":
				if c.peek() == '"' {
					text = c.bytes()
					return
				}
				c.array(func() {
					c.object(func(key []byte) {
						if string(key) == "text" {
							d.text(EventReasoning, 0, c.bytes(), false)
						}
					})
				})
			}
		})
		if kind == "thinking" {
			d.text(EventReasoning, 0, text, false)
			return
		}
		d.text(EventText, 0, text, false)
	})
}

func (d *chatDecoder) annotation(c *cursor) {
	var e Event
	read := func(key []byte) {
		switch string(key) {
		case "url":
			e.URL = c.str()
		case "title":
			e.Title = c.str()
		}
	}
	c.object(func(key []byte) {
		if string(key) == "url_citation" {
			c.object(read)
			return
		}
		read(key)
	})
	d.source(e)
}

// toolCall reads one element of tool_calls. Its members may come in any order.
func (d *chatDecoder) toolCall(c *cursor) error {
	index, id := -1, ""
	var function, extra []byte
	c.object(func(key []byte) {
		switch string(key) {
		case "index":
			if ch := c.peek(); ch >= '0' && ch <= '9' {
				index = int(min(c.count(), 1<<20))
			}
		case "id":
			id = c.str()
		case "function":
			function = c.raw()
		case "extra_content":
			extra = c.raw()
		}
	})
	if c.bad {
		return nil
	}
	if bytes.HasPrefix(extra, []byte("{")) {
		d.opaque("extra_content", extra)
	}
	return d.function(&cursor{b: function}, index, id)
}

// function reads the name and the arguments, which some servers send as an object instead of a
// string.
func (d *chatDecoder) function(c *cursor, index int, id string) error {
	var name, args []byte
	if len(c.b) > 0 {
		c.object(func(key []byte) {
			switch string(key) {
			case "name":
				name = c.bytes()
			case "arguments":
				switch c.peek() {
				case '"':
					args = c.bytes()
				case '{', '[':
					args = c.raw()
				}
			}
		})
	}
	call, err := d.call(index, id, string(name), args)
	if err != nil {
		return err
	}
	if call.wireID == "" {
		call.wireID = id
	}
	// Servers either repeat the whole name in each chunk or send it in pieces.
	if n := string(wellFormed(name)); n != call.name && !call.started {
		call.name += n
	}
	return d.args(call, args)
}

func (d *chatDecoder) addDetails(b []byte) {
	c := cursor{b: b}
	c.array(func() {
		var r reasoningDetail
		var shown []byte
		c.object(func(key []byte) {
			switch string(key) {
			case "type":
				r.Type = c.str()
			case "text", "summary":
				if b := c.bytes(); len(b) > 0 {
					shown = b
					if string(key) == "text" {
						r.Text = string(wellFormed(b))
					} else {
						r.Summary = string(wellFormed(b))
					}
				}
			case "data":
				r.Data = c.str()
			case "signature":
				r.Signature = c.str()
			case "id":
				r.ID = c.str()
			case "format":
				r.Format = c.str()
			case "index":
				r.Index = c.count()
			}
		})
		if !d.plain {
			d.text(EventReasoning, int(min(r.Index, 1<<20)), shown, r.Summary != "")
		}
		if n := len(d.details); n > 0 {
			if last := &d.details[n-1]; last.Index == r.Index && last.Type == r.Type && (r.ID == "" || last.ID == "" || last.ID == r.ID) && r.Data == "" {
				last.Text += r.Text
				last.Summary += r.Summary
				last.Signature += r.Signature
				if r.ID != "" {
					last.ID = r.ID
				}
				if r.Format != "" {
					last.Format = r.Format
				}
				return
			}
		}
		d.details = append(d.details, r)
	})
}

func (d *chatDecoder) end() {
	signed := false
	for _, r := range d.details {
		signed = signed || r.Data != "" || r.Signature != ""
	}
	if signed {
		if b, err := json.Marshal(d.details); err == nil {
			d.opaque("reasoning_details", b)
		}
	}
	if d.refused && d.reason != "" {
		d.reason = FinishRefusal
	}
}

// usageOf reads a usage object. Some services do not include reasoning in the completion tokens; the
// total shows whether they do.
func (d *chatDecoder) usageOf(c *cursor) {
	if c.peek() != '{' {
		c.skip()
		return
	}
	var prompt, completion, total, cached, hit, written, reasoning, micros int64
	c.object(func(key []byte) {
		switch string(key) {
		case "prompt_tokens":
			prompt = c.count()
		case "completion_tokens":
			completion = c.count()
		case "total_tokens":
			total = c.count()
		case "prompt_cache_hit_tokens", "cached_tokens": // DeepSeek, Moonshot
			hit = c.count()
		case "prompt_tokens_details":
			c.object(func(key []byte) {
				switch string(key) {
				case "cached_tokens":
					cached = c.count()
				case "cache_write_tokens":
					written = c.count()
				}
			})
		case "completion_tokens_details":
			c.object(func(key []byte) {
				if string(key) == "reasoning_tokens" {
					reasoning = c.count()
				}
			})
		case "cost":
			if m, ok := decimalMicros(string(c.raw()), 6); ok {
				micros = max(micros, m)
			}
		case "cost_in_usd_ticks":
			if m, ok := decimalMicros(string(c.raw()), -4); ok {
				micros = max(micros, m)
			}
		}
	})
	if cached == 0 {
		cached = hit
	}
	u := Usage{Input: max(prompt-cached-written, 0), CacheRead: cached, CacheWrite: written, Output: completion, Reasoning: reasoning, ReportedMicros: micros}
	if reasoning > 0 && total == prompt+completion+reasoning {
		u.Output += reasoning
	}
	d.count(u)
}

func (p *plan) chat() object {
	c := p.call
	o := object{"model": c.ID}
	messages := make([]any, 0, len(p.messages)+1)
	if s := text(c.System); s != "" {
		messages = append(messages, textMessage{"system", s})
	}
	for _, m := range p.messages {
		if m.Role == Tool {
			for _, r := range m.Parts {
				messages = append(messages, object{"role": "tool", "tool_call_id": r.ID, "content": r.Text})
			}
			continue
		}
		if onlyText(m.Parts) {
			messages = append(messages, textMessage{m.Role, joined(m.Parts)})
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
	o := object{"role": m.Role, "content": chatContent(m.Parts)}
	var calls []object
	var reasoning strings.Builder
	for _, part := range m.Parts {
		switch part.Kind {
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
				defer func(at int) { // the signature precedes its call
					if at < len(calls) {
						calls[at]["extra_content"] = json.RawMessage(part.Opaque.Data)
					}
				}(len(calls))
			}
		}
	}
	if reasoning.Len() > 0 && p.showsReasoning() && o["reasoning_details"] == nil {
		o[p.call.Info.Interleaved] = reasoning.String()
	}
	if len(calls) > 0 {
		o["tool_calls"] = calls
	}
	return o
}

// textMessage is a message of text only. Long conversations have many of them, and this avoids a map
// for each.
type textMessage struct{ role, text string }

func (s textMessage) write(b *bytes.Buffer) {
	b.WriteString(`{"content":`)
	writeString(b, s.text)
	b.WriteString(`,"role":`)
	writeString(b, s.role)
	b.WriteByte('}')
}

// joined returns the text of a message in the form that chat servers accept.
func joined(parts []Part) string {
	if len(parts) == 1 {
		return parts[0].Text
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Kind == PartText {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// chatContent returns a list if there are attachments, otherwise the plain text, which every server
// accepts.
func chatContent(parts []Part) any {
	attached := func(p Part) bool { return p.Kind == PartImage || p.Kind == PartFile }
	if !slices.ContainsFunc(parts, attached) {
		if !slices.ContainsFunc(parts, func(p Part) bool { return p.Kind == PartText }) {
			return nil
		}
		return joined(parts)
	}
	var list []object
	for _, p := range parts {
		switch p.Kind {
		case PartText:
			list = append(list, object{"type": "text", "text": p.Text})
		case PartImage:
			list = append(list, object{"type": "image_url", "image_url": object{"url": dataURL(p)}})
		case PartFile:
			list = append(list, object{"type": "file", "file": object{"filename": p.Name, "file_data": dataURL(p)}})
		}
	}
	return list
}
