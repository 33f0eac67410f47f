package providers

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"helix/backend/fault"
)

// summary returns an answer as one line: text, reasoning, calls, sources, reason, usage and error.
func summary(r Reply, err error) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", r.Text())
	if s := r.ReasoningText(); s != "" {
		fmt.Fprintf(&b, " (%s)", s)
	}
	for _, c := range r.Calls() {
		fmt.Fprintf(&b, " %s%s", c.Name, c.Args)
	}
	if len(r.BadArgs) > 0 {
		fmt.Fprintf(&b, " bad:%d", len(r.BadArgs))
	}
	for _, s := range r.Sources {
		fmt.Fprintf(&b, " <%s>", s.URL)
	}
	if r.Usage.Requests > 0 {
		fmt.Fprintf(&b, " %d+%d/%d", r.Usage.Input, r.Usage.CacheRead, r.Usage.Output)
	}
	if err != nil {
		return fmt.Sprintf("%s ! %s", b.String(), fault.KindOf(err))
	}
	return b.String() + " " + r.Reason
}

// events formats data as server-sent events.
func events(data ...string) string {
	return "data: " + strings.Join(data, "\n\ndata: ") + "\n\n"
}

// Services and gateways send more than their references document. None of it may cause a failure, and
// no text, call or count may be lost or duplicated.
func TestUnusualAnswersAreRead(t *testing.T) {
	t.Parallel()
	chunk := func(delta string) string { return `{"choices":[{"index":0,"delta":` + delta + `}]}` }
	const (
		stop  = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
		tools = `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`
		count = `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}`
		hi    = `{"choices":[{"index":0,"delta":{"content":"Hi"}}]}`
		done  = `{"type":"response.completed","response":{"object":"response","status":"completed","output":[],"usage":{"input_tokens":9,"output_tokens":2}}}`
		begun = `{"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":1}}}`
		ended = `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`
	)
	open := func(block string) string {
		return `{"type":"content_block_start","index":0,"content_block":` + block + `}`
	}
	delta := func(d string) string { return `{"type":"content_block_delta","index":0,"delta":` + d + `}` }
	parts := func(p string) string { return `{"candidates":[{"content":{"parts":[` + p + `]}}]}` }
	const geminiStop = `{"candidates":[{"content":{"parts":[{"text":""}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":2}}`
	for name, c := range map[string]struct{ wire, body, want string }{
		// Server-sent events.
		"CRLF":                       {WireChat, strings.ReplaceAll(events(hi, stop, "[DONE]"), "\n", "\r\n"), "Hi stop"},
		"CR alone":                   {WireChat, strings.ReplaceAll(events(hi, stop, "[DONE]"), "\n", "\r"), "Hi stop"},
		"byte order mark":            {WireChat, "\ufeff" + events(hi, stop), "Hi stop"},
		"byte order mark and JSON":   {WireChat, "\ufeff {\"choices\":[{\"message\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}", "Hi stop"},
		"data in several lines":      {WireChat, "data: {\"choices\":\ndata: [{\"delta\":{\"content\":\"Hi\"},\ndata: \"finish_reason\":\"stop\"}]}\n\n", "Hi stop"},
		"no blank lines":             {WireChat, "data: " + hi + "\ndata: " + stop + "\ndata: " + count + "\ndata: [DONE]\n", "Hi 9+0/2 stop"},
		"no space after the colon":   {WireChat, strings.ReplaceAll(events(hi, stop), "data: ", "data:"), "Hi stop"},
		"comments, ids and retries":  {WireChat, ": PROCESSING\n\nid: 1\nretry: 10\n" + events(hi) + ":\n\n" + events(stop), "Hi stop"},
		"empty data":                 {WireChat, "data:\n\ndata: \n\n" + events(hi, stop), "Hi stop"},
		"no blank line at the end":   {WireChat, events(hi) + "data: " + stop, "Hi stop"},
		"bytes after the end":        {WireChat, events(hi, stop, "[DONE]") + "data: {bad\n\n", "Hi stop"},
		"error event with text":      {WireChat, events(hi) + "event: error\ndata: the model crashed\n\n", "Hi ! unavailable"},
		"error event with an object": {WireChat, events(hi) + "event: error\ndata: {\"detail\":\"too many requests\"}\n\n", "Hi ! limit"},
		"a name does not last":       {WireChat, "event: error\n\n" + events(hi, stop), "Hi stop"},

		// Chat completions.
		"unknown members and events":      {WireChat, events(`{"object":"ping"}`, `{"choices":[{"index":0,"delta":{"content":"Hi","x":{"y":[1]}},"logprobs":null}],"x":1}`, `{}`, stop), "Hi stop"},
		"null everywhere":                 {WireChat, events(`{"choices":null,"usage":null,"error":null}`, `{"choices":[{"index":null,"delta":null,"finish_reason":null}]}`, chunk(`{"role":null,"content":null,"tool_calls":null,"refusal":null,"reasoning":null}`), hi, stop), "Hi stop"},
		"empty deltas":                    {WireChat, events(chunk(`{}`), chunk(`{"content":""}`), hi, chunk(`{"content":"","role":"assistant"}`), stop), "Hi stop"},
		"usage in a chunk of its own":     {WireChat, events(hi, stop, count, "[DONE]"), "Hi 9+0/2 stop"},
		"usage in the last chunk":         {WireChat, events(hi, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2}}`), "Hi 9+0/2 stop"},
		"usage in every chunk":            {WireChat, events(`{"choices":[{"delta":{"content":"Hi"}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}`, stop, count), "Hi 9+0/2 stop"},
		"usage taken back by zeros":       {WireChat, events(hi, count, stop, `{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`), "Hi 9+0/2 stop"},
		"usage in the choice":             {WireChat, events(hi, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":9,"completion_tokens":2,"cached_tokens":4}}]}`), "Hi 5+4/2 stop"},
		"no usage":                        {WireChat, events(hi, stop), "Hi stop"},
		"no reason but an end":            {WireChat, events(hi, "[DONE]"), "Hi unknown"},
		"an end without an answer":        {WireChat, events("[DONE]"), " ! unavailable"},
		"reason in capitals":              {WireChat, events(hi, `{"choices":[{"delta":{},"finish_reason":"STOP"}]}`), "Hi stop"},
		"error object in mid-stream":      {WireChat, events(hi, `{"error":{"message":"Overloaded","code":503}}`), "Hi ! unavailable"},
		"error text in mid-stream":        {WireChat, events(hi, `{"error":"out of memory"}`), "Hi ! unavailable"},
		"error in the choice":             {WireChat, events(hi, `{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error","error":{"code":429,"message":"Rate limited"}}]}`), "Hi ! limit"},
		"error in a vendor's member":      {WireChat, events(hi, `{"choices":[],"x_groq":{"error":"over capacity"}}`), "Hi ! unavailable"},
		"error at the top level":          {WireChat, `{"object":"error","message":"context length exceeded","code":400}`, " ! limit"},
		"reasoning as thinking":           {WireChat, events(chunk(`{"thinking":"hm"}`), hi, stop), "Hi (hm) stop"},
		"reasoning twice":                 {WireChat, events(chunk(`{"reasoning":"hm","reasoning_content":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm"}]}`), hi, stop), "Hi (hm) stop"},
		"reasoning in parts":              {WireChat, events(chunk(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"Hi"},{"type":"reference","reference_ids":[1]}]}`), stop), "Hi (hm) stop"},
		"refusal":                         {WireChat, events(chunk(`{"refusal":"No."}`), stop), "No. refusal"},
		"audio in words":                  {WireChat, events(chunk(`{"audio":{"id":"a","transcript":"Hi"}}`), chunk(`{"audio":{"data":"AAAA"}}`), stop), "Hi stop"},
		"images":                          {WireChat, events(chunk(`{"content":"Hi","images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}]}`), stop), "Hi stop"},
		"citations in every chunk":        {WireChat, events(`{"citations":["https://a.example"],"choices":[{"delta":{"content":"Hi"}}]}`, `{"citations":["https://a.example"],"search_results":[{"title":"A","url":"https://a.example"},{"url":"https://b.example"}],"choices":[{"delta":{},"finish_reason":"stop"}]}`), "Hi <https://a.example> <https://b.example> stop"},
		"interleaved calls":               {WireChat, events(chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}},{"index":1,"id":"b","function":{"name":"g","arguments":"{\"y\""}}]}`), chunk(`{"tool_calls":[{"index":1,"function":{"arguments":":2}"}},{"index":0,"function":{"arguments":":1}"}}]}`), tools), ` f{"x":1} g{"y":2} tool_calls`},
		"parallel calls without index":    {WireChat, events(chunk(`{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}]}`), chunk(`{"tool_calls":[{"id":"b","function":{"name":"f","arguments":"{\"x\":2}"}}]}`), tools), ` f{"x":1} f{"x":2} tool_calls`},
		"parallel calls without anything": {WireChat, events(chunk(`{"tool_calls":[{"function":{"name":"f","arguments":"{\"x\":1}"}}]}`), chunk(`{"tool_calls":[{"function":{"name":"f","arguments":"{\"x\":2}"}}]}`), tools), ` f{"x":1} f{"x":2} tool_calls`},
		"one index for all, no ids":       {WireChat, events(chunk(`{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{\"x\":1}"}}]}`), chunk(`{"tool_calls":[{"index":0,"id":"","function":{"name":"f","arguments":"{\"x\":2}"}}]}`), tools), ` f{"x":1} f{"x":2} tool_calls`},
		"a name repeated after a call":    {WireChat, events(chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`), chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]}`), tools), ` f{} tool_calls`},
		"one id for two calls":            {WireChat, events(chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"a","function":{"name":"g","arguments":"{}"}}]}`), tools), ` f{} g{} tool_calls`},
		"calls that end with stop":        {WireChat, events(chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`), stop), ` f{} tool_calls`},
		"arguments that are no JSON":      {WireChat, events(chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}]}`), tools), ` f{"x": bad:1 tool_calls`},
		"a second choice":                 {WireChat, events(`{"choices":[{"index":0,"delta":{"content":"Hi"}},{"index":1,"delta":{"content":"Ho"}}]}`, stop), "Hi stop"},
		"JSON though a stream was asked":  {WireChat, `{"choices":[{"message":{"role":"assistant","content":"Hi","annotations":[{"type":"url_citation","url_citation":{"url":"https://a.example","title":"A"}}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2}}`, "Hi <https://a.example> 9+0/2 stop"},
		"a web page":                      {WireChat, "\n <!doctype html><html>", " ! unavailable"},
		"nothing":                         {WireChat, "", " ! unavailable"},
		"JSON that is no answer":          {WireChat, `{"ok":true}`, " ! unavailable"},
		"malformed JSON":                  {WireChat, events(hi, `{"choices":[`), "Hi ! unavailable"},

		// Responses.
		"unknown events of Responses":    {WireResponses, events(`{"type":"keepalive","sequence_number":3}`, `{"type":"response.web_search_call.searching","output_index":0}`, `{"type":"response.output_item.added","output_index":0,"item":{"type":"web_search_call","id":"w"}}`, `{"type":"response.output_item.done","output_index":0,"item":{"type":"web_search_call","id":"w","action":{"query":"q"}}}`, `{"type":"response.output_text.delta","output_index":1,"delta":"Hi"}`, done), "Hi 9+0/2 stop"},
		"deltas alone":                   {WireResponses, events(`{"type":"response.output_text.delta","output_index":0,"delta":"Hi"}`, done), "Hi 9+0/2 stop"},
		"items that are never complete":  {WireResponses, events(`{"type":"response.output_item.added","output_index":0,"item":{"type":"message","content":[]}}`, `{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Hi"}]},{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}]}}`), "Hi f{} tool_calls"},
		"interleaved calls of Responses": {WireResponses, events(`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"a","name":"f","arguments":""}}`, `{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"b","name":"g","arguments":""}}`, `{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"y\""}`, `{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"x\":1}"}`, `{"type":"response.function_call_arguments.delta","output_index":1,"delta":":2}"}`, done), ` f{"x":1} g{"y":2} 9+0/2 tool_calls`},
		"error event of Responses":       {WireResponses, events(`{"type":"response.output_text.delta","delta":"Hi"}`, `{"type":"error","code":"server_error","message":"Sorry","param":null}`), "Hi ! unavailable"},
		"failed":                         {WireResponses, events(`{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"Slow down"}}}`), " ! limit"},
		"incomplete":                     {WireResponses, events(`{"type":"response.output_text.delta","delta":"Hi"}`, `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[],"usage":{"input_tokens":9,"output_tokens":2,"input_tokens_details":{"cached_tokens":4}}}}`), "Hi 5+4/2 length"},
		"refusal of Responses":           {WireResponses, events(`{"type":"response.refusal.delta","delta":"No."}`, done), "No. 9+0/2 refusal"},
		"summary and text of reasoning":  {WireResponses, events(`{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"a"}`, `{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":1,"delta":"b"}`, `{"type":"response.reasoning.delta","output_index":0,"delta":"c"}`, done), " (abc) 9+0/2 stop"},

		// Anthropic.
		"pings and unknown events":         {WireAnthropic, events(begun, `{"type":"ping"}`, `{"type":"new_event","x":1}`, open(`{"type":"text","text":""}`), delta(`{"type":"new_delta","x":1}`), delta(`{"type":"text_delta","text":"Hi"}`), `{"type":"content_block_stop","index":0}`, ended, `{"type":"message_stop"}`), "Hi 9+0/2 stop"},
		"blocks that are never closed":     {WireAnthropic, events(begun, open(`{"type":"tool_use","id":"a","name":"f","input":{}}`), delta(`{"type":"input_json_delta","partial_json":"{\"x\":1}"}`), ended, `{"type":"message_stop"}`), ` f{"x":1} 9+0/2 tool_calls`},
		"input at the start":               {WireAnthropic, events(begun, open(`{"type":"tool_use","id":"a","name":"f","input":{"x":1}}`), `{"type":"content_block_stop","index":0}`, ended), ` f{"x":1} 9+0/2 tool_calls`},
		"input at the start and in deltas": {WireAnthropic, events(begun, open(`{"type":"tool_use","id":"a","name":"f","input":{"x":0}}`), delta(`{"type":"input_json_delta","partial_json":"{\"x\":1}"}`), `{"type":"content_block_stop","index":0}`, ended), ` f{"x":1} 9+0/2 tool_calls`},
		"input that is null":               {WireAnthropic, events(begun, open(`{"type":"tool_use","id":"a","name":"f","input":null}`), delta(`{"type":"input_json_delta","partial_json":""}`), `{"type":"content_block_stop","index":0}`, ended), ` f{} 9+0/2 tool_calls`},
		"deltas without a block":           {WireAnthropic, events(begun, delta(`{"type":"text_delta","text":"Hi"}`), ended), "Hi 9+0/2 stop"},
		"server tools":                     {WireAnthropic, events(begun, open(`{"type":"server_tool_use","id":"s","name":"web_search","input":{}}`), delta(`{"type":"input_json_delta","partial_json":"{\"query\":\"q\"}"}`), `{"type":"content_block_stop","index":0}`, `{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"Hi"}}`, `{"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{"type":"web_search_result_location","url":"https://a.example"}}}`, `{"type":"content_block_stop","index":1}`, ended), "Hi <https://a.example> 9+0/2 stop"},
		"redacted thinking":                {WireAnthropic, events(begun, open(`{"type":"redacted_thinking","data":"AAAA"}`), `{"type":"content_block_stop","index":0}`, ended), " 9+0/2 stop"},
		"overloaded in mid-stream":         {WireAnthropic, events(begun, delta(`{"type":"text_delta","text":"Hi"}`)) + "event: error\n" + events(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), "Hi 9+0/1 ! unavailable"},
		"no stop reason":                   {WireAnthropic, events(begun, delta(`{"type":"text_delta","text":"Hi"}`), `{"type":"message_delta","delta":{"stop_reason":null},"usage":null}`, `{"type":"message_stop"}`), "Hi 9+0/1 unknown"},
		"a list of models is no answer":    {WireAnthropic, `{"data":[]}`, " ! unavailable"},
		"the counts of the end alone":      {WireAnthropic, events(`{"type":"message_start","message":{"usage":{"input_tokens":0,"output_tokens":0}}}`, delta(`{"type":"text_delta","text":"Hi"}`), `{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"input_tokens":5,"cache_read_input_tokens":4,"output_tokens":2}}`), "Hi 5+4/2 length"},

		// Gemini.
		"unknown parts":                 {WireGemini, events(parts(`{"executableCode":{"language":"PYTHON","code":"1"}},{"codeExecutionResult":{"outcome":"OK"}},{"inlineData":{"mimeType":"image/png","data":"AA"}},{"newPart":1},{"text":"Hi"}`), geminiStop), "Hi 9+0/2 stop"},
		"parallel calls of Gemini":      {WireGemini, events(parts(`{"functionCall":{"name":"f","args":{"x":1}}},{"functionCall":{"name":"f","args":{"x":2}}},{"functionCall":{"name":"g"}}`), geminiStop), ` f{"x":1} f{"x":2} g{} 9+0/2 tool_calls`},
		"a reason in every chunk":       {WireGemini, events(`{"candidates":[{"content":{"parts":[{"text":"H"}]},"finishReason":"STOP"}]}`, `{"candidates":[{"content":{"parts":[{"text":"i"}]},"finishReason":"STOP"}]}`), "Hi stop"},
		"usage of Gemini taken back":    {WireGemini, events(parts(`{"text":"Hi"}`), geminiStop, `{"usageMetadata":{"promptTokenCount":0}}`), "Hi 9+0/2 stop"},
		"an array of chunks":            {WireGemini, "[" + parts(`{"text":"Hi"}`) + "\n,\r\n" + geminiStop + "]", "Hi 9+0/2 stop"},
		"an array with an error":        {WireGemini, `[{"error":{"code":429,"message":"Slow down","status":"RESOURCE_EXHAUSTED"}}]`, " ! limit"},
		"error of Gemini in mid-stream": {WireGemini, events(parts(`{"text":"Hi"}`), `{"error":{"code":503,"message":"Overloaded","status":"UNAVAILABLE"}}`), "Hi ! unavailable"},
		"a blocked prompt":              {WireGemini, events(`{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":9}}`), " 9+0/0 content_filter"},
		"a candidate without content":   {WireGemini, events(parts(`{"text":"Hi"}`), `{"candidates":[{"finishReason":"SAFETY","safetyRatings":[]}]}`), "Hi content_filter"},
		"a chunk in an envelope":        {WireGemini, events(`{"response":` + geminiStop + `}`), " 9+0/2 stop"},
		"sources of a search":           {WireGemini, events(parts(`{"text":"Hi"}`), `{"candidates":[{"finishReason":"STOP","groundingMetadata":{"groundingChunks":[{"web":{"uri":"https://a.example","title":"A"}},{"web":{"uri":"https://a.example"}},{"maps":{}}]}}]}`), "Hi <https://a.example> stop"},
		"a malformed call":              {WireGemini, events(`{"candidates":[{"content":{},"finishReason":"MALFORMED_FUNCTION_CALL"}],"usageMetadata":{"promptTokenCount":9}}`), " 9+0/0 unknown"},
	} {
		lines, reply, err := decodeAll(c.wire, strings.NewReader(c.body))
		if got := summary(reply, err); got != c.want {
			t.Errorf("%s: %q, want %q (%v)", name, got, c.want, err)
		}
		if got, _, _ := decodeAll(c.wire, iotest.OneByteReader(strings.NewReader(c.body))); got != lines {
			t.Errorf("%s: byte by byte the events differ", name)
		}
	}
}

// A service may add members and elements anywhere in any event. The recorded answers must stay the
// same with such additions everywhere.
func TestAdditionsToRecordedEventsChangeNothing(t *testing.T) {
	t.Parallel()
	for i, x := range recorded(t) {
		rnd := rand.New(rand.NewPCG(7, uint64(i)))
		var grow func(v any) any
		grow = func(v any) any {
			switch v := v.(type) {
			case map[string]any:
				for k, e := range v {
					if k != "input" && k != "args" && k != "arguments" { // these belong to the arguments of calls, not to the service
						v[k] = grow(e)
					}
				}
				switch rnd.IntN(3) {
				case 0:
					v["x_added"] = map[string]any{"text": "not shown", "content": []any{"not shown"}}
				case 1:
					v["x_added"] = "not shown"
				}
			case []any:
				for k, e := range v {
					v[k] = grow(e)
				}
			}
			return v
		}
		changed := func(text string) string {
			var v any
			d := json.NewDecoder(strings.NewReader(text))
			d.UseNumber()
			if d.Decode(&v) != nil {
				return text
			}
			out, err := json.Marshal(grow(v))
			must(t, err)
			return string(out)
		}
		var body strings.Builder
		if x.Streamed {
			for line := range strings.Lines(x.Body) {
				if data, ok := strings.CutPrefix(line, "data:"); ok && strings.HasPrefix(strings.TrimSpace(data), "{") {
					line = "data: " + changed(data) + "\n"
				}
				body.WriteString(line)
			}
		} else {
			body.WriteString(changed(x.Body))
		}
		_, want, err := decodeAll(x.Wire, strings.NewReader(x.Body))
		must(t, err)
		_, got, err := decodeAll(x.Wire, strings.NewReader(body.String()))
		if err != nil || summary(got, nil) != summary(want, nil) && !sameButForOrder(got, want) {
			t.Errorf("%s: %v\n got %.300s\nwant %.300s", x.Name, err, summary(got, err), summary(want, nil))
		}
	}
}

// sameButForOrder reports whether two answers are equal, ignoring the order of members in arguments.
func sameButForOrder(a, b Reply) bool {
	order := func(r Reply) Reply {
		for i, p := range r.Parts {
			var v any
			if p.Kind == PartToolCall && json.Unmarshal([]byte(p.Args), &v) == nil {
				out, _ := json.Marshal(v)
				r.Parts[i].Args = string(out)
			}
		}
		return r
	}
	return summary(order(a), nil) == summary(order(b), nil)
}
