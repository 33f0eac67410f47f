package providers

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
)

// anthropicDecoder reads Anthropic's messages, streamed or whole; Bedrock and Vertex have the same
// bodies.
type anthropicDecoder struct {
	assembler
	blocks map[int]*anthropicBlock
}

// anthropicBlock is a content block that is still open.
type anthropicBlock struct {
	kind      string
	raw       []byte // as it began
	signature []byte
	input     []byte
	call      *pendingCall
}

// end closes blocks that the service left open in an answer that is whole.
func (d *anthropicDecoder) end() {
	if d.reason == "" {
		return
	}
	for _, at := range slices.Sorted(maps.Keys(d.blocks)) {
		_ = d.stop(at) // too long arguments are none
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
	case "message": // the answer in one piece
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
	default: // what the service did by itself: it wants to see it again
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

// usageOf replaces the counts that the event names; message_start has start values.
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
