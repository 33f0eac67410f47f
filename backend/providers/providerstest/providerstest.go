// Package providerstest emulates language model services on a loopback port, over all four wires,
// and misbehaves on request as real ones do. Only tests import it.
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
// What a server does depends on its options, on its seed and on the order of the calls alone.
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

// Options of New.
type Options struct {
	// Wire is the type of entry that the server speaks; empty: chat completions.
	Wire string
	// Replies are given in order. One with a Body is sent as recorded, whatever its Wire; one with a
	// Status is an error; one whose Match is not in the last message is refused.
	Replies []providers.ScriptedReply
	// Repeat begins with the first reply again after the last; otherwise a further call is refused.
	Repeat bool
	// Answer, if set, gives the reply to a request in place of Replies: for calls whose order is not known.
	Answer func(body []byte) providers.ScriptedReply
	Chaos  Chaos
	// Seed of everything random.
	Seed uint64
	// Step, if set, holds each event of a stream back until something is received from it.
	Step <-chan struct{}
}

// Chaos is how a server misbehaves. The zero value does not.
//
// The first group are faults that a client must not notice. They apply to all calls. Those of the second
// make a call fail, and apply to the calls that Times and Rate choose. A call that fails does not use up
// a reply, so that its retry gets it.
type Chaos struct {
	// Latency holds back the header of the answer.
	Latency time.Duration
	// ContentType takes the place of the right one.
	ContentType string
	// DripHeader sends the answer, header included, one byte at a time, as slow networks and slow
	// attackers do.
	DripHeader bool

	// Split cuts the body into pieces of random size.
	Split bool
	// Drip sends one byte at a time.
	Drip bool
	// Noise adds lines that the rules of server-sent events ignore.
	Noise bool
	// DuplicateUsage sends the usage of a stream twice.
	DuplicateUsage bool
	// DuplicateEnd sends the last event that has content, and what follows it, twice.
	DuplicateEnd bool

	// Status answers with this status, and with RetryAfter in its header unless that is 0.
	Status     int
	RetryAfter time.Duration
	// WebPage answers a web page, as a login page or a wrong address does.
	WebPage bool
	// Hang answers nothing at all until the client hangs up.
	Hang bool
	// Garbage sends an event that is not JSON after half of the events.
	Garbage bool
	// Reset resets the connection after this many bytes of the body; a negative number: before any.
	Reset int
	// Truncate ends the body in good order after this many bytes; a negative number: before any.
	Truncate int
	// Stall sends nothing more after this many bytes until the client hangs up; a negative number:
	// before any.
	Stall int

	// Times is how many calls fail, from the first; 0: all.
	Times int
	// Rate is the share of those calls that fail, by chance; 0: all.
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

// New starts a server that is closed with the test.
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

// Client returns a client that may reach the server, closed with the test.
func Client(t testing.TB) *safehttp.Client {
	t.Helper()
	c := safehttp.New(safehttp.Options{AllowLoopback: func(int) bool { return true }, MaxRequest: 64 << 20, MaxRedirects: -1})
	t.Cleanup(c.Close)
	return c
}

// Calls counts the calls of a model, those that failed included. A list of models is no call.
func (s *Server) Calls() int { return len(s.Requests()) }

// Requests returns the calls in the order in which they came.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Served returns the sum of the usage of all answers that were begun, cut ones included, as a
// service may bill them; Requests counts them. Recorded bodies are counted as their decoder does.
func (s *Server) Served() providers.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served
}

// HungUp receives once for each call whose client went away before the end of the answer.
func (s *Server) HungUp() <-chan struct{} { return s.hungUp }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
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

// waited waits before the header; false: the client went away first.
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

// hang sends nothing more until the client goes away.
func (s *Server) hang(r *http.Request) {
	select {
	case <-r.Context().Done():
		s.hungUp <- struct{}{}
	case <-s.closed:
	}
}

// take puts a call on record and returns its reply, whether it fails, and what its chance is drawn
// from.
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

// count adds what an answer costs.
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

// lastMessage returns the texts in the last message of a request of any wire.
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

// send writes an answer, and breaks it off where the call fails.
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
	if end >= 0 && sent < end { // the answer was shorter, so the call did not fail
		s.mu.Lock()
		s.next++
		s.mu.Unlock()
		return
	}
	stop()
}

// noise is what the rules of server-sent events ignore.
var noise = []string{": keep-alive\n\n", "retry: 3000\n", "id: 7\n", "garbage without a colon\n", "event: ping\n\n", ":\r\n\r\n", "x-unknown: {\"a\":\n"}

// duplicateUsage repeats each event that has usage and no end of the answer, after which clients
// read nothing.
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

// drip sends an answer by bytes, which only a connection of one's own allows for the header.
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

// reset closes a connection so that its peer sees a reset, not an end.
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
		panic(err) // what render builds can be encoded
	}
	return strings.TrimSpace(b.String())
}
