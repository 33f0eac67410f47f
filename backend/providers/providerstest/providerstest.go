// Package providerstest emulates language model services on a loopback port, over all four wires, and
// simulates their failures on request. Only tests import it.
//
// A server answers with scripted replies or with recorded bodies, in order:
//
//	s := providerstest.New(t, providerstest.Options{
//		Wire:    providers.WireAnthropic,
//		Replies: []providers.ScriptedReply{{Text: "Hello"}, {Calls: []providers.ScriptedCall{{Name: "files.read", Args: json.RawMessage(`{"path":"a"}`)}}}},
//		Chaos:   providerstest.Chaos{Status: 503, Times: 2, Split: true},
//	})
//	entries["emulated"] = s.Entry() // its model may have any name
//
// A server's behavior depends only on its options, its seed and the order of the calls.
package providerstest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"helix/backend/providers"
	"helix/backend/safehttp"
)

// Options configures New.
type Options struct {
	// Wire is the wire that the server implements; empty: chat completions.
	Wire string
	// Replies are returned in order. A reply with a Body is sent as recorded, whatever its Wire; one
	// with a Status is an error; a call whose last message does not contain Match is refused.
	Replies []providers.ScriptedReply
	// Repeat starts again with the first reply after the last; otherwise further calls are refused.
	Repeat bool
	// Answer, if set, returns the reply to a request instead of Replies, for calls whose order is not
	// known.
	Answer func(body []byte) providers.ScriptedReply
	Chaos  Chaos
	// Seed seeds all random behavior.
	Seed uint64
	// Step, if set, delays each event of a stream until a value can be received from it.
	Step <-chan struct{}
}

// Chaos selects the faults of a server; the zero value has none.
//
// The faults of the first group apply to all calls, and must not affect a client. Those of the second
// group make a call fail, and apply to the calls that Times and Rate select. A failed call does not
// use up a reply, so that its retry gets it.
type Chaos struct {
	// Latency delays the header of the response.
	Latency time.Duration
	// ContentType replaces the correct one.
	ContentType string
	// DripHeader sends the answer, header included, one byte at a time, as slow networks and slow
	// attackers do.
	DripHeader bool

	// Split sends the body in pieces of random size.
	Split bool
	// Drip sends one byte at a time.
	Drip bool
	// Noise adds lines that clients of server-sent events must ignore.
	Noise bool
	// DuplicateUsage sends the usage of a stream twice.
	DuplicateUsage bool
	// DuplicateEnd sends the last event that has content, and everything after it, twice.
	DuplicateEnd bool

	// Status responds with this status, and with RetryAfter in the header unless it is 0.
	Status     int
	RetryAfter time.Duration
	// WebPage responds with a web page, as a login page or a wrong address does.
	WebPage bool
	// Hang sends no response until the client disconnects.
	Hang bool
	// Garbage sends an event that is not JSON after half of the events.
	Garbage bool
	// Reset resets the connection after this many bytes of the body; negative: before the first byte.
	Reset int
	// Truncate ends the body normally after this many bytes; negative: before the first byte.
	Truncate int
	// Stall stops sending after this many bytes until the client disconnects; negative: before the
	// first byte.
	Stall int

	// Times is how many calls fail, starting with the first; 0: all.
	Times int
	// Rate is the probability that such a call fails; 0: always.
	Rate float64
}

func (c Chaos) fails() bool {
	return c.Status != 0 || c.WebPage || c.Hang || c.Garbage || c.Reset != 0 || c.Truncate != 0 || c.Stall != 0
}

// Request is a call that the server received.
type Request struct {
	Path   string
	Header http.Header
	Body   []byte
}

// Server is an emulated service. It is safe for concurrent use.
type Server struct {
	// URL is the base URL.
	URL string

	o      Options
	server *httptest.Server
	closed chan struct{}
	hungUp chan struct{}

	mu       sync.Mutex
	rnd      *rand.Rand
	requests []Request
	next     int
	failed   int
	served   providers.Usage
}

// New starts a server, which is closed when the test ends.
func New(t testing.TB, o Options) *Server {
	t.Helper()
	if o.Wire == "" {
		o.Wire = providers.WireChat
	}
	s := &Server{o: o, rnd: rand.New(rand.NewPCG(o.Seed, 0)), closed: make(chan struct{}), hungUp: make(chan struct{}, 1<<16)}
	s.server = httptest.NewServer(s)
	s.URL = s.server.URL
	t.Cleanup(func() {
		close(s.closed)
		s.server.Close()
	})
	return s
}

// Entry returns the registry entry of the server.
func (s *Server) Entry() providers.Entry {
	return providers.Entry{Type: s.o.Wire, BaseURL: s.URL}
}

// Client returns a client that may reach the server. It is closed when the test ends.
func Client(t testing.TB) *safehttp.Client {
	t.Helper()
	c := safehttp.New(safehttp.Options{AllowLoopback: func(int) bool { return true }, MaxRequest: 64 << 20, MaxRedirects: -1})
	t.Cleanup(c.Close)
	return c
}

// Calls returns the number of calls of a model, including failed ones. A request for the list of
// models is not a call.
func (s *Server) Calls() int { return len(s.Requests()) }

// Requests returns the calls in order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Served returns the total usage of all answers that were begun, including interrupted ones, because
// a service may bill them. Its Requests field is their number. Recorded bodies are counted by their
// decoder.
func (s *Server) Served() providers.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served
}

// HungUp receives a value for each call whose client disconnected before the end of the answer.
func (s *Server) HungUp() <-chan struct{} { return s.hungUp }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/props": // as llama.cpp does
		_, _ = io.WriteString(w, `{"default_generation_settings":{"n_ctx":128000}}`)
		return
	case r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/api/"):
		http.NotFound(w, r)
		return
	case r.Method == http.MethodGet:
		_, _ = io.WriteString(w, `{"data":[{"id":"emulated"}],"models":[{"name":"models/emulated"}]}`)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	reply, fails, rnd, err := s.take(Request{r.URL.Path, r.Header.Clone(), body})
	chaos := s.o.Chaos
	if !s.waited(r, chaos.Latency) {
		return
	}
	switch {
	case fails && chaos.Hang:
		s.hang(r)
		return
	case fails && chaos.WebPage:
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "\n<!doctype html><title>Sign in</title>")
		return
	case err != nil:
		refuse(w, s.o.Wire, http.StatusBadRequest, err.Error())
		return
	case fails && chaos.Status != 0:
		if chaos.RetryAfter > 0 {
			w.Header().Set("Retry-After-Ms", strconv.FormatInt(chaos.RetryAfter.Milliseconds(), 10))
			w.Header().Set("Retry-After", strconv.FormatFloat(chaos.RetryAfter.Seconds(), 'f', -1, 64))
		}
		refuse(w, s.o.Wire, chaos.Status, "emulated failure")
		return
	case reply.Status != 0:
		refuse(w, s.o.Wire, reply.Status, reply.Message)
		return
	}
	s.send(w, r, reply, fails, rnd, body)
}

// waited waits before sending the header. It returns false if the client disconnected first.
func (s *Server) waited(r *http.Request, d time.Duration) bool {
	if d == 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		s.hungUp <- struct{}{}
	case <-s.closed:
	}
	return false
}

// hang sends nothing more until the client disconnects.
func (s *Server) hang(r *http.Request) {
	select {
	case <-r.Context().Done():
		s.hungUp <- struct{}{}
	case <-s.closed:
	}
}

// take records a call and returns its reply, whether it fails, and its source of random numbers.
func (s *Server) take(q Request) (reply providers.ScriptedReply, fails bool, rnd *rand.Rand, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, q)
	rnd = rand.New(rand.NewPCG(s.o.Seed, uint64(len(s.requests))))
	chaos := s.o.Chaos
	if fails = chaos.fails() && (chaos.Times == 0 || s.failed < chaos.Times) && (chaos.Rate == 0 || s.rnd.Float64() < chaos.Rate); fails {
		s.failed++
	}
	if fails && (chaos.Status != 0 || chaos.WebPage || chaos.Hang) {
		return reply, fails, rnd, nil
	}
	if s.o.Answer != nil {
		reply = s.o.Answer(q.Body)
		s.count(reply, q.Body)
		return reply, fails, rnd, nil
	}
	if s.o.Repeat && len(s.o.Replies) > 0 {
		s.next %= len(s.o.Replies)
	}
	if s.next >= len(s.o.Replies) {
		return reply, false, rnd, fmt.Errorf("the script has no reply to call %d", len(s.requests))
	}
	reply = s.o.Replies[s.next]
	if last := lastMessage(q.Body); !strings.Contains(last, reply.Match) {
		return reply, false, rnd, fmt.Errorf("reply %d expects %q in the last message, which is %q", s.next+1, reply.Match, last)
	}
	if !fails {
		s.next++
	}
	if reply.Status == 0 {
		s.count(reply, q.Body)
	}
	return reply, fails, rnd, nil
}

// count adds the usage of an answer.
func (s *Server) count(reply providers.ScriptedReply, body []byte) {
	u := usageOf(reply, body)
	if reply.Body != "" {
		r, _ := providers.Fold(providers.Decode(s.o.Wire, strings.NewReader(reply.Body), providers.DecodeOptions{}))
		u = r.Usage
	}
	s.served.Input += u.Input
	s.served.CacheRead += u.CacheRead
	s.served.CacheWrite += u.CacheWrite
	s.served.CacheWrite1h += u.CacheWrite1h
	s.served.Output += u.Output
	s.served.Reasoning += u.Reasoning
	s.served.Requests++
}

// lastMessage returns the text of the last message in a request body of any wire.
func lastMessage(body []byte) string {
	var q struct{ Messages, Input, Contents []any }
	if json.Unmarshal(body, &q) != nil {
		return ""
	}
	var texts []string
	var gather func(v any)
	gather = func(v any) {
		switch v := v.(type) {
		case string:
			texts = append(texts, v)
		case []any:
			for _, e := range v {
				gather(e)
			}
		case map[string]any:
			for _, k := range []string{"text", "content", "parts", "output", "functionResponse", "response", "result", "error"} {
				gather(v[k])
			}
		}
	}
	if all := slices.Concat(q.Messages, q.Input, q.Contents); len(all) > 0 {
		gather(all[len(all)-1])
	}
	return strings.Join(texts, "\n")
}

func refuse(w http.ResponseWriter, wire string, status int, message string) {
	kind := "invalid_request_error"
	switch {
	case status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case status >= 500:
		kind = "api_error"
	}
	o := object{"error": object{"type": kind, "message": message}}
	if wire == providers.WireAnthropic {
		o["type"] = "error"
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(o)
}

// send writes an answer, and interrupts it if the call fails.
func (s *Server) send(w http.ResponseWriter, r *http.Request, reply providers.ScriptedReply, fails bool, rnd *rand.Rand, body []byte) {
	var events []string
	stream := s.o.Wire == providers.WireGemini && strings.Contains(r.URL.Path, ":streamGenerateContent")
	if reply.Body != "" {
		stream = !strings.HasPrefix(strings.TrimSpace(reply.Body), "{")
		events = strings.SplitAfter(reply.Body, "\n\n")
	} else {
		var q struct{ Stream bool }
		_ = json.Unmarshal(body, &q)
		stream = stream || q.Stream
		events = render(s.o.Wire, reply, usageOf(reply, body), stream)
	}
	chaos := s.o.Chaos
	if stream {
		w.Header().Set("Content-Type", "text/event-stream")
		if chaos.DuplicateUsage {
			events = duplicateUsage(events)
		}
		if chaos.DuplicateEnd {
			events = append(events, events[max(0, len(events)-2):]...)
		}
		if chaos.Noise {
			for i := range events {
				events[i] = noise[rnd.IntN(len(noise))] + events[i]
			}
		}
		if fails && chaos.Garbage {
			events = slices.Insert(events, len(events)/2, "data: {\"garbage\":\n\n")
		}
	} else {
		w.Header().Set("Content-Type", "application/json")
		if fails && chaos.Garbage {
			events = []string{events[0][:len(events[0])/2] + "}]"}
		}
	}
	if chaos.ContentType != "" {
		w.Header().Set("Content-Type", chaos.ContentType)
	}
	if chaos.DripHeader && !fails {
		s.drip(w, strings.Join(events, ""))
		return
	}
	end, stop := -1, func() {}
	if fails {
		switch {
		case chaos.Reset != 0:
			end, stop = max(chaos.Reset, 0), func() { reset(w) }
		case chaos.Truncate != 0:
			end = max(chaos.Truncate, 0)
		case chaos.Stall != 0:
			end, stop = max(chaos.Stall, 0), func() { s.hang(r) }
		}
	}
	flush := func(p string) bool {
		_, err := io.WriteString(w, p)
		if err == nil {
			err = http.NewResponseController(w).Flush()
		}
		if err != nil || r.Context().Err() != nil {
			s.hungUp <- struct{}{}
			return false
		}
		return true
	}
	sent := 0
	for _, e := range events {
		if stream && s.o.Step != nil {
			select {
			case <-s.o.Step:
			case <-r.Context().Done():
				s.hungUp <- struct{}{}
				return
			case <-s.closed:
				return
			}
		}
		last := end >= 0 && sent+len(e) >= end
		if last {
			e = e[:end-sent]
		}
		for e != "" {
			n := len(e)
			switch {
			case chaos.Drip:
				n = 1
			case chaos.Split:
				n = min(n, 1+rnd.IntN(1<<rnd.IntN(9)))
			}
			if !flush(e[:n]) {
				return
			}
			sent += n
			e = e[n:]
		}
		if last {
			_ = http.NewResponseController(w).Flush()
			break
		}
	}
	if end >= 0 && sent < end { // the answer was shorter than the limit, so the call did not fail
		s.mu.Lock()
		s.next++
		s.mu.Unlock()
		return
	}
	stop()
}

// noise consists of lines that clients of server-sent events must ignore.
var noise = []string{": keep-alive\n\n", "retry: 3000\n", "id: 7\n", "garbage without a colon\n", "event: ping\n\n", ":\r\n\r\n", "x-unknown: {\"a\":\n"}

// duplicateUsage repeats each event that has usage, except those that end the answer, because clients
// stop reading there.
func duplicateUsage(events []string) []string {
	var out []string
	for _, e := range events {
		out = append(out, e)
		if (strings.Contains(e, `"usage`) || strings.Contains(e, `"usageMetadata"`)) && !strings.Contains(e, "finish") && !strings.Contains(e, "response.completed") {
			out = append(out, e)
		}
	}
	return out
}

// drip sends an answer byte by byte. It takes over the connection, because only that allows it for
// the header too.
func (s *Server) drip(w http.ResponseWriter, body string) {
	header := w.Header().Clone()
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer conn.Close()
	header.Set("Connection", "close")
	var head strings.Builder
	head.WriteString("HTTP/1.1 200 OK\r\n")
	_ = header.Write(&head)
	for _, b := range []byte(head.String() + "\r\n" + body) {
		if _, err := conn.Write([]byte{b}); err != nil {
			s.hungUp <- struct{}{}
			return
		}
	}
}

// reset closes a connection so that the peer sees a reset instead of a normal end.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func usageOf(reply providers.ScriptedReply, body []byte) providers.Usage {
	u := reply.Usage
	if u == (providers.Usage{}) {
		u = providers.Usage{Input: int64(len(body)+3) / 4, Output: int64(len(reply.Text)+len(reply.Reasoning)+3)/4 + int64(8*len(reply.Calls))}
	}
	u.Requests = 1
	return u
}

type object = map[string]any

func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // values built by render can always be encoded
	}
	return strings.TrimSpace(b.String())
}
