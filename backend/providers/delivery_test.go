package providers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"helix/backend/fault"
	"helix/backend/storage/storagetest"
)

// spoken holds the events of an answer on each wire: the beginning, one for each text, the end.
var spoken = map[string]struct{ begin, text, end string }{
	WireChat: {"", `data: {"choices":[{"index":0,"delta":{"content":%q}}]}` + "\n\n",
		`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}` + "\n\ndata: [DONE]\n\n"},
	WireResponses: {`data: {"type":"response.created","response":{"id":"r","status":"in_progress"}}` + "\n\n" + `data: {"type":"response.output_item.added","output_index":0,"item":{"id":"m","type":"message","role":"assistant"}}` + "\n\n",
		`data: {"type":"response.output_text.delta","output_index":0,"content_index":0,"item_id":"m","delta":%q}` + "\n\n",
		`data: {"type":"response.completed","response":{"id":"r","status":"completed","usage":{"input_tokens":9,"output_tokens":4,"total_tokens":13}}}` + "\n\n"},
	WireAnthropic: {`data: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":9,"output_tokens":1}}}` + "\n\n" + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n",
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%q}}` + "\n\n",
		`data: {"type":"content_block_stop","index":0}` + "\n\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}` + "\n\n" + `data: {"type":"message_stop"}` + "\n\n"},
	WireGemini: {"", `data: {"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":%q}]}}]}` + "\n\n",
		`data: {"candidates":[{"index":0,"content":{"role":"model","parts":[]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":4,"totalTokenCount":13}}` + "\n\n"},
}

// The server sends a text only after the previous one has arrived, so that a client that buffers
// never gets the answer.
func TestEachTextArrivesBeforeTheNextIsSent(t *testing.T) {
	t.Parallel()
	for wire, says := range spoken {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			arrived := make(chan string)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(w, says.begin) //nolint:errcheck // the client reads it
				for _, text := range []string{"one", "two", "three"} {
					fmt.Fprintf(w, says.text, text)
					http.NewResponseController(w).Flush() //nolint:errcheck // as above
					select {
					case got := <-arrived:
						if got != text {
							t.Errorf("%q arrived after %q was sent", got, text)
						}
					case <-r.Context().Done():
						return
					}
				}
				io.WriteString(w, says.end) //nolint:errcheck // as above
			}))
			t.Cleanup(server.Close)
			k := setup(t, map[string]Entry{"p": {Type: wire, BaseURL: server.URL, SkipCatalogValidation: true}}, nil)
			finished := false
			for e, err := range k.Stream(t.Context(), ask("p/m")) {
				must(t, err)
				if e.Type == EventText {
					arrived <- e.Delta
				}
				finished = finished || e.Type == EventFinish
			}
			if !finished {
				t.Error("the answer did not end")
			}
		})
	}
}

// Two sessions alternate, text by text, on one router; a third one stops in the middle.
func TestSessionsOnOneServiceShareNothing(t *testing.T) {
	t.Parallel()
	for wire, says := range spoken {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				name := "a"
				if strings.Contains(string(body), "I am b") {
					name = "b"
				}
				if strings.Contains(string(body), "previous_response_id") {
					t.Error("an earlier answer is named")
				}
				w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(w, says.begin) //nolint:errcheck // the client reads it
				for i := range 3 {
					fmt.Fprintf(w, says.text, fmt.Sprint(name, i))
					http.NewResponseController(w).Flush() //nolint:errcheck // as above
				}
				io.WriteString(w, says.end) //nolint:errcheck // as above
			}))
			t.Cleanup(server.Close)
			k := setup(t, map[string]Entry{"p": {Type: wire, BaseURL: server.URL, SkipCatalogValidation: true}}, nil)
			for range k.Stream(t.Context(), ask("p/m")) {
				break // its state must not affect the others
			}
			turn := map[string]chan struct{}{"a": make(chan struct{}, 1), "b": make(chan struct{}, 1)}
			other := map[string]string{"a": "b", "b": "a"}
			turn["a"] <- struct{}{}
			var group sync.WaitGroup
			for name := range turn {
				q := ask("p/m")
				q.Key, q.Messages[0].Parts[0].Text = name, "I am "+name
				group.Go(func() {
					var got []string
					for e, err := range k.Stream(t.Context(), q) {
						if err != nil {
							t.Error(err)
						}
						if e.Type == EventText {
							<-turn[name]
							got = append(got, e.Delta)
							turn[other[name]] <- struct{}{}
						}
					}
					if want := name + "0" + name + "1" + name + "2"; strings.Join(got, "") != want {
						t.Errorf("%s got %q", name, got)
					}
				})
			}
			group.Wait()
		})
	}
}

func TestAKeyIsNotCarriedToWhereAServiceRedirects(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other host was asked with %v", r.Header)
	}))
	t.Cleanup(other.Close)
	for wire := range spoken {
		for _, status := range []int{http.StatusMovedPermanently, http.StatusSeeOther, http.StatusTemporaryRedirect} {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1), status)
			}))
			k := setup(t, map[string]Entry{"p": {Type: wire, BaseURL: server.URL, SkipCatalogValidation: true}}, nil)
			if _, err := k.Complete(t.Context(), ask("p/m")); err == nil || strings.Contains(err.Error(), secretKey) {
				t.Errorf("%s, %d: %v", wire, status, err)
			}
			server.Close()
		}
	}
}

// forever is a reader of the given number of bytes.
type forever struct{ left int64 }

func (f *forever) Read(p []byte) (int, error) {
	if f.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), f.left)
	for i := range p[:n] {
		p[i] = ' '
	}
	f.left -= n
	return int(n), nil
}

func TestACatalogueThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.Copy(w, &forever{maxCatalog + 1}) //nolint:errcheck // the client disconnects
	}))
	t.Cleanup(server.Close)
	k := newService(t, server.URL)
	if _, err := k.Fetch(storagetest.Ctx(t, k.db), struct{}{}); !fault.Is(err, fault.Limit) {
		t.Errorf("64 MiB and one byte: %v", err)
	}
}

func TestUnknownFieldsOfTheCatalogueAreKept(t *testing.T) {
	t.Parallel()
	own, err := embeddedCatalog()
	must(t, err)
	text, err := json.Marshal(own.Providers)
	must(t, err)
	text = append([]byte(`{"future":{"id":"future","later":[1.50],"models":{}},`), text[1:]...)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(text) })) //nolint:errcheck // the client reads it
	t.Cleanup(server.Close)
	k := newService(t, server.URL)
	_, err = k.Fetch(storagetest.Ctx(t, k.db), struct{}{})
	must(t, err)
	kept, err := os.ReadFile(k.catalogFile())
	must(t, err)
	if !bytes.Equal(kept, text) {
		t.Error("the catalog was changed before it was kept")
	}
}

func FuzzCatalog(f *testing.F) {
	f.Add([]byte(`{"p":{"id":"p","models":{"m":{"id":"m","limit":{"context":1000,"output":10},"cost":{"input":0.1,"output":1e-3,"context_over_200k":{"input":2,"output":3}}}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseCatalog(text)
		if err != nil {
			return
		}
		for name, p := range c.Providers {
			for id := range p.Models {
				i, ok := c.Info(name, id)
				if !ok {
					t.Fatalf("%s/%s is listed and not known", name, id)
				}
				if cost, known := i.Prices.Cost(Usage{Input: 300_000, Output: 1_000}); known && cost < 0 {
					t.Fatalf("%s/%s costs %d", name, id, cost)
				}
			}
		}
	})
}
