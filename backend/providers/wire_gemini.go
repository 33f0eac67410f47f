package providers

import "helix/backend/fault"

// geminiDecoder reads generateContent. A chunk of a stream has the form of a complete answer with
// less content.
type geminiDecoder struct {
	assembler
	block int
	last  string // kind of the last part; a change begins a new block
}

func (d *geminiDecoder) end() {}

func (d *geminiDecoder) event(data []byte) (done bool, err error) {
	c := cursor{b: data}
	c.object(func(key []byte) {
		switch string(key) {
		case "candidates":
			n := 0
			c.array(func() {
				if n++; n == 1 {
					if e := d.candidate(&c); err == nil {
						err = e
					}
				}
			})
		case "usageMetadata":
			d.usageOf(&c)
		case "promptFeedback":
			c.object(func(key []byte) {
				if string(key) == "blockReason" {
					if raw := c.str(); raw != "" {
						d.finish(FinishContentFilter, raw)
					}
				}
			})
		case "error":
			if ch := c.peek(); ch == '{' || ch == '"' {
				err = serviceError(&c, 0)
			}
		case "response": // Vertex and the command line wrap the chunk
			if c.peek() == '{' {
				_, err = d.event(c.raw())
			}
		}
	})
	if err == nil {
		err = c.end()
	}
	return false, err
}

func (d *geminiDecoder) candidate(c *cursor) (err error) {
	c.object(func(key []byte) {
		switch string(key) {
		case "content":
			c.object(func(key []byte) {
				if string(key) == "parts" {
					c.array(func() {
						if e := d.part(c); err == nil {
							err = e
						}
					})
				}
			})
		case "finishReason":
			if raw := c.str(); raw != "" {
				d.finish(geminiReason(raw), raw)
			}
		case "groundingMetadata":
			c.object(func(key []byte) {
				if string(key) == "groundingChunks" {
					c.array(func() { d.grounding(c) })
				}
			})
		}
	})
	return err
}

func geminiReason(raw string) string {
	switch raw {
	case "STOP":
		return FinishStop
	case "MAX_TOKENS":
		return FinishLength
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "LANGUAGE":
		return FinishContentFilter
	}
	return FinishUnknown
}

func (d *geminiDecoder) grounding(c *cursor) {
	e := Event{Block: d.block}
	c.object(func([]byte) { // web, retrievedContext, maps
		c.object(func(key []byte) {
			switch string(key) {
			case "uri":
				e.URL = c.str()
			case "title":
				e.Title = c.str()
			}
		})
	})
	d.source(e)
}

func (d *geminiDecoder) part(c *cursor) error {
	var text, signature, function []byte
	var thought bool
	c.object(func(key []byte) {
		switch string(key) {
		case "text":
			text = c.bytes()
		case "thought":
			thought = c.truth()
		case "thoughtSignature", "thought_signature":
			signature = c.bytes()
		case "functionCall":
			function = c.raw()
		}
	})
	if c.bad {
		return nil
	}
	kind := "text"
	switch {
	case len(function) > 0 && function[0] == '{':
		kind = "call"
	case thought:
		kind = "thought"
	}
	if kind != d.last {
		if d.last != "" {
			d.block++
		}
		d.last = kind
	}
	// A signature precedes what it signs; one that signs nothing visible becomes a separate part.
	if len(signature) > 0 {
		of := kind
		if kind == "text" && len(text) == 0 {
			of = "part"
		}
		d.opaque(of, signature)
	}
	switch kind {
	case "call":
		return d.functionCall(function)
	case "thought":
		d.text(EventReasoning, d.block, text, true)
	default:
		d.text(EventText, d.block, text, false)
	}
	return nil
}

func (d *geminiDecoder) functionCall(raw []byte) error {
	c := cursor{b: raw}
	var id, name string
	var args []byte
	c.object(func(key []byte) {
		switch string(key) {
		case "id":
			id = c.str()
		case "name":
			name = c.str()
		case "args":
			if c.peek() == '{' {
				args = c.raw()
			}
		}
	})
	call, err := d.call(len(d.calls), "", name, args) // each call arrives complete
	if err != nil {
		return err
	}
	call.wireID, call.name = id, name
	err = d.args(call, args)
	d.finishCall(call)
	return err
}

func (d *geminiDecoder) usageOf(c *cursor) {
	if c.peek() != '{' {
		c.skip()
		return
	}
	var prompt, cached, tools, candidates, thoughts int64
	c.object(func(key []byte) {
		switch string(key) {
		case "promptTokenCount":
			prompt = c.count()
		case "cachedContentTokenCount":
			cached = c.count()
		case "toolUsePromptTokenCount":
			tools = c.count()
		case "candidatesTokenCount":
			candidates = c.count()
		case "thoughtsTokenCount":
			thoughts = c.count()
		}
	})
	if prompt+candidates+thoughts+tools == 0 {
		return
	}
	d.count(Usage{Input: max(prompt-cached, 0) + tools, CacheRead: cached, ToolPrompt: tools, Output: candidates + thoughts, Reasoning: thoughts})
}

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
