package providers

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"helix/backend/fault"
)

// anthropicDecoder reads Anthropic's messages, streamed or not. Bedrock and Vertex use the same
// bodies.
type anthropicDecoder struct {
	assembler
	blocks map[int]*anthropicBlock
}

// anthropicBlock is a content block that is still open.
type anthropicBlock struct {
	kind      string
	raw       []byte // as received at its start
	signature []byte
	input     []byte
	call      *pendingCall
}

// end closes blocks that the service left open in a complete answer.
func (d *anthropicDecoder) end() {
	if d.reason == "" {
		return
	}
	for _, at := range slices.Sorted(maps.Keys(d.blocks)) {
		_ = d.stop(at) // arguments that are too long are dropped
	}
}

func (d *anthropicDecoder) event(data []byte) (done bool, err error) {
	c := cursor{b: data}
	var kind string
	var message, block, delta, usage, content, failure, stop []byte
	index := int64(0)
	c.object(func(key []byte) {
		switch string(key) {
		case "type":
			kind = c.str()
		case "index":
			index = min(c.count(), 1<<20)
		case "message":
			message = c.raw()
		case "content_block":
			block = c.raw()
		case "delta":
			delta = c.raw()
		case "usage":
			usage = c.raw()
		case "content":
			content = c.raw()
		case "stop_reason":
			stop = c.bytes()
		case "error":
			failure = c.raw()
		}
	})
	if err := c.end(); err != nil {
		return false, err
	}
	if len(failure) > 0 && failure[0] != 'n' {
		return false, serviceError(&cursor{b: failure}, 0)
	}
	at := int(index)
	switch kind {
	case "message_start":
		m := cursor{b: message}
		m.object(func(key []byte) {
			if string(key) == "usage" {
				d.usageOf(&m)
			}
		})
	case "content_block_start":
		return false, d.begin(at, block)
	case "content_block_delta":
		return false, d.delta(at, delta)
	case "content_block_stop":
		return false, d.stop(at)
	case "message_delta":
		m := cursor{b: delta}
		m.object(func(key []byte) {
			if string(key) == "stop_reason" {
				stop = m.bytes()
			}
		})
		d.usageOf(&cursor{b: usage})
		d.reasonOf(stop)
	case "message_stop":
		d.ended("message_stop")
		return true, nil
	case "message": // an answer that was not streamed
		m := cursor{b: content}
		n := 0
		m.array(func() {
			if b := m.raw(); err == nil {
				err = cmp.Or(d.begin(n, b), d.stop(n))
			}
			n++
		})
		d.usageOf(&cursor{b: usage})
		d.reasonOf(stop)
		return true, err
	}
	return false, nil
}

func (d *anthropicDecoder) reasonOf(stop []byte) {
	if len(stop) == 0 {
		return
	}
	reason := FinishUnknown
	switch string(stop) {
	case "end_turn", "stop_sequence":
		reason = FinishStop
	case "max_tokens", "model_context_window_exceeded":
		reason = FinishLength
	case "tool_use":
		reason = FinishToolCalls
	case "refusal":
		reason = FinishRefusal
	case "pause_turn", "compaction":
		reason = FinishPause
	}
	d.finish(reason, string(wellFormed(stop)))
}

func (d *anthropicDecoder) begin(at int, raw []byte) error {
	b := &anthropicBlock{raw: append([]byte(nil), raw...)}
	if d.blocks == nil {
		d.blocks = map[int]*anthropicBlock{}
	}
	if len(d.blocks) >= 4096 {
		return errEventSize
	}
	d.blocks[at] = b
	var id, name string
	var text, input, data, citations []byte
	c := cursor{b: b.raw}
	c.object(func(key []byte) {
		switch string(key) {
		case "type":
			b.kind = c.str()
		case "id":
			id = c.str()
		case "name":
			name = c.str()
		case "text", "thinking":
			text = c.bytes()
		case "signature":
			b.signature = c.bytes()
		case "data":
			data = c.bytes()
		case "input":
			input = c.raw()
		case "citations":
			citations = c.raw()
		}
	})
	switch b.kind {
	case "text":
		d.text(EventText, at, text, false)
		if len(citations) > 0 {
			n := cursor{b: citations}
			n.array(func() { d.citation(at, &n) })
		}
	case "thinking":
		d.text(EventReasoning, at, text, false)
	case "redacted_thinking":
		d.opaque("redacted_thinking", data)
	case "tool_use":
		call, err := d.call(at, "", name, nil)
		if err != nil {
			return err
		}
		call.wireID, call.name = id, name
		d.start(call)
		b.call = call
		if bytes.HasPrefix(input, []byte("{")) {
			b.input = input // {} where deltas follow
		}
	}
	return nil
}

func (d *anthropicDecoder) delta(at int, raw []byte) error {
	b := d.blocks[at]
	var kind string
	var text, part, signature, citation []byte
	c := cursor{b: raw}
	c.object(func(key []byte) {
		switch string(key) {
		case "type":
			kind = c.str()
		case "text", "thinking":
			text = c.bytes()
		case "partial_json":
			part = c.bytes()
		case "signature":
			signature = c.bytes()
		case "citation":
			citation = c.raw()
		}
	})
	switch kind {
	case "text_delta":
		d.text(EventText, at, text, false)
	case "thinking_delta":
		d.text(EventReasoning, at, text, false)
	case "signature_delta":
		if b != nil && len(b.signature)+len(signature) <= maxOpaque {
			b.signature = append(b.signature, signature...)
		}
	case "citations_delta":
		d.citation(at, &cursor{b: citation})
	case "input_json_delta":
		if b == nil {
			return nil
		}
		if b.call != nil {
			return d.args(b.call, part)
		}
		if len(b.input)+len(part) > maxArgs {
			return errEventSize
		}
		b.input = append(b.input, part...)
	}
	return nil
}

func (d *anthropicDecoder) stop(at int) error {
	b := d.blocks[at]
	if b == nil {
		return nil
	}
	delete(d.blocks, at)
	switch b.kind {
	case "text", "redacted_thinking":
	case "thinking":
		d.opaque("signature", b.signature)
	case "tool_use":
		if len(b.call.args) == 0 {
			if err := d.args(b.call, b.input); err != nil {
				return err
			}
		}
		d.finishCall(b.call)
	default: // content of the service's own tools, which must be sent back
		if len(b.input) > 0 && json.Valid(b.input) {
			var m map[string]json.RawMessage
			if json.Unmarshal(b.raw, &m) == nil {
				m["input"] = b.input
				if raw, err := json.Marshal(m); err == nil {
					b.raw = raw
				}
			}
		}
		d.opaque("block", b.raw)
	}
	return nil
}

func (d *anthropicDecoder) citation(at int, c *cursor) {
	if len(c.b) == 0 {
		return
	}
	e := Event{Block: at}
	c.object(func(key []byte) {
		switch string(key) {
		case "url":
			e.URL = c.str()
		case "title", "document_title":
			e.Title = c.str()
		}
	})
	d.source(e)
}

// usageOf replaces the counts present in the event; message_start has initial values.
func (d *anthropicDecoder) usageOf(c *cursor) {
	if len(c.b) == 0 || c.peek() != '{' {
		return
	}
	u := d.usage
	written, split := int64(-1), false
	c.object(func(key []byte) {
		switch string(key) {
		case "input_tokens":
			u.Input = c.count()
		case "output_tokens":
			u.Output = c.count()
		case "cache_read_input_tokens":
			u.CacheRead = c.count()
		case "cache_creation_input_tokens":
			written = c.count()
		case "cache_creation":
			if c.peek() != '{' {
				return
			}
			c.object(func(key []byte) {
				switch string(key) {
				case "ephemeral_5m_input_tokens":
					u.CacheWrite, split = c.count(), true
				case "ephemeral_1h_input_tokens":
					u.CacheWrite1h, split = c.count(), true
				}
			})
		}
	})
	if written >= 0 && (!split || u.CacheWrite+u.CacheWrite1h < written) {
		u.CacheWrite = max(written-u.CacheWrite1h, 0)
	}
	d.count(u)
}

// minCached is the smallest prompt, in bytes, that is worth a cache mark: services ignore shorter
// ones.
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
			case PartReasoning: // only allowed with its signature
				if i+1 < len(m.Parts) && m.Parts[i+1].Kind == PartOpaque && m.Parts[i+1].Opaque.Kind == "signature" {
					i++
					content = append(content, object{"type": "thinking", "thinking": part.Text, "signature": string(m.Parts[i].Opaque.Data)})
				}
			case PartOpaque:
				switch part.Opaque.Kind {
				case "signature": // of reasoning that the service does not show
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
	if c.Schema != nil { // the answer is the input of a required tool call
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
