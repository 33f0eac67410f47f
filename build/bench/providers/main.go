// Command providers measures the decoders of backend/providers over the streamed bodies of the
// recordings, beside the official SDKs with their accumulators, in the same run. HELIX_DATA names
// the folder that holds them.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"
	"gopkg.in/yaml.v3"

	"helix/backend/providers"
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
	text  string
	calls int
}

// side reads a body with one implementation.
type side func(body string) (answer, error)

func main() {
	bodies := recordings(filepath.Join(cmp.Or(os.Getenv("HELIX_DATA"), "../../../shared/data"), "providers"))
	for _, w := range []struct {
		name, wire, peer string
		theirs           side
	}{
		{"chat", providers.WireChat, "openai-go", chat},
		{"responses", providers.WireResponses, "openai-go", openaiResponses},
		{"anthropic", providers.WireAnthropic, "anthropic-sdk-go", messages},
		{"gemini", providers.WireGemini, "genai", gemini},
	} {
		ours := func(body string) (answer, error) {
			r, err := providers.Fold(providers.Decode(w.wire, strings.NewReader(body), providers.DecodeOptions{}))
			return answer{r.Text(), len(r.Calls())}, err
		}
		list := bodies[w.wire]
		size := 0
		var same []string
		for _, body := range list {
			a, err := ours(body)
			check(err)
			b, err := w.theirs(body)
			if err != nil || a != b { // the peer can't read it, or reads it otherwise: no race
				fmt.Fprintf(os.Stderr, "%s: left out: %v, ours %d bytes %d calls, theirs %d bytes %d calls\n", w.name, err, len(a.text), a.calls, len(b.text), b.calls)
				continue
			}
			size += len(body)
			same = append(same, body)
		}
		if len(same)*10 < len(list)*9 {
			check(fmt.Errorf("%s: only %d of %d bodies are read alike", w.name, len(same), len(list)))
		}
		ourTime, ourAllocs := measure(same, ours)
		theirTime, theirAllocs := measure(same, w.theirs)
		figures.Print("parse."+w.name, float64(size)/ourTime, "MB/s", theirTime/ourTime, w.peer)
		figures.Print("parse."+w.name+".allocations", ourAllocs/float64(len(same)), "a body", ourAllocs/theirAllocs, w.peer)
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

// recordings returns the streamed bodies of each wire.
func recordings(root string) map[string][]string {
	out := map[string][]string{}
	check(filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".yaml") || strings.Contains(path, "Bedrock") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var file struct {
			Interactions []struct {
				Request  struct{ URL string }
				Response struct {
					Body    string
					Headers map[string][]string
				}
			}
		}
		if err := yaml.Unmarshal(text, &file); err != nil {
			return err
		}
		for _, x := range file.Interactions {
			if !strings.Contains(strings.Join(x.Response.Headers["Content-Type"], ""), "event-stream") {
				continue
			}
			wire := providers.WireAnthropic
			switch u, _, _ := strings.Cut(x.Request.URL, "?"); {
			case strings.HasSuffix(u, "/chat/completions"):
				wire = providers.WireChat
			case strings.HasSuffix(u, "/responses"):
				wire = providers.WireResponses
			case strings.Contains(u, "enerateContent"):
				wire = providers.WireGemini
			}
			out[wire] = append(out[wire], x.Response.Body)
		}
		return nil
	}))
	return out
}

// replay answers every request with one body.
type replay string

// RoundTrip implements http.RoundTripper.
func (r replay) RoundTrip(q *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: 200, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(string(r))), Request: q,
	}, nil
}

func client(body string) *http.Client { return &http.Client{Transport: replay(body)} }

func chat(body string) (a answer, err error) {
	c := openai.NewClient(openaioption.WithAPIKey("x"), openaioption.WithHTTPClient(client(body)), openaioption.WithMaxRetries(0))
	s := c.Chat.Completions.NewStreaming(context.Background(), openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("x")}})
	var acc openai.ChatCompletionAccumulator
	for s.Next() {
		if !acc.AddChunk(s.Current()) {
			return a, fmt.Errorf("the accumulator refused a chunk")
		}
	}
	if len(acc.Choices) > 0 {
		a = answer{acc.Choices[0].Message.Content, len(acc.Choices[0].Message.ToolCalls)}
	}
	return a, s.Err()
}

func openaiResponses(body string) (a answer, err error) {
	c := openai.NewClient(openaioption.WithAPIKey("x"), openaioption.WithHTTPClient(client(body)), openaioption.WithMaxRetries(0))
	s := c.Responses.NewStreaming(context.Background(), responses.ResponseNewParams{Model: "m"})
	for s.Next() {
		e := s.Current()
		if e.Type != "response.completed" && e.Type != "response.incomplete" {
			continue
		}
		a.text = e.Response.OutputText()
		for _, x := range e.Response.Output {
			if x.Type == "function_call" {
				a.calls++
			}
		}
	}
	return a, s.Err()
}

func messages(body string) (a answer, err error) {
	c := anthropic.NewClient(anthropicoption.WithAPIKey("x"), anthropicoption.WithHTTPClient(client(body)), anthropicoption.WithMaxRetries(0))
	s := c.Messages.NewStreaming(context.Background(), anthropic.MessageNewParams{Model: "m", MaxTokens: 10, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("x"))}})
	var m anthropic.Message
	for s.Next() {
		if err := m.Accumulate(s.Current()); err != nil {
			return a, err
		}
	}
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			a.text += b.Text
		case "tool_use":
			a.calls++
		}
	}
	return a, s.Err()
}

func gemini(body string) (a answer, err error) {
	c, err := genai.NewClient(context.Background(), &genai.ClientConfig{APIKey: "x", Backend: genai.BackendGeminiAPI, HTTPClient: client(body)})
	if err != nil {
		return a, err
	}
	for r, err := range c.Models.GenerateContentStream(context.Background(), "m", genai.Text("x"), nil) {
		if err != nil {
			return a, err
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
					a.calls++
				}
			}
		}
	}
	return a, nil
}
