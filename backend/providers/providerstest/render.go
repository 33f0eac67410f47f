package providerstest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"helix/backend/providers"
)

// render writes a reply in the format of a wire: the events of a stream, or one JSON document.
func render(wire string, r providers.ScriptedReply, u providers.Usage, stream bool) []string {
	if r.Finish == "" {
		r.Finish = providers.FinishStop
		if len(r.Calls) > 0 {
			r.Finish = providers.FinishToolCalls
		}
	}
	r.Calls = slices.Clone(r.Calls) // the slice in the options is shared by concurrent calls
	for i := range r.Calls {
		if len(r.Calls[i].Args) == 0 {
			r.Calls[i].Args = json.RawMessage("{}")
		}
		if r.Calls[i].ID == "" {
			r.Calls[i].ID = fmt.Sprintf("call_%d", i+1)
		}
	}
	switch wire {
	case providers.WireResponses:
		return responses(r, u, stream)
	case providers.WireAnthropic:
		return anthropic(r, u, stream)
	case providers.WireGemini:
		return gemini(r, u, stream)
	}
	return chat(r, u, stream)
}

// pieces splits a text into words, and arguments into halves, as services do.
func pieces(text string) []string {
	var out []string
	for _, word := range strings.SplitAfter(text, " ") {
		if word != "" {
			out = append(out, word)
		}
	}
	return out
}

func halves(args json.RawMessage) []string {
	if n := len(args) / 2; n > 0 {
		return []string{string(args[:n]), string(args[n:])}
	}
	return []string{string(args)}
}

func data(v any) string { return "data: " + encode(v) + "\n\n" }

func chat(r providers.ScriptedReply, u providers.Usage, stream bool) (out []string) {
	usage := object{
		"prompt_tokens": u.Prompt(), "completion_tokens": u.Output, "total_tokens": u.Prompt() + u.Output,
		"prompt_tokens_details":     object{"cached_tokens": u.CacheRead, "cache_write_tokens": u.CacheWrite + u.CacheWrite1h},
		"completion_tokens_details": object{"reasoning_tokens": u.Reasoning},
	}
	call := func(i int, c providers.ScriptedCall, args string) object {
		return object{"index": i, "id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": args}}
	}
	if !stream {
		message := object{"role": "assistant", "content": r.Text}
		if r.Reasoning != "" {
			message["reasoning_content"] = r.Reasoning
		}
		var calls []object
		for i, c := range r.Calls {
			calls = append(calls, call(i, c, string(c.Args)))
		}
		if calls != nil {
			message["tool_calls"] = calls
		}
		return []string{encode(object{"object": "chat.completion", "choices": []object{{"index": 0, "message": message, "finish_reason": r.Finish}}, "usage": usage})}
	}
	chunk := func(delta object, finish any) {
		out = append(out, data(object{"object": "chat.completion.chunk", "choices": []object{{"index": 0, "delta": delta, "finish_reason": finish}}}))
	}
	chunk(object{"role": "assistant", "content": ""}, nil)
	for _, p := range pieces(r.Reasoning) {
		chunk(object{"reasoning_content": p}, nil)
	}
	for _, p := range pieces(r.Text) {
		chunk(object{"content": p}, nil)
	}
	for i, c := range r.Calls {
		chunk(object{"tool_calls": []object{call(i, c, "")}}, nil)
		for _, p := range halves(c.Args) {
			chunk(object{"tool_calls": []object{{"index": i, "function": object{"arguments": p}}}}, nil)
		}
	}
	chunk(object{}, r.Finish)
	return append(out, data(object{"object": "chat.completion.chunk", "choices": []object{}, "usage": usage}), "data: [DONE]\n\n")
}

func responses(r providers.ScriptedReply, u providers.Usage, stream bool) (out []string) {
	emit := func(kind string, o object) {
		o["type"], o["sequence_number"] = kind, len(out)
		out = append(out, "event: "+kind+"\n"+data(o))
	}
	var items []object
	if r.Reasoning != "" {
		items = append(items, object{"type": "reasoning", "id": "rs_1", "summary": []object{{"type": "summary_text", "text": r.Reasoning}}})
	}
	if r.Text != "" {
		items = append(items, object{"type": "message", "id": "msg_1", "role": "assistant", "content": []object{{"type": "output_text", "text": r.Text, "annotations": []object{}}}})
	}
	for i, c := range r.Calls {
		items = append(items, object{"type": "function_call", "id": fmt.Sprint("fc_", i+1), "call_id": c.ID, "name": c.Name, "arguments": string(c.Args)})
	}
	response := object{"object": "response", "id": "resp_1", "status": "completed", "output": items, "usage": object{
		"input_tokens": u.Prompt(), "output_tokens": u.Output, "total_tokens": u.Prompt() + u.Output,
		"input_tokens_details": object{"cached_tokens": u.CacheRead}, "output_tokens_details": object{"reasoning_tokens": u.Reasoning},
	}}
	switch r.Finish {
	case providers.FinishLength:
		response["status"], response["incomplete_details"] = "incomplete", object{"reason": "max_output_tokens"}
	case providers.FinishContentFilter:
		response["status"], response["incomplete_details"] = "incomplete", object{"reason": "content_filter"}
	}
	if !stream {
		return []string{encode(response)}
	}
	emit("response.created", object{"response": object{"object": "response", "id": "resp_1", "status": "in_progress"}})
	for at, item := range items {
		added := object{}
		for k, v := range item {
			added[k] = v
		}
		switch item["type"] {
		case "reasoning":
			added["summary"] = []object{}
			emit("response.output_item.added", object{"output_index": at, "item": added})
			for _, p := range pieces(r.Reasoning) {
				emit("response.reasoning_summary_text.delta", object{"output_index": at, "summary_index": 0, "delta": p})
			}
		case "message":
			added["content"] = []object{}
			emit("response.output_item.added", object{"output_index": at, "item": added})
			for _, p := range pieces(r.Text) {
				emit("response.output_text.delta", object{"output_index": at, "content_index": 0, "delta": p})
			}
		default:
			args, _ := item["arguments"].(string)
			added["arguments"] = ""
			emit("response.output_item.added", object{"output_index": at, "item": added})
			for _, p := range halves(json.RawMessage(args)) {
				emit("response.function_call_arguments.delta", object{"output_index": at, "delta": p})
			}
			emit("response.function_call_arguments.done", object{"output_index": at, "arguments": args})
		}
		emit("response.output_item.done", object{"output_index": at, "item": item})
	}
	kind := "response.completed"
	if response["status"] == "incomplete" {
		kind = "response.incomplete"
	}
	emit(kind, object{"response": response})
	return out
}

func anthropic(r providers.ScriptedReply, u providers.Usage, stream bool) (out []string) {
	emit := func(kind string, o object) {
		o["type"] = kind
		out = append(out, "event: "+kind+"\n"+data(o))
	}
	stop, ok := map[string]string{
		providers.FinishStop: "end_turn", providers.FinishLength: "max_tokens", providers.FinishToolCalls: "tool_use", providers.FinishRefusal: "refusal", providers.FinishPause: "pause_turn",
	}[r.Finish]
	if !ok {
		stop = r.Finish
	}
	usage := object{
		"input_tokens": u.Input, "output_tokens": u.Output, "cache_read_input_tokens": u.CacheRead, "cache_creation_input_tokens": u.CacheWrite + u.CacheWrite1h,
		"cache_creation": object{"ephemeral_5m_input_tokens": u.CacheWrite, "ephemeral_1h_input_tokens": u.CacheWrite1h},
	}
	var blocks []object
	if r.Reasoning != "" {
		blocks = append(blocks, object{"type": "thinking", "thinking": r.Reasoning, "signature": "c2lnbmF0dXJl"})
	}
	if r.Text != "" {
		blocks = append(blocks, object{"type": "text", "text": r.Text})
	}
	for _, c := range r.Calls {
		blocks = append(blocks, object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": c.Args})
	}
	if !stream {
		return []string{encode(object{"type": "message", "id": "msg_1", "role": "assistant", "content": blocks, "stop_reason": stop, "usage": usage})}
	}
	emit("message_start", object{"message": object{"type": "message", "id": "msg_1", "role": "assistant", "content": []object{}, "usage": object{"input_tokens": u.Input, "output_tokens": 1}}})
	for at, b := range blocks {
		begin, deltas := object{"type": b["type"]}, []object{}
		switch b["type"] {
		case "thinking":
			begin["thinking"], begin["signature"] = "", ""
			for _, p := range pieces(r.Reasoning) {
				deltas = append(deltas, object{"type": "thinking_delta", "thinking": p})
			}
			deltas = append(deltas, object{"type": "signature_delta", "signature": b["signature"]})
		case "text":
			begin["text"] = ""
			for _, p := range pieces(r.Text) {
				deltas = append(deltas, object{"type": "text_delta", "text": p})
			}
		default:
			begin["id"], begin["name"], begin["input"] = b["id"], b["name"], object{}
			args, _ := b["input"].(json.RawMessage)
			for _, p := range halves(args) {
				deltas = append(deltas, object{"type": "input_json_delta", "partial_json": p})
			}
		}
		emit("content_block_start", object{"index": at, "content_block": begin})
		for _, d := range deltas {
			emit("content_block_delta", object{"index": at, "delta": d})
		}
		emit("content_block_stop", object{"index": at})
	}
	emit("message_delta", object{"delta": object{"stop_reason": stop}, "usage": usage})
	emit("message_stop", object{})
	return out
}

func gemini(r providers.ScriptedReply, u providers.Usage, stream bool) (out []string) {
	reason, ok := map[string]string{
		providers.FinishStop: "STOP", providers.FinishToolCalls: "STOP", providers.FinishLength: "MAX_TOKENS", providers.FinishContentFilter: "SAFETY", providers.FinishRefusal: "SAFETY",
	}[r.Finish]
	if !ok {
		reason = r.Finish
	}
	usage := object{
		"promptTokenCount": u.Prompt(), "cachedContentTokenCount": u.CacheRead, "thoughtsTokenCount": u.Reasoning, "candidatesTokenCount": u.Output - u.Reasoning,
		"totalTokenCount": u.Prompt() + u.Output,
	}
	var parts []object
	text := func(s string, thought bool) {
		list := []string{s}
		if stream {
			list = pieces(s)
		}
		for _, p := range list {
			switch {
			case p != "" && thought:
				parts = append(parts, object{"text": p, "thought": true})
			case p != "":
				parts = append(parts, object{"text": p})
			}
		}
	}
	text(r.Reasoning, true)
	text(r.Text, false)
	for _, c := range r.Calls {
		parts = append(parts, object{"functionCall": object{"id": c.ID, "name": c.Name, "args": c.Args}})
	}
	if !stream {
		return []string{encode(object{"candidates": []object{{"content": object{"role": "model", "parts": parts}, "finishReason": reason}}, "usageMetadata": usage})}
	}
	for _, p := range parts {
		out = append(out, data(object{"candidates": []object{{"content": object{"role": "model", "parts": []object{p}}}}}))
	}
	out = append(out, data(object{"usageMetadata": usage})) // cumulative, in several chunks
	return append(out, data(object{"candidates": []object{{"content": object{"role": "model", "parts": []object{{"text": ""}}}, "finishReason": reason}}, "usageMetadata": usage}))
}
