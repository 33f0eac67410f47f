package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
)

// hub numbers, stores and sends the events of one user.
type hub struct {
	srv  *Server
	user uuid.UUID

	mu    sync.Mutex
	seq   uint64
	kept  []keptEvent // a ring buffer: the oldest is at head
	head  int
	n     int
	bytes int
	live  map[*session]struct{}
}

type keptEvent struct {
	seq   uint64
	topic string
	frame []byte
}

// subscription is the set of topics of a session. hub.mu guards it.
type subscription struct {
	exact     map[string]bool
	prefix    []string // "memory." for memory.*; "" for *
	replaying bool
}

const maxTopics = 64

var topicPattern = regexp.MustCompile(`^(\*|[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*(\.\*)?)$`)

func (s *subscription) matches(topic string) bool {
	if s.exact[topic] {
		return true
	}
	for _, p := range s.prefix {
		if strings.HasPrefix(topic, p) {
			return true
		}
	}
	return false
}

func (s *subscription) count() int { return len(s.exact) + len(s.prefix) }

func (s *subscription) add(topics []string) {
	for _, t := range topics {
		if p, ok := strings.CutSuffix(t, "*"); ok {
			s.remove([]string{t})
			s.prefix = append(s.prefix, p)
			continue
		}
		if s.exact == nil {
			s.exact = map[string]bool{}
		}
		s.exact[t] = true
	}
}

func (s *subscription) remove(topics []string) {
	for _, t := range topics {
		if p, ok := strings.CutSuffix(t, "*"); ok {
			for i, have := range s.prefix {
				if have == p {
					s.prefix = append(s.prefix[:i:i], s.prefix[i+1:]...)
					break
				}
			}
			continue
		}
		delete(s.exact, t)
	}
}

func (s *Server) hubOf(user uuid.UUID) *hub {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hubs[user]
	if h == nil {
		h = &hub{srv: s, user: user, live: map[*session]struct{}{}}
		s.hubs[user] = h
	}
	return h
}

// publish passes a bus event to the hub of its user. It runs on the publisher's goroutine and never
// blocks on a client.
func (s *Server) publish(e *event, user uuid.UUID, data any) {
	var hubs []*hub
	switch {
	case user != uuid.Nil:
		hubs = []*hub{s.hubOf(user)}
	case e.everyone:
		s.mu.Lock()
		for _, h := range s.hubs {
			hubs = append(hubs, h)
		}
		s.mu.Unlock()
	}
	if len(hubs) == 0 {
		return
	}
	raw, err := marshal(data)
	if err != nil || len(raw) > s.o.Limits.MaxPayload-256 {
		s.log.Error("event dropped", slog.String("event", e.name), slog.Int("bytes", len(raw)), slog.Any("error", err))
		return
	}
	for _, h := range hubs {
		if e.transient {
			h.pass(e.name, raw)
		} else {
			h.publish(e.name, raw)
		}
	}
}

func (h *hub) publish(topic string, data []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seq++
	frame := eventFrame(topic, h.seq, time.Now(), data)
	h.retain(keptEvent{h.seq, topic, frame})
	for ss := range h.live {
		if ss.sub.matches(topic) {
			ss.out.event(h.seq, frame)
		}
	}
}

// pass sends a transient event.
func (h *hub) pass(topic string, data []byte) {
	frame := eventFrame(topic, 0, time.Now(), data)
	h.mu.Lock()
	defer h.mu.Unlock()
	for ss := range h.live {
		if ss.sub.matches(topic) {
			ss.out.transient(frame)
		}
	}
}

// retain appends to the ring buffer and drops the oldest events beyond the limits.
func (h *hub) retain(e keptEvent) {
	l := &h.srv.o.Limits
	for h.n > 0 && (h.n >= l.ReplayEvents || h.bytes+len(e.frame) > l.ReplayBytes) {
		h.bytes -= len(h.kept[h.head].frame)
		h.kept[h.head] = keptEvent{}
		h.head = (h.head + 1) % len(h.kept)
		h.n--
	}
	if len(e.frame) > l.ReplayBytes {
		return
	}
	if h.n == len(h.kept) {
		bigger := make([]keptEvent, max(16, min(2*len(h.kept), l.ReplayEvents)))
		for i := range h.n {
			bigger[i] = h.kept[(h.head+i)%len(h.kept)]
		}
		h.kept, h.head = bigger, 0
	}
	h.kept[(h.head+h.n)%len(h.kept)] = e
	h.n++
	h.bytes += len(e.frame)
}

// oldest returns the seq of the oldest stored event, or seq+1 if none is stored.
func (h *hub) oldest() uint64 {
	if h.n == 0 {
		return h.seq + 1
	}
	return h.kept[h.head].seq
}

func (h *hub) leave(ss *session) {
	h.mu.Lock()
	delete(h.live, ss)
	h.mu.Unlock()
}

// eventFrame builds the notification; all events have this form.
func eventFrame(topic string, seq uint64, at time.Time, data []byte) []byte {
	b := make([]byte, 0, len(data)+len(topic)+120)
	b = append(b, `{"jsonrpc":"2.0","method":"`...)
	b = append(b, topic...)
	b = append(b, `","params":{"seq":`...)
	b = strconv.AppendUint(b, seq, 10)
	b = append(b, `,"time":"`...)
	b = at.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","data":`...)
	b = append(b, data...)
	return append(b, "}}"...)
}

// EventsGap tells a client that was too slow which events were dropped. It may request them with
// events.resume while they are still stored, or reload what it shows.
type EventsGap struct {
	FromSeq uint64 `json:"fromSeq"`
	ToSeq   uint64 `json:"toSeq"`
}

// SystemStopping reports that Helix is about to end the session.
type SystemStopping struct {
	WithinMs int64 `json:"withinMs"` // running calls are canceled after this time
}

func (s *Server) gapFrame(from, to uint64) []byte {
	data, _ := json.Marshal(EventsGap{from, to}) // numbers
	return eventFrame("events.gap", to, time.Now(), data)
}

// TopicsParams select events by exact name, or by a prefix with a star such as memory.*.
type TopicsParams struct {
	Topics []string `json:"topics"` // at most 64 per session
}

// EventsState is the position of the event stream. Seq counts per user from 1 within an
// epoch; a new epoch starts with each start of Helix.
type EventsState struct {
	Epoch string `json:"epoch"`
	Seq   uint64 `json:"seq"`
}

// streaming returns the session if it can receive events.
func streaming(ctx context.Context) (*session, error) {
	ss, err := sessionOf(ctx)
	if err != nil {
		return nil, err
	}
	if ss.pipe == nil {
		return nil, fault.Invalidf("Events need a connection that stays open: use the WebSocket instead of POST /rpc.")
	}
	return ss, nil
}

// checkTopics refuses patterns that cannot match, so that a typo is not mistaken for a lack of
// events.
func (s *Server) checkTopics(topics []string) error {
	if len(topics) > maxTopics {
		return fault.Invalidf("A session can subscribe to at most %d topics.", maxTopics)
	}
	for _, t := range topics {
		if len(t) > 128 || !topicPattern.MatchString(t) {
			return fault.Invalidf("%.128q is not a topic. Use an event name or a prefix such as \"memory.*\".", t)
		}
		p, star := strings.CutSuffix(t, "*")
		known := star && p == ""
		for name := range s.api.events {
			known = known || name == t || (star && strings.HasPrefix(name, p))
		}
		if !known {
			return fault.Invalidf("Unknown event %q.", t)
		}
	}
	return nil
}

// Subscribe adds topics to this session. Events arrive as notifications in the order of their seq.
// A session starts with no topics.
func (s *Server) Subscribe(ctx context.Context, p TopicsParams) (EventsState, error) {
	ss, err := streaming(ctx)
	if err != nil {
		return EventsState{}, err
	}
	if err := s.checkTopics(p.Topics); err != nil {
		return EventsState{}, err
	}
	h := ss.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := ss.addTopics(p.Topics); err != nil {
		return EventsState{}, err
	}
	if !ss.sub.replaying {
		h.live[ss] = struct{}{}
	}
	return EventsState{s.epoch, h.seq}, nil
}

// addTopics adds topics; the caller must hold hub.mu.
func (ss *session) addTopics(topics []string) error {
	next := subscription{exact: map[string]bool{}, prefix: append([]string(nil), ss.sub.prefix...)}
	for t := range ss.sub.exact {
		next.exact[t] = true
	}
	next.add(topics)
	if next.count() > maxTopics {
		return fault.Invalidf("A session can subscribe to at most %d topics.", maxTopics)
	}
	ss.sub.exact, ss.sub.prefix = next.exact, next.prefix
	return nil
}

// Unsubscribe removes topics exactly as they were subscribed; unknown ones are ignored.
func (s *Server) Unsubscribe(ctx context.Context, p TopicsParams) (EventsState, error) {
	ss, err := streaming(ctx)
	if err != nil {
		return EventsState{}, err
	}
	h := ss.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	ss.sub.remove(p.Topics)
	if ss.sub.count() == 0 {
		delete(h.live, ss)
	}
	return EventsState{s.epoch, h.seq}, nil
}

// ResumeParams identify the last event that the client received.
type ResumeParams struct {
	Epoch    string   `json:"epoch"`
	AfterSeq uint64   `json:"afterSeq"` // 0: from the start of the epoch
	Topics   []string `json:"topics,omitempty"`
}

// ResumeResult reports what was replayed. If gap is true, nothing was: reload what you show.
type ResumeResult struct {
	Epoch    string `json:"epoch"`
	Seq      uint64 `json:"seq"`
	Replayed int    `json:"replayed"`
	Gap      bool   `json:"gap"`
}

// Resume subscribes to topics, sends every stored event after afterSeq, in order, and then
// continues with live events. The replayed events are sent before the response. If some events are
// no longer stored, or the epoch has changed, nothing is replayed and gap is true; live events
// follow nevertheless.
func (s *Server) Resume(ctx context.Context, p ResumeParams) (ResumeResult, error) {
	ss, err := streaming(ctx)
	if err != nil {
		return ResumeResult{}, err
	}
	if err := s.checkTopics(p.Topics); err != nil {
		return ResumeResult{}, err
	}
	h := ss.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if ss.sub.replaying {
		return ResumeResult{}, fault.Conflictf("This session is already resuming.")
	}
	if err := ss.addTopics(p.Topics); err != nil {
		return ResumeResult{}, err
	}
	if ss.sub.count() == 0 {
		return ResumeResult{}, fault.Invalidf("Name the topics to resume.")
	}
	if p.Epoch != s.epoch || p.AfterSeq > h.seq || p.AfterSeq+1 < h.oldest() {
		h.live[ss] = struct{}{}
		return ResumeResult{Epoch: s.epoch, Seq: h.seq, Gap: true}, nil
	}
	delete(h.live, ss) // it gets its events from the ring until it has caught up
	ss.sub.replaying = true
	defer func() { ss.sub.replaying = false }()
	ss.out.dropEvents()
	n, err := h.replay(ctx, ss, p.AfterSeq)
	if err != nil {
		return ResumeResult{}, err
	}
	return ResumeResult{Epoch: s.epoch, Seq: h.seq, Replayed: n}, nil
}

// replay sends the events in the ring after the given seq as fast as the session's queue accepts
// them. The caller must hold h.mu, which replay releases while it waits. The session is live when
// it returns.
func (h *hub) replay(ctx context.Context, ss *session, after uint64) (n int, err error) {
	for {
		room, bytes := ss.out.roomFor()
		if first := h.oldest(); first > after+1 { // events were dropped while waiting: report which
			ss.out.replay(h.srv.gapFrame(after+1, first-1)) // in its position between the events
			after = first - 1
		}
		for i := h.indexAfter(after); i < h.n; i++ {
			e := &h.kept[(h.head+i)%len(h.kept)]
			if ss.sub.matches(e.topic) {
				if room < 1 || (bytes < len(e.frame) && n > 0) {
					break
				}
				ss.out.replay(e.frame)
				room--
				bytes -= len(e.frame)
				n++
			}
			after = e.seq
		}
		if after == h.seq {
			h.live[ss] = struct{}{}
			return n, nil
		}
		h.mu.Unlock()
		select {
		case <-ss.out.room:
		case <-ctx.Done():
		}
		h.mu.Lock()
		if ctx.Err() != nil {
			h.live[ss] = struct{}{}
			ss.out.dropped(after+1, h.seq)
			return n, ctx.Err()
		}
	}
}

// indexAfter returns the ring offset of the first event after the given seq.
func (h *hub) indexAfter(after uint64) int {
	lo, hi := 0, h.n
	for lo < hi {
		mid := (lo + hi) / 2
		if h.kept[(h.head+mid)%len(h.kept)].seq <= after {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}
