//go:build aimock

package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"helix/backend/callable"
	"helix/backend/providers"
	"helix/backend/testkit"
)

// aimock is an emulator of language model services that others wrote from their documentation.
const aimock = "../../build/aimock/node_modules/@copilotkit/aimock/dist/cli.js"

const aimockAnswer = "The boat is moored at the pier, as it was yesterday."

// startAimock serves an answer to each message, and a call of probe_read to those that ask for it.
func startAimock(t *testing.T) (url string) {
	t.Helper()
	fixtures := filepath.Join(t.TempDir(), "fixtures.json")
	raw := fmt.Sprintf(`{"fixtures":[
		{"match":{"hasToolResult":true},"response":{"content":%q}},
		{"match":{"userMessage":"Look"},"response":{"toolCalls":[{"name":"probe_read","arguments":{"n":7}}]}},
		{"match":{"userMessage":"Question"},"response":{"content":%q}}]}`, aimockAnswer, aimockAnswer)
	if err := os.WriteFile(fixtures, []byte(raw), 0o600); err != nil {
		t.Fatal(err)
	}
	port := testkit.FreePort(t)
	c := exec.Command("node", aimock, "-p", fmt.Sprint(port), "-f", fixtures, "--log-level", "warn", "-c", "7")
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	if err := c.Start(); err != nil {
		t.Fatalf("couldn't start aimock: %v; run make test-aimock, which installs it", err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	url = fmt.Sprintf("http://127.0.0.1:%d", port)
	testkit.Eventually(t, "aimock", func() error {
		r, err := http.Get(url + "/__aimock/health")
		if err == nil {
			err = r.Body.Close()
		}
		return err
	}, func(err error) bool { return err == nil })
	return url
}

// Everything works against an emulator on each wire: answers, calls of tools and the next turn. However it
// fails, each turn ends, the transcript has an answer once, no call is unpaid, and the log replays.
func TestAimockOnEachWire(t *testing.T) {
	for _, wire := range allWires {
		for chaos, rates := range map[string]string{
			"calm":          `{}`,
			"rate limits":   `{"rateLimitRate":0.3}`,
			"errors":        `{"dropRate":0.3}`,
			"malformed":     `{"malformedRate":0.3}`,
			"disconnects":   `{"disconnectRate":0.3}`,
			"all and delay": `{"rateLimitRate":0.1,"dropRate":0.1,"malformedRate":0.1,"disconnectRate":0.1,"latencyMs":20}`,
		} {
			t.Run(wire+", "+chaos, func(t *testing.T) {
				url := startAimock(t)
				r, err := http.Post(url+"/__aimock/chaos", "application/json", strings.NewReader(rates))
				if err != nil {
					t.Fatal(err)
				}
				if said, _ := io.ReadAll(r.Body); r.StatusCode/100 != 2 {
					t.Fatalf("%d %s", r.StatusCode, said)
				}
				r.Body.Close()
				var reads atomic.Int64
				k := askServices(t, []providers.Entry{{Type: wire, BaseURL: url}}, func(o *Options) {
					set := callable.NewSet(callable.Builtin, nil)
					set.Add(callable.Func{Info: callable.Info{Name: "probe.read", Input: []byte(`{"type":"object","properties":{"n":{"type":"integer"}}}`), Effects: callable.Effects{ReadOnly: true}}, Run: func(_ context.Context, r callable.Request) (any, error) {
						reads.Add(1)
						if !bytes.Contains(r.Input, []byte("7")) {
							t.Errorf("input %s", r.Input)
						}
						return "seven", nil
					}})
					o.Callables = callable.NewRegistry(nil)
					o.Callables.Add(set)
				})
				ended := map[string]int{}
				for n := range 12 {
					session := k.begin()
					text := fmt.Sprintf("Question %d", n)
					if n%2 == 1 {
						text = fmt.Sprintf("Look at %d", n)
					}
					before := reads.Load()
					turn := k.say(session, text)
					ended[turn.State]++
					switch {
					case turn.State == Completed && n%2 == 1 && reads.Load() != before+1:
						t.Errorf("the tool ran %d times", reads.Load()-before)
					case turn.State != Completed && turn.State != Failed, turn.State == Failed && (chaos == "calm" || turn.Error == nil):
						t.Errorf("%+v %+v", turn, turn.Error)
					}
					if turn.State == Completed {
						got := k.answers(session)
						if len(got) == 0 || got[len(got)-1] != aimockAnswer || strings.Count(strings.Join(got, ""), "moored") != 1 {
							t.Errorf("answers %q", got)
						}
					}
					if r, err := k.Replay(k.ctx, ReplayParams{SessionID: session}); err != nil || !r.Identical {
						t.Errorf("replay: %+v, %v", r, err)
					}
				}
				for _, r := range k.paid() {
					if r.State == stateReserved {
						t.Errorf("a call is not settled: %+v", r)
					}
				}
				journal := readJournal(t, url)
				for _, x := range journal {
					text := string(x.Body)
					if !strings.Contains(x.Path, aimockPaths[wire]) || !strings.Contains(text+x.Path, "one") || !strings.Contains(text, "probe_read") || !strings.Contains(text, "Question ") && !strings.Contains(text, "Look at ") {
						t.Errorf("%s got %.300s", x.Path, text)
					}
				}
				results := 0 // of the tool, in requests
				for _, x := range journal {
					results += strings.Count(string(x.Body), "seven")
				}
				if n := len(k.paid()); chaos == "calm" && (len(journal) != n || n != 18 || results != 6) {
					t.Errorf("%d requests with %d results, %d calls paid, want 18 with 6", len(journal), results, n)
				}
				t.Logf("turns %v, %d calls paid, %d requests", ended, len(k.paid()), len(journal))
			})
		}
	}
}

// aimockPaths are the ends of the addresses of the wires.
var aimockPaths = map[string]string{providers.WireChat: "/chat/completions", providers.WireResponses: "/responses", providers.WireAnthropic: "/v1/messages", providers.WireGemini: ":streamGenerateContent"}

// received is a request to a model that aimock got.
type received struct {
	Method, Path string
	Body         json.RawMessage
}

// readJournal returns the requests to models that an aimock got.
func readJournal(t *testing.T, url string) (list []received) {
	t.Helper()
	r, err := http.Get(url + "/__aimock/journal")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list, func(x received) bool { return x.Method != http.MethodPost })
}
