package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"helixbench/figures"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"

	"helix/backend/providers"
	"helix/backend/providers/recordings"
)

// answer holds the values in which both sides must agree.
type answer struct {
	text, reasoning string
	calls           string // names and arguments, each terminated by a zero byte
	raw             string // the service's reason for the end
	input           int64  // of the whole prompt
	output          int64
}

// own reads a body with the decoder of backend/providers.
func own(wire, body string) (answer, error) {
	r, err := providers.Fold(providers.Decode(wire, strings.NewReader(body), providers.DecodeOptions{}))
	a := answer{text: r.Text(), reasoning: r.ReasoningText(), raw: r.Raw, input: r.Usage.Prompt(), output: r.Usage.Output}
	for _, c := range r.Calls() {
		a.call(c.Name, c.Args)
	}
	return a, err
}

func (a *answer) call(name, args string) { a.calls += name + "\x00" + args + "\x00" }

// compact returns calls with their arguments in a canonical form, regardless of the order of members.
func compact(calls string) string {
	fields := strings.Split(calls, "\x00")
	for i, f := range fields {
		var v any
		if json.Unmarshal([]byte(f), &v) == nil {
			b, err := json.Marshal(v)
			figures.Check(err)
			fields[i] = string(b)
		}
	}
	return strings.Join(fields, "\x00")
}

// golden is the result of reading a recording with an SDK. Texts are hashes, because the recordings
// belong to third parties. The test of the decoders compares with it, and lists the differences with
// their reasons.
type golden struct {
	Name      string `json:"name"`
	Error     bool   `json:"error,omitempty"`
	Text      string `json:"text,omitempty"`
	Reasoning string `json:"reasoning,omitempty"` // "-" where the SDK has no place for it
	Calls     string `json:"calls,omitempty"`
	Raw       string `json:"raw,omitempty"`
	Input     int64  `json:"input"`
	Output    int64  `json:"output"`
}

func hash(s string) string {
	if s == "" {
		return ""
	}
	return fmt.Sprintf("%d bytes %.12x", len(s), sha256.Sum256([]byte(s)))
}

const goldenFile = "../../backend/providers/testdata/sdk.jsonl"

// goldens reads all recordings, streamed or not, with the SDKs.
func goldens(all []recordings.Exchange) []byte {
	readers := map[string]struct{ streamed, whole side }{
		providers.WireChat: {chat(), wholeChat()}, providers.WireResponses: {openaiResponses(), wholeResponses()},
		providers.WireAnthropic: {messages(), wholeMessage()}, providers.WireGemini: {gemini(), wholeGemini()},
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for _, x := range all {
		read := readers[x.Wire].whole
		if x.Streamed {
			read = readers[x.Wire].streamed
		}
		a, err := read(x.Body)
		g := golden{Name: x.Name, Error: err != nil}
		if err == nil {
			g = golden{Name: x.Name, Text: hash(a.text), Reasoning: hash(a.reasoning), Calls: hash(compact(a.calls)), Raw: a.raw, Input: a.input, Output: a.output}
		}
		if x.Wire == providers.WireChat {
			g.Reasoning = "-"
		}
		figures.Check(enc.Encode(g))
	}
	return out.Bytes()
}

// replay answers every request with its current body.
type replay struct {
	body string
	kind string // empty: a stream
}

// RoundTrip implements http.RoundTripper.
func (r *replay) RoundTrip(q *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: 200, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {cmp.Or(r.kind, "text/event-stream")}}, Body: io.NopCloser(strings.NewReader(r.body)), Request: q,
	}, nil
}

const jsonKind = "application/json"

// Each peer keeps one client for all bodies.

func openaiClient(kind string) (openai.Client, *replay) {
	r := &replay{kind: kind}
	return openai.NewClient(openaioption.WithAPIKey("x"), openaioption.WithHTTPClient(&http.Client{Transport: r}), openaioption.WithMaxRetries(0)), r
}

var chatParams = openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("x")}}

func completion(choices []openai.ChatCompletionChoice, u openai.CompletionUsage) answer {
	a := answer{input: u.PromptTokens, output: u.CompletionTokens}
	if len(choices) > 0 {
		a.text, a.raw = choices[0].Message.Content, choices[0].FinishReason
		for _, call := range choices[0].Message.ToolCalls {
			a.call(call.Function.Name, call.Function.Arguments)
		}
	}
	return a
}

func chat() side {
	c, r := openaiClient("")
	return func(body string) (answer, error) {
		r.body = body
		s := c.Chat.Completions.NewStreaming(context.Background(), chatParams)
		var acc openai.ChatCompletionAccumulator
		for s.Next() {
			if !acc.AddChunk(s.Current()) {
				return answer{}, errors.New("the accumulator refused a chunk")
			}
		}
		return completion(acc.Choices, acc.Usage), s.Err()
	}
}

func wholeChat() side {
	c, r := openaiClient(jsonKind)
	return func(body string) (answer, error) {
		r.body = body
		got, err := c.Chat.Completions.New(context.Background(), chatParams)
		if err != nil {
			return answer{}, err
		}
		return completion(got.Choices, got.Usage), nil
	}
}

func response(e responses.Response) answer {
	a := answer{text: e.OutputText(), input: e.Usage.InputTokens, output: e.Usage.OutputTokens, raw: cmp.Or(e.IncompleteDetails.Reason, string(e.Status))}
	for _, x := range e.Output {
		switch x.Type {
		case "function_call":
			a.call(x.Name, x.Arguments.OfString)
		case "reasoning":
			for _, s := range x.Summary {
				a.reasoning += s.Text
			}
		}
	}
	return a
}

func openaiResponses() side {
	c, r := openaiClient("")
	return func(body string) (a answer, err error) {
		r.body = body
		s := c.Responses.NewStreaming(context.Background(), responses.ResponseNewParams{Model: "m"})
		for s.Next() {
			if e := s.Current(); e.Type == "response.completed" || e.Type == "response.incomplete" {
				a = response(e.Response)
			}
		}
		return a, s.Err()
	}
}

func wholeResponses() side {
	c, r := openaiClient(jsonKind)
	return func(body string) (answer, error) {
		r.body = body
		got, err := c.Responses.New(context.Background(), responses.ResponseNewParams{Model: "m"})
		if err != nil {
			return answer{}, err
		}
		return response(*got), nil
	}
}

func anthropicClient(kind string) (anthropic.Client, *replay) {
	r := &replay{kind: kind}
	return anthropic.NewClient(anthropicoption.WithAPIKey("x"), anthropicoption.WithHTTPClient(&http.Client{Transport: r}), anthropicoption.WithMaxRetries(0)), r
}

var messageParams = anthropic.MessageNewParams{Model: "m", MaxTokens: 10, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("x"))}}

func message(m anthropic.Message) answer {
	a := answer{input: m.Usage.InputTokens + m.Usage.CacheReadInputTokens + m.Usage.CacheCreationInputTokens, output: m.Usage.OutputTokens, raw: string(m.StopReason)}
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			a.text += b.Text
		case "thinking":
			a.reasoning += b.Thinking
		case "tool_use":
			a.call(b.Name, string(b.Input))
		}
	}
	return a
}

func messages() side {
	c, r := anthropicClient("")
	return func(body string) (answer, error) {
		r.body = body
		s := c.Messages.NewStreaming(context.Background(), messageParams)
		var m anthropic.Message
		for s.Next() {
			if err := m.Accumulate(s.Current()); err != nil {
				return answer{}, err
			}
		}
		return message(m), s.Err()
	}
}

func wholeMessage() side {
	c, r := anthropicClient(jsonKind)
	return func(body string) (answer, error) {
		r.body = body
		m, err := c.Messages.New(context.Background(), messageParams)
		if err != nil {
			return answer{}, err
		}
		return message(*m), nil
	}
}

func geminiClient(kind string) (*genai.Client, *replay) {
	r := &replay{kind: kind}
	c, err := genai.NewClient(context.Background(), &genai.ClientConfig{APIKey: "x", Backend: genai.BackendGeminiAPI, HTTPClient: &http.Client{Transport: r}})
	figures.Check(err)
	return c, r
}

// add joins a chunk to an answer.
func (a *answer) add(r *genai.GenerateContentResponse) {
	if u := r.UsageMetadata; u != nil {
		a.input, a.output = int64(u.PromptTokenCount+u.ToolUsePromptTokenCount), int64(u.CandidatesTokenCount+u.ThoughtsTokenCount)
	}
	for _, candidate := range r.Candidates {
		a.raw = cmp.Or(string(candidate.FinishReason), a.raw)
		if candidate.Content == nil {
			continue
		}
		for _, p := range candidate.Content.Parts {
			if p.Thought {
				a.reasoning += p.Text
			} else {
				a.text += p.Text
			}
			if p.FunctionCall != nil {
				args, err := json.Marshal(p.FunctionCall.Args)
				figures.Check(err)
				a.call(p.FunctionCall.Name, string(args))
			}
		}
	}
}

func gemini() side {
	c, r := geminiClient("")
	return func(body string) (a answer, err error) {
		r.body = body
		for chunk, err := range c.Models.GenerateContentStream(context.Background(), "m", genai.Text("x"), nil) {
			if err != nil {
				return a, err
			}
			a.add(chunk)
		}
		return a, nil
	}
}

func wholeGemini() side {
	c, r := geminiClient(jsonKind)
	return func(body string) (a answer, err error) {
		r.body = body
		got, err := c.Models.GenerateContent(context.Background(), "m", genai.Text("x"), nil)
		if err != nil {
			return a, err
		}
		a.add(got)
		return a, nil
	}
}
