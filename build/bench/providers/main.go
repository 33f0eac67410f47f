// Command providers measures the decoders of backend/providers over the streamed bodies of the
// recordings, beside the official SDKs with their accumulators, in the same run. Each SDK keeps one
// client for all bodies, whose transport returns the body without a network. Time and allocations
// are those of the process; from the peers' are subtracted those of as many exchanges with an empty
// answer, so that the building of their requests doesn't count. HELIX_DATA names the folder that
// holds the recordings.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"

	"helix/backend/providers"
	"helix/backend/providers/recordings"
	"helix/backend/safehttp"
	"helixbench/figures"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench providers:", err)
		os.Exit(1)
	}
}

// answer is what both sides must agree on.
type answer struct {
	text   string
	calls  string // names and arguments, each followed by a zero byte
	input  int64  // of the whole prompt
	output int64
}

// side reads a body with one implementation.
type side func(body string) (answer, error)

func main() {
	all, err := recordings.Read(filepath.Join(cmp.Or(os.Getenv("HELIX_DATA"), "../../../shared/data"), "providers"))
	check(err)
	reasons := known("providers/differences.txt")
	red := false
	for _, w := range []struct {
		name, wire, peer string
		theirs           side
	}{
		{"chat", providers.WireChat, "openai-go", chat()},
		{"responses", providers.WireResponses, "openai-go", openaiResponses()},
		{"anthropic", providers.WireAnthropic, "anthropic-sdk-go", messages()},
		{"gemini", providers.WireGemini, "genai", gemini()},
	} {
		ours := func(body string) (answer, error) {
			r, err := providers.Fold(providers.Decode(w.wire, strings.NewReader(body), providers.DecodeOptions{}))
			a := answer{text: r.Text(), input: r.Usage.Prompt(), output: r.Usage.Output}
			for _, c := range r.Calls() {
				a.calls += c.Name + "\x00" + c.Args + "\x00"
			}
			return a, err
		}
		size := 0
		var same []string
		for _, x := range all {
			if x.Wire != w.wire || !x.Streamed {
				continue
			}
			a, err := ours(x.Body)
			check(err)
			b, err := w.theirs(x.Body)
			for _, d := range differences(a, b, err) {
				key := x.Name + " " + d
				if reasons[key] == "" {
					fmt.Fprintf(os.Stderr, "%s: a new difference\n ours %q, %q, %d in, %d out\n theirs %q, %q, %d in, %d out, %v\n", key, tail(a.text), a.calls, a.input, a.output, tail(b.text), b.calls, b.input, b.output, err)
					red = true
				}
				delete(reasons, key)
			}
			if err != nil || a.text != b.text || compact(a.calls) != compact(b.calls) {
				continue // the peer can't read it, or reads less: no race
			}
			size += len(x.Body)
			same = append(same, x.Body)
		}
		// The SDKs come with a client; what an exchange without an answer takes is subtracted.
		empty := slices.Repeat([]string{""}, len(same))
		ourTime, ourAllocs := measure(same, ours)
		theirTime, theirAllocs := measure(same, w.theirs)
		emptyTime, emptyAllocs := measure(empty, w.theirs)
		figures.Print("parse."+w.name, float64(size)/ourTime, "MB/s", (theirTime-emptyTime)/ourTime, w.peer)
		figures.Print("parse."+w.name+".allocations", ourAllocs/float64(len(same)), "a body", ourAllocs/(theirAllocs-emptyAllocs), w.peer)
	}
	for key := range reasons {
		fmt.Fprintf(os.Stderr, "%s: this difference is gone\n", key)
		red = true
	}
	if red {
		check(fmt.Errorf("providers/differences.txt is out of date"))
	}
	firstToken()
}

func tail(s string) string { return s[max(0, len(s)-60):] }

// compact returns calls with their arguments in one form, whatever the order of their members.
func compact(calls string) string {
	fields := strings.Split(calls, "\x00")
	for i, f := range fields {
		var v any
		if json.Unmarshal([]byte(f), &v) == nil {
			b, err := json.Marshal(v)
			check(err)
			fields[i] = string(b)
		}
	}
	return strings.Join(fields, "\x00")
}

// differences names the members in which two answers to one body differ.
func differences(a, b answer, err error) (out []string) {
	if err != nil {
		return []string{"error"}
	}
	if a.text != b.text {
		out = append(out, "text")
	}
	if compact(a.calls) != compact(b.calls) {
		out = append(out, "calls")
	}
	if a.input != b.input {
		out = append(out, "input")
	}
	if a.output != b.output {
		out = append(out, "output")
	}
	return out
}

// known reads the differences that have a reason: lines of a recording, a member, and the reason.
func known(name string) map[string]string {
	text, err := os.ReadFile(name)
	check(err)
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if key, reason, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && !strings.HasPrefix(line, "#") {
			out[key] = reason
		}
	}
	return out
}

// free is a Meter without a budget.
type free struct{}

// Reserve implements providers.Meter.
func (free) Reserve(context.Context, providers.Estimate) (providers.Hold, error) { return free{}, nil }

// Settle implements providers.Hold.
func (free) Settle(providers.Usage, providers.Micros, string) {}

// firstToken measures the time from a request to its first text, and that of a raw client to the
// first line of data of the same answer to the same body, by turns.
func firstToken() {
	const rounds = 3000
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		check(err)
		body = b
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"}}]}\n\n")
		check(http.NewResponseController(w).Flush())
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1,\"total_tokens\":10}}\n\ndata: [DONE]\n\n")
	}))
	defer server.Close()
	client := safehttp.New(safehttp.Options{AllowLoopback: func(int) bool { return true }, MaxRedirects: -1})
	defer client.Close()
	router, err := providers.Open(providers.Options{
		Config: func(context.Context) (map[string]providers.Entry, map[providers.Role]providers.RoleConfig, error) {
			return map[string]providers.Entry{"p": {Type: providers.WireChat, BaseURL: server.URL}}, nil, nil
		},
		Key:  func(context.Context, string, providers.Entry) (string, string, error) { return "", "", nil },
		HTTP: client, Meter: free{},
	})
	check(err)
	q := providers.Request{Model: "p/m", Messages: []providers.Message{{Role: providers.User, Parts: []providers.Part{providers.TextPart(strings.Repeat("A question. ", 100))}}}}
	ours := func() (first time.Duration) {
		began := time.Now()
		for e, err := range router.Stream(context.Background(), q) {
			check(err)
			if e.Type == providers.EventText {
				first = time.Since(began)
			}
		}
		return first
	}
	ours()
	sent := slices.Clone(body)
	raw := func() (first time.Duration) {
		began := time.Now()
		r, err := http.Post(server.URL+"/v1/chat/completions", "application/json", bytes.NewReader(sent))
		check(err)
		defer r.Body.Close()
		lines := bufio.NewReader(r.Body)
		for {
			line, err := lines.ReadString('\n')
			if first == 0 && strings.HasPrefix(line, "data:") {
				first = time.Since(began)
			}
			if err != nil {
				return first
			}
		}
	}
	var mine, theirs []float64
	for range rounds {
		mine = append(mine, float64(ours().Microseconds()))
		theirs = append(theirs, float64(raw().Microseconds()))
	}
	slices.Sort(mine)
	slices.Sort(theirs)
	for _, p := range []struct {
		name string
		at   int
	}{{"p50", rounds / 2}, {"p99", rounds * 99 / 100}} {
		figures.Print("ttft."+p.name, mine[p.at], "µs", mine[p.at]/theirs[p.at], "net/http")
	}
}

// measure returns the processor time in microseconds and the allocations of reading all bodies
// once: the medians of nine rounds.
func measure(bodies []string, read side) (micros, allocs float64) {
	var times, counts []float64
	const repeat = 10
	for range 9 {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := cpu()
		for range repeat {
			for _, body := range bodies {
				_, err := read(body)
				check(err)
			}
		}
		times = append(times, (cpu()-began)/repeat)
		runtime.ReadMemStats(&after)
		counts = append(counts, float64(after.Mallocs-before.Mallocs)/repeat)
	}
	slices.Sort(times)
	slices.Sort(counts)
	return times[len(times)/2], counts[len(counts)/2]
}

// cpu is this process's processor time in microseconds.
func cpu() float64 {
	var u syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e3
}

// replay answers every request with its body at that time.
type replay struct{ body string }

// RoundTrip implements http.RoundTripper.
func (r *replay) RoundTrip(q *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: 200, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(r.body)), Request: q,
	}, nil
}

// The peers keep one client for all bodies.

func openaiClient() (openai.Client, *replay) {
	r := &replay{}
	return openai.NewClient(openaioption.WithAPIKey("x"), openaioption.WithHTTPClient(&http.Client{Transport: r}), openaioption.WithMaxRetries(0)), r
}

func chat() side {
	c, r := openaiClient()
	params := openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("x")}}
	return func(body string) (a answer, err error) {
		r.body = body
		s := c.Chat.Completions.NewStreaming(context.Background(), params)
		var acc openai.ChatCompletionAccumulator
		for s.Next() {
			if !acc.AddChunk(s.Current()) {
				return a, errors.New("the accumulator refused a chunk")
			}
		}
		a = answer{input: acc.Usage.PromptTokens, output: acc.Usage.CompletionTokens}
		if len(acc.Choices) > 0 {
			a.text = acc.Choices[0].Message.Content
			for _, call := range acc.Choices[0].Message.ToolCalls {
				a.calls += call.Function.Name + "\x00" + call.Function.Arguments + "\x00"
			}
		}
		return a, s.Err()
	}
}

func openaiResponses() side {
	c, r := openaiClient()
	return func(body string) (a answer, err error) {
		r.body = body
		s := c.Responses.NewStreaming(context.Background(), responses.ResponseNewParams{Model: "m"})
		for s.Next() {
			e := s.Current()
			if e.Type != "response.completed" && e.Type != "response.incomplete" {
				continue
			}
			a = answer{text: e.Response.OutputText(), input: e.Response.Usage.InputTokens, output: e.Response.Usage.OutputTokens}
			for _, x := range e.Response.Output {
				if x.Type == "function_call" {
					a.calls += x.Name + "\x00" + x.Arguments.OfString + "\x00"
				}
			}
		}
		return a, s.Err()
	}
}

func messages() side {
	r := &replay{}
	c := anthropic.NewClient(anthropicoption.WithAPIKey("x"), anthropicoption.WithHTTPClient(&http.Client{Transport: r}), anthropicoption.WithMaxRetries(0))
	params := anthropic.MessageNewParams{Model: "m", MaxTokens: 10, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("x"))}}
	return func(body string) (a answer, err error) {
		r.body = body
		s := c.Messages.NewStreaming(context.Background(), params)
		var m anthropic.Message
		for s.Next() {
			if err := m.Accumulate(s.Current()); err != nil {
				return a, err
			}
		}
		a = answer{input: m.Usage.InputTokens + m.Usage.CacheReadInputTokens + m.Usage.CacheCreationInputTokens, output: m.Usage.OutputTokens}
		for _, b := range m.Content {
			switch b.Type {
			case "text":
				a.text += b.Text
			case "tool_use":
				a.calls += b.Name + "\x00" + string(b.Input) + "\x00"
			}
		}
		return a, s.Err()
	}
}

func gemini() side {
	r := &replay{}
	c, err := genai.NewClient(context.Background(), &genai.ClientConfig{APIKey: "x", Backend: genai.BackendGeminiAPI, HTTPClient: &http.Client{Transport: r}})
	check(err)
	return func(body string) (a answer, err error) {
		r.body = body
		for r, err := range c.Models.GenerateContentStream(context.Background(), "m", genai.Text("x"), nil) {
			if err != nil {
				return a, err
			}
			if u := r.UsageMetadata; u != nil {
				a.input, a.output = int64(u.PromptTokenCount+u.ToolUsePromptTokenCount), int64(u.CandidatesTokenCount+u.ThoughtsTokenCount)
			}
			for _, candidate := range r.Candidates {
				if candidate.Content == nil {
					continue
				}
				for _, p := range candidate.Content.Parts {
					if !p.Thought {
						a.text += p.Text
					}
					if p.FunctionCall != nil {
						args, err := json.Marshal(p.FunctionCall.Args)
						check(err)
						a.calls += p.FunctionCall.Name + "\x00" + string(args) + "\x00"
					}
				}
			}
		}
		return a, nil
	}
}
