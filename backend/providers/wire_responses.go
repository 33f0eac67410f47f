package providers

import "encoding/json"

// responsesDecoder reads OpenAI's Responses API. An answer that was not streamed is the object that
// response.completed carries.
type responsesDecoder struct {
	assembler
	streams map[int]bool // output items whose text arrived as deltas
	items   int          // number of complete items
	refused bool
}

func (d *responsesDecoder) end() {}

func (d *responsesDecoder) event(data []byte) (done bool, err error) {
	c := cursor{b: data}
	var kind string
	var item, response, delta, annotation, arguments, errorText []byte
	var output, summary int64 = 0, -1
	c.object(func(key []byte) {
		switch string(key) {
		case "type":
			kind = c.str()
		case "object":
			if string(c.bytes()) == "response" {
				response = data
			}
		case "delta":
			delta = c.bytes()
		case "item":
			item = c.raw()
		case "response":
			response = c.raw()
		case "output_index":
			output = min(c.count(), 1<<20)
		case "summary_index":
			summary = min(c.count(), 1<<10)
		case "annotation":
			annotation = c.raw()
		case "arguments":
			arguments = c.bytes()
		case "error":
			if c.peek() == '{' {
				errorText = c.raw()
			}
		}
	})
	if err := c.end(); err != nil {
		return false, err
	}
	if errorText != nil {
		return false, serviceError(&cursor{b: errorText}, 0)
	}
	block := int(output)
	switch kind {
	case "response.output_text.delta", "response.refusal.delta":
		d.streamed(block)
		d.text(EventText, block, delta, false)
		if kind == "response.refusal.delta" {
			d.refused = true
		}
	case "response.reasoning_text.delta", "response.reasoning.delta":
		d.streamed(block)
		d.text(EventReasoning, block, delta, false)
	case "response.reasoning_summary_text.delta":
		d.streamed(block)
		d.text(EventReasoning, block<<10+int(max(summary, 0)), delta, true)
	case "response.output_item.added":
		return false, d.item(item, block, false)
	case "response.output_item.done":
		return false, d.item(item, block, true)
	case "response.function_call_arguments.delta":
		call, err := d.call(block, "", "", nil)
		if err != nil {
			return false, err
		}
		return false, d.args(call, delta)
	case "response.function_call_arguments.done":
		if call, err := d.call(block, "", "", nil); err == nil && len(call.args) == 0 {
			return false, d.args(call, arguments)
		}
	case "response.output_text.annotation.added":
		d.annotation(&cursor{b: annotation})
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled", "response.done":
		return true, d.response(response)
	case "error":
		return false, serviceError(&cursor{b: data}, 0)
	case "":
		if response != nil {
			return true, d.response(data)
		}
	}
	return false, nil
}

func (d *responsesDecoder) streamed(block int) {
	if d.streams == nil {
		d.streams = map[int]bool{}
	}
	d.streams[block] = true
}

// item reads an output item, both when it begins and when it is complete.
func (d *responsesDecoder) item(raw []byte, block int, complete bool) (err error) {
	var kind, id, name string
	var args, content, summary, sealed []byte
	c := cursor{b: raw}
	c.object(func(key []byte) {
		switch string(key) {
		case "type":
			kind = c.str()
		case "call_id":
			id = c.str()
		case "name":
			name = c.str()
		case "arguments", "input":
			if ch := c.peek(); ch == '"' {
				args = c.bytes()
			} else {
				args = c.raw()
			}
		case "content":
			content = c.raw()
		case "summary":
			summary = c.raw()
		case "encrypted_content":
			sealed = c.bytes()
		}
	})
	if complete {
		d.items++
	}
	switch kind {
	case "function_call":
		call, err := d.call(block, "", "", nil)
		if err != nil {
			return err
		}
		if call.wireID == "" {
			call.wireID = id
		}
		if call.name == "" {
			call.name = name
		}
		d.start(call)
		if !complete {
			return nil
		}
		if len(call.args) == 0 {
			err = d.args(call, args)
		}
		d.finishCall(call)
		return err
	case "message":
		if complete && !d.streams[block] {
			d.content(content, block, EventText)
		}
	case "reasoning":
		if !complete {
			return nil
		}
		if !d.streams[block] {
			d.content(summary, block<<10, EventReasoning)
			d.content(content, block, EventReasoning)
		}
		if len(sealed) > 0 {
			d.opaque("reasoning", raw)
		}
	}
	return nil
}

// content reads the texts of a complete item.
func (d *responsesDecoder) content(raw []byte, block int, as EventType) {
	if len(raw) == 0 {
		return
	}
	c := cursor{b: raw}
	c.array(func() {
		var kind string
		var text, notes []byte
		c.object(func(key []byte) {
			switch string(key) {
			case "type":
				kind = c.str()
			case "text", "refusal":
				text = c.bytes()
			case "annotations":
				notes = c.raw()
			}
		})
		if kind == "refusal" {
			d.refused = true
		}
		d.text(as, block, text, kind == "summary_text")
		if kind == "summary_text" {
			block++
		}
		if len(notes) > 0 {
			n := cursor{b: notes}
			n.array(func() { d.annotation(&n) })
		}
	})
}

func (d *responsesDecoder) annotation(c *cursor) {
	var e Event
	c.object(func(key []byte) {
		switch string(key) {
		case "url":
			e.URL = c.str()
		case "title":
			e.Title = c.str()
		}
	})
	d.source(e)
}

// response reads the final object: the usage, the reason, and the output if no complete item came before.
func (d *responsesDecoder) response(raw []byte) error {
	c := cursor{b: raw}
	var status, why string
	var output, failure []byte
	c.object(func(key []byte) {
		switch string(key) {
		case "status":
			status = c.str()
		case "incomplete_details":
			c.object(func(key []byte) {
				if string(key) == "reason" {
					why = c.str()
				}
			})
		case "output":
			output = c.raw()
		case "usage":
			d.usageOf(&c)
		case "error":
			if c.peek() == '{' {
				failure = c.raw()
			}
		}
	})
	if failure != nil {
		return serviceError(&cursor{b: failure}, 0)
	}
	var err error
	if d.items == 0 && len(output) > 0 {
		o := cursor{b: output}
		block := 0
		o.array(func() {
			if e := d.item(o.raw(), block, true); err == nil {
				err = e
			}
			block++
		})
	}
	switch {
	case status == "failed" || status == "cancelled":
		return (&ServiceError{Code: status, Message: "The service ended the answer."}).fault(0)
	case status == "incomplete" && why == "content_filter":
		d.finish(FinishContentFilter, why)
	case status == "incomplete" && (why == "max_output_tokens" || why == ""):
		d.finish(FinishLength, orStatus(why, status))
	case status == "incomplete":
		d.finish(FinishUnknown, why)
	case status == "completed" || status == "":
		reason := FinishStop
		if d.refused {
			reason = FinishRefusal
		}
		d.finish(reason, orStatus(status, "completed"))
	}
	return err
}

func orStatus(why, status string) string {
	if why == "" {
		return status
	}
	return why
}

func (d *responsesDecoder) usageOf(c *cursor) {
	if c.peek() != '{' {
		c.skip()
		return
	}
	var input, cached int64
	var u Usage
	c.object(func(key []byte) {
		switch string(key) {
		case "input_tokens":
			input = c.count()
		case "output_tokens":
			u.Output = c.count()
		case "input_tokens_details":
			c.object(func(key []byte) {
				if string(key) == "cached_tokens" {
					cached = c.count()
				}
			})
		case "output_tokens_details":
			c.object(func(key []byte) {
				if string(key) == "reasoning_tokens" {
					u.Reasoning = c.count()
				}
			})
		}
	})
	u.Input, u.CacheRead = max(input-cached, 0), cached
	d.count(u)
}

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
