package providers

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"helix/backend/providers/recordings"
	"helix/backend/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

var update = flag.Bool("update", false, "write golden files")

// recorded reads all recordings except those of Bedrock's own transport.
func recorded(t testing.TB) []recordings.Exchange {
	t.Helper()
	out, err := recordings.Read(testkit.Data(t, "providers"))
	must(t, err)
	return out
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func numbered() func() string {
	n := 0
	return func() string { n++; return fmt.Sprint(n) }
}

// decodeAll returns the events of a body as lines of JSON, and the reply.
func decodeAll(wire string, r io.Reader) (string, Reply, error) {
	var b strings.Builder
	var f folder
	for e, err := range Decode(wire, r, DecodeOptions{Provider: "p", Model: "m", NewID: numbered()}) {
		if err != nil {
			return b.String(), f.reply(), err
		}
		line, _ := json.Marshal(e)
		b.Write(line)
		b.WriteByte('\n')
		f.add(e)
	}
	return b.String(), f.reply(), nil
}

// splitReader returns its text in reads of random size.
type splitReader struct {
	text string
	rnd  *rand.Rand
}

func (s *splitReader) Read(p []byte) (int, error) {
	if s.text == "" {
		return 0, io.EOF
	}
	n := min(len(p), len(s.text), 1+s.rnd.IntN(1<<s.rnd.IntN(12)))
	copy(p, s.text[:n])
	s.text = s.text[n:]
	return n, nil
}

// digest replaces a text by its beginning, length and hash, to keep third-party recordings out of the
// repository.
func digest(s string) string {
	if len(s) < 40 {
		return s
	}
	begin := []rune(s)[:20]
	return fmt.Sprintf("%s… %d bytes %x", string(begin), len(s), sha256.Sum256([]byte(s)))[:min(len(string(begin))+40, 120)]
}

// golden is the part of an answer that a person reviews.
type golden struct {
	Name      string   `json:"name"`
	Text      string   `json:"text,omitempty"`
	Reasoning string   `json:"reasoning,omitempty"`
	Calls     []string `json:"calls,omitempty"`
	Opaque    []string `json:"opaque,omitempty"`
	Sources   []Source `json:"sources,omitempty"`
	Finish    string   `json:"finish"`
	Raw       string   `json:"raw"`
	Usage     Usage    `json:"usage"`
}

func TestRecordingsDecodeToTheirGoldensUnderEverySplit(t *testing.T) {
	t.Parallel()
	const file = "testdata/recordings.jsonl"
	var lines []string
	kinds := map[string]int{}
	for i, x := range recorded(t) {
		kinds[fmt.Sprint(x.Wire, " ", x.Streamed)]++
		events, reply, err := decodeAll(x.Wire, strings.NewReader(x.Body))
		if err != nil {
			t.Errorf("%s: %v", x.Name, err)
			continue
		}
		g := golden{Name: x.Name, Text: digest(reply.Text()), Reasoning: digest(reply.ReasoningText()), Finish: reply.Reason, Raw: reply.Raw, Usage: reply.Usage, Sources: reply.Sources}
		for _, p := range reply.Parts {
			switch p.Kind {
			case PartToolCall:
				if !json.Valid([]byte(p.Args)) {
					t.Errorf("%s: arguments %q are not JSON", x.Name, p.Args)
				}
				g.Calls = append(g.Calls, p.ID+" "+p.Name+" "+p.Args)
			case PartOpaque:
				g.Opaque = append(g.Opaque, fmt.Sprintf("%s, %d bytes", p.Opaque.Kind, len(p.Opaque.Data)))
			}
		}
		line, err := json.Marshal(g)
		must(t, err)
		lines = append(lines, string(line))

		if got, _, err := decodeAll(x.Wire, iotest.OneByteReader(strings.NewReader(x.Body))); err != nil || got != events {
			t.Errorf("%s: byte by byte the events differ (%v)", x.Name, err)
		}
		for seed := range uint64(8) {
			r := &splitReader{x.Body, rand.New(rand.NewPCG(seed, uint64(i)))}
			if got, _, err := decodeAll(x.Wire, r); err != nil || got != events {
				t.Errorf("%s: with split %d the events differ (%v)", x.Name, seed, err)
			}
		}
	}
	want := map[string]int{
		"openai true": 105, "openai false": 89, "openai_responses true": 29, "openai_responses false": 25,
		"anthropic true": 19, "anthropic false": 18, "gemini true": 29, "gemini false": 27,
	}
	if fmt.Sprint(kinds) != fmt.Sprint(want) {
		t.Errorf("exchanges are %v, want %v", kinds, want)
	}
	text := strings.Join(lines, "\n") + "\n"
	if *update {
		must(t, os.WriteFile(file, []byte(text), 0o644))
	}
	stored, err := os.ReadFile(file)
	must(t, err)
	for i, line := range strings.Split(string(stored), "\n") {
		if i >= len(lines) {
			break
		}
		if line != lines[i] {
			t.Errorf("golden %d differs:\n got %.600s\nwant %.600s", i, lines[i], line)
		}
	}
	if string(stored) != text {
		t.Error("the goldens differ; -update writes them")
	}
}

func TestStreamsCutAnywhereAreNeverSuccess(t *testing.T) {
	t.Parallel()
	shortest := map[string]recordings.Exchange{}
	for _, x := range recorded(t) {
		if old, ok := shortest[x.Wire]; x.Streamed && (!ok || len(x.Body) < len(old.Body)) {
			shortest[x.Wire] = x
		}
	}
	for _, wire := range []string{WireChat, WireResponses, WireAnthropic, WireGemini} {
		x := shortest[wire]
		_, whole, err := decodeAll(wire, strings.NewReader(x.Body))
		must(t, err)
		for cut := range len(x.Body) {
			for _, end := range []error{io.EOF, io.ErrUnexpectedEOF} {
				r := io.MultiReader(strings.NewReader(x.Body[:cut]), iotest.ErrReader(end))
				_, got, err := decodeAll(wire, r)
				if err == nil && (got.Text() != whole.Text() || len(got.Calls()) != len(whole.Calls()) || got.Reason != whole.Reason) {
					t.Fatalf("%s cut at %d counts as complete with %q", x.Name, cut, got.Text())
				}
				if !strings.HasPrefix(whole.Text(), got.Text()) {
					t.Fatalf("%s cut at %d has the text %q", x.Name, cut, got.Text())
				}
				if err != nil && len(got.Calls()) > 0 && wire != WireGemini && wire != WireAnthropic && wire != WireResponses {
					t.Fatalf("%s cut at %d delivered a call", x.Name, cut)
				}
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	wires := []string{WireChat, WireResponses, WireAnthropic, WireGemini}
	for i, s := range []string{
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\\ud83d\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"\\ude00\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
		`{"object":"response","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"a"}]}]}`,
		"event: x\r\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"b\",\"input\":{}}}\r\n\r\n",
		`[{"candidates":[{"content":{"parts":[{"functionCall":{"name":"a","args":{}}}]},"finishReason":"STOP"}]}]`,
	} {
		f.Add(uint8(i), []byte(s), uint64(i))
	}
	f.Fuzz(func(t *testing.T, which uint8, body []byte, seed uint64) {
		wire := wires[int(which)%len(wires)]
		events, reply, err := decodeAll(wire, bytes.NewReader(body))
		split, _, splitErr := decodeAll(wire, &splitReader{string(body), rand.New(rand.NewPCG(seed, 1))})
		if events != split || fmt.Sprint(err) != fmt.Sprint(splitErr) {
			t.Fatalf("%s: a split changes the events:\n%s%v\n%s%v", wire, events, err, split, splitErr)
		}
		if (err == nil) != (reply.Reason != "") {
			t.Fatalf("%s: reason %q with error %v", wire, reply.Reason, err)
		}
		for _, p := range reply.Parts {
			if !utf8.ValidString(p.Text) || !utf8.ValidString(p.Args) || p.Kind == PartToolCall && !slices.Contains(reply.BadArgs, p.ID) && !json.Valid([]byte(p.Args)) {
				t.Fatalf("%s: part %+v", wire, p)
			}
		}
	})
}

func FuzzCursor(f *testing.F) {
	for _, s := range []string{`{"a":[1,-0.5e+7,"\u00e9\ud83d\ude00",true,null]}`, `"\x"`, `01`, `{"a":1,}`, `[[[[`, "\"\x01\"", `1.`, `{"a" : {"b" : [ ] } }`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c := cursor{b: []byte(s)}
		c.skip()
		err := c.end()
		if (err == nil) != json.Valid([]byte(s)) && strings.Count(s, "[")+strings.Count(s, "{") < maxDepth {
			t.Fatalf("%q: %v, valid JSON is %v", s, err, json.Valid([]byte(s)))
		}
		c = cursor{b: []byte(s)}
		var want string
		if utf8.ValidString(s) && c.peek() == '"' && json.Unmarshal([]byte(s), &want) == nil {
			if got := c.str(); got != want {
				t.Fatalf("%q decodes to %q, want %q", s, got, want)
			}
		}
	})
}

func FuzzSSE(f *testing.F) {
	f.Add("data: a\n\ndata:b\r\rdata\r\ndata: c\r\n\r\n: x\ndata: d", uint64(1))
	f.Add("\ufeffdata: a\n\n", uint64(2))
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		read := func(r io.Reader) (out []string) {
			s := newSSE(r, 1<<20)
			for {
				data, err := s.next()
				if errors.Is(err, io.EOF) {
					return out
				}
				must(t, err)
				out = append(out, string(data))
			}
		}
		want := read(strings.NewReader(text))
		if got := read(&splitReader{text, rand.New(rand.NewPCG(seed, 3))}); !slices.Equal(got, want) {
			t.Fatalf("a split changes %q to %q", want, got)
		}
	})
}
