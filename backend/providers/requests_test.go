package providers

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// anyText reads content that is either a text or a list of parts.
func anyText(v any) (out []Part) {
	switch v := v.(type) {
	case string:
		if v != "" {
			out = append(out, TextPart(v))
		}
	case []any:
		for _, e := range v {
			m, _ := e.(object)
			text, _ := m["text"].(string)
			switch m["type"] {
			case nil, "text", "input_text", "output_text":
				if text != "" {
					out = append(out, TextPart(text))
				}
			case "image_url", "input_image":
				url, _ := m["image_url"].(string)
				if o, ok := m["image_url"].(object); ok {
					url, _ = o["url"].(string)
				}
				if _, data, ok := strings.Cut(url, ";base64,"); ok {
					raw, _ := base64.StdEncoding.DecodeString(data)
					out = append(out, Part{Kind: PartImage, Data: raw})
				}
			case "image":
				src, _ := m["source"].(object)
				data, _ := src["data"].(string)
				raw, _ := base64.StdEncoding.DecodeString(data)
				out = append(out, Part{Kind: PartImage, Data: raw})
			}
		}
	}
	return out
}

func asText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	b, _ := json.Marshal(v)
	return string(b)
}

func number(v any) int { n, _ := v.(float64); return int(n) }

// readRequest parses a body of a wire to its meaning: texts, images, calls, results, tools and
// limits. It shares no code with the encoder, and leaves out what other services have no equivalent
// for.
func readRequest(wire, body string) (q Request, system string) {
	var o object
	if json.Unmarshal([]byte(body), &o) != nil {
		return q, ""
	}
	list := func(v any) []object {
		var out []object
		l, _ := v.([]any)
		for _, e := range l {
			if m, ok := e.(object); ok {
				out = append(out, m)
			}
		}
		return out
	}
	say := func(role string, parts ...Part) {
		if len(parts) == 0 {
			return
		}
		if n := len(q.Messages); n > 0 && q.Messages[n-1].Role == role {
			q.Messages[n-1].Parts = append(q.Messages[n-1].Parts, parts...)
			return
		}
		q.Messages = append(q.Messages, Message{Role: role, Parts: parts})
	}
	tool := func(name, description, schema any) {
		raw, _ := json.Marshal(schema)
		n, _ := name.(string)
		d, _ := description.(string)
		q.Tools = append(q.Tools, ToolDecl{Name: n, Description: d, Input: raw})
	}
	var systems []string
	stream, _ := o["stream"].(bool)
	q.NoStream = !stream
	q.MaxOutput = number(cmp.Or(o["max_tokens"], o["max_completion_tokens"], o["max_output_tokens"]))
	call := func(id, name, args any) Part {
		return Part{Kind: PartToolCall, ID: asText(id), Name: asText(name), Args: asText(args)}
	}
	switch wire {
	case WireChat:
		for _, m := range list(o["messages"]) {
			role, _ := m["role"].(string)
			parts := anyText(m["content"])
			switch role {
			case "system", "developer":
				for _, p := range parts {
					systems = append(systems, p.Text)
				}
				continue
			case "tool":
				text := ""
				for _, p := range parts {
					text += p.Text
				}
				say(Tool, Part{Kind: PartToolResult, ID: asText(m["tool_call_id"]), Text: text})
				continue
			}
			for _, c := range list(m["tool_calls"]) {
				f, _ := c["function"].(object)
				parts = append(parts, call(c["id"], f["name"], f["arguments"]))
			}
			say(role, parts...)
		}
		for _, t := range list(o["tools"]) {
			f, _ := t["function"].(object)
			tool(f["name"], f["description"], f["parameters"])
		}
	case WireResponses:
		systems = append(systems, asText(o["instructions"]))
		if s, ok := o["input"].(string); ok {
			say(User, TextPart(s))
		}
		for _, m := range list(o["input"]) {
			switch role, _ := m["role"].(string); {
			case m["type"] == "function_call":
				say(Assistant, call(m["call_id"], m["name"], m["arguments"]))
			case m["type"] == "function_call_output":
				say(Tool, Part{Kind: PartToolResult, ID: asText(m["call_id"]), Text: asText(m["output"])})
			case role == "system" || role == "developer":
				for _, p := range anyText(m["content"]) {
					systems = append(systems, p.Text)
				}
			case role != "":
				say(role, anyText(m["content"])...)
			}
		}
		for _, t := range list(o["tools"]) {
			if t["type"] == "function" {
				tool(t["name"], t["description"], t["parameters"])
			}
		}
	case WireAnthropic:
		for _, p := range anyText(o["system"]) {
			systems = append(systems, p.Text)
		}
		for _, m := range list(o["messages"]) {
			role, _ := m["role"].(string)
			parts := anyText(m["content"])
			for _, b := range list(m["content"]) {
				switch b["type"] {
				case "tool_use":
					parts = append(parts, call(b["id"], b["name"], b["input"]))
				case "tool_result":
					text := ""
					for _, p := range anyText(b["content"]) {
						text += p.Text
					}
					// Anthropic rejects an empty result, so the encoder sends a dash. Screenshots as
					// results are not supported.
					say(Tool, Part{Kind: PartToolResult, ID: asText(b["tool_use_id"]), Text: cmp.Or(text, "-")})
				}
			}
			say(role, parts...)
		}
		for _, t := range list(o["tools"]) {
			if t["input_schema"] != nil {
				tool(t["name"], t["description"], t["input_schema"])
			}
		}
	case WireGemini:
		q.NoStream = true // the URL determines whether it streams
		si, _ := cmp.Or(o["systemInstruction"], o["system_instruction"]).(object)
		for _, p := range anyText(si["parts"]) {
			systems = append(systems, p.Text)
		}
		g, _ := o["generationConfig"].(object)
		q.MaxOutput = number(g["maxOutputTokens"])
		for _, m := range list(o["contents"]) {
			role := User
			if m["role"] == "model" {
				role = Assistant
			}
			for _, p := range list(m["parts"]) {
				text, _ := p["text"].(string)
				if d, ok := p["inlineData"].(object); ok {
					raw, _ := base64.StdEncoding.DecodeString(asText(d["data"]))
					say(role, Part{Kind: PartImage, Data: raw})
				}
				if f, ok := p["functionCall"].(object); ok {
					say(Assistant, call(asText(f["name"]), f["name"], f["args"]))
				} else if f, ok := p["functionResponse"].(object); ok {
					r, _ := f["response"].(object)
					say(Tool, Part{Kind: PartToolResult, ID: asText(f["name"]), Text: asText(cmp.Or(r["output"], r["result"], r["error"]))})
				} else if text != "" && p["thought"] != true {
					say(role, TextPart(text))
				}
			}
		}
		for _, t := range list(o["tools"]) {
			for _, f := range list(t["functionDeclarations"]) {
				tool(f["name"], f["description"], nil) // its schema dialect is not JSON Schema
			}
		}
	}
	slices.SortFunc(q.Tools, func(a, b ToolDecl) int { return strings.Compare(a.Name, b.Name) })
	return q, strings.Join(slices.DeleteFunc(systems, func(s string) bool { return s == "" }), "\n\n")
}

// inOneForm returns the meaning of a request, with arguments in canonical form.
func inOneForm(q Request, system string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "system %q, output %d, stream %v\n", system, q.MaxOutput, !q.NoStream)
	for _, m := range q.Messages {
		for _, p := range m.Parts {
			var args any
			if json.Unmarshal([]byte(p.Args), &args) == nil {
				p.Args = asText(args)
			}
			fmt.Fprintf(&b, "%s %s %s %q %s %d bytes\n", m.Role, p.Kind, p.ID+" "+p.Name, p.Text, p.Args, len(p.Data))
		}
	}
	for _, t := range q.Tools {
		fmt.Fprintf(&b, "tool %s %q %s\n", t.Name, t.Description, t.Input)
	}
	return b.String()
}

// The requests of the recorded clients, and the requests that this package would send for the same
// content, have the same meaning.
func TestRequestsMeanWhatTheRecordedOnesMean(t *testing.T) {
	t.Parallel()
	compared := map[string]int{}
	for _, x := range recorded(t) {
		q, system := readRequest(x.Wire, x.Request)
		if len(q.Messages) == 0 {
			t.Errorf("%s: the recorded request can't be read: %.200s", x.Name, x.Request)
			continue
		}
		want := inOneForm(q, system)
		if system != "" {
			q.System = []Part{TextPart(system)}
		}
		if x.Wire == WireGemini {
			for i := range q.Tools {
				q.Tools[i].Input = nil
			}
		}
		body, warnings, err := encodeCall(x.Wire, Call{Request: q, Provider: "p", ID: "m", Official: strings.Contains(x.Request, "max_completion_tokens"), Info: ModelInfo{Output: 1 << 20, Caps: Caps{Tools: true, Images: true, Files: true}}})
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v %v", x.Name, err, warnings)
			continue
		}
		ours, oursSystem := readRequest(x.Wire, string(body))
		if got := inOneForm(ours, oursSystem); got != want {
			a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
			for i := range b {
				if i >= len(a) || a[i] != b[i] {
					t.Errorf("%s:\n got %.300s\nwant %.300s", x.Name, a[min(i, len(a)-1)], b[i])
					break
				}
			}
		}
		compared[x.Wire]++
	}
	if compared[WireChat] != 194 || compared[WireResponses] != 54 || compared[WireAnthropic] != 37 || compared[WireGemini] != 56 {
		t.Errorf("compared: %v", compared)
	}
}
