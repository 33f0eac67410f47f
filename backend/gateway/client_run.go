package gateway

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"time"

	"helix/backend/duration"
	"helix/backend/fault"
)

const (
	firstWait   = 250 * time.Millisecond
	waitGrowth  = 1.7
	longestWait = 15 * time.Second
)

// waitBefore returns the delay before the given attempt, counted from 0: 250 ms, growing by 1.7 up
// to 15 s. dice is uniform in [0, 1) and adds a jitter of 20 % either way.
func waitBefore(attempt int, dice float64) time.Duration {
	d := min(float64(firstWait)*math.Pow(waitGrowth, float64(min(attempt, 32))), float64(longestWait))
	return time.Duration(d * (0.8 + 0.4*dice))
}

func backoff(ctx context.Context, attempt int) error {
	var b [8]byte
	rand.Read(b[:]) // never fails
	t := time.NewTimer(waitBefore(attempt, float64(binary.LittleEndian.Uint64(b[:])>>11)/(1<<53)))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run reads frames and reconnects until the client is closed.
func (c *Client) run(p Pipe, out *outbox) {
	defer close(c.ended)
	for {
		if c.ctx.Err() == nil { // otherwise Close may have run before it could see this pipe
			c.readAll(p, out)
		}
		closePipe(p)
		out.close()
		c.down()
		if c.ctx.Err() != nil || c.o.once {
			c.fail(fault.Unavailablef("The connection to Helix is closed.").WithCause(errClientClosed))
			return
		}
		var err error
		if p, out, err = c.reconnect(); err != nil {
			c.fail(err)
			return
		}
	}
}

func (c *Client) readAll(p Pipe, out *outbox) {
	for {
		f, err := p.Read(c.ctx)
		if err != nil {
			return
		}
		m, err := readFrame(f)
		if err != nil {
			return
		}
		if m.Method != "" {
			c.heard(m)
			continue
		}
		c.mu.Lock()
		call := c.calls[string(m.ID)]
		delete(c.calls, string(m.ID))
		c.mu.Unlock()
		if call == nil {
			continue // it was canceled meanwhile
		}
		if m.Error != nil {
			if c.again(out, call, m.Error) {
				continue
			}
			call.done <- answer{err: m.Error.fault()}
		} else {
			call.done <- answer{result: m.Result, frame: f}
		}
	}
}

// again resends a repeated call whose first request is still running on the server: its answer will
// be available when that has ended.
func (c *Client) again(out *outbox, call *pending, e *inboundError) bool {
	if !call.repeated || !call.keyed || e.Data.Kind != fault.Conflict || e.Data.RetryAfterMs <= 0 {
		return false
	}
	c.mu.Lock()
	c.calls[call.id] = call
	c.mu.Unlock()
	time.AfterFunc(duration.Of(e.Data.RetryAfterMs, time.Millisecond), func() {
		c.mu.Lock()
		waiting := c.calls[call.id] == call && c.out == out
		c.mu.Unlock()
		if waiting {
			out.send(call.frame)
		}
	})
	return true
}

func (c *Client) up(out *outbox, h Hello) {
	c.mu.Lock()
	c.out, c.hello = out, h
	c.mu.Unlock()
	if c.o.OnState != nil {
		c.o.OnState(true)
	}
}

func (c *Client) down() {
	c.mu.Lock()
	c.out = nil
	c.mu.Unlock()
	if c.o.OnState != nil {
		c.o.OnState(false)
	}
}

// fail ends every call with err.
func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fatal = err
	for id, call := range c.calls {
		call.done <- answer{err: err}
		delete(c.calls, id)
	}
	for f := range c.follows {
		f.end(err)
	}
}

// reconnect opens a new session, resumes the events and repeats the calls that may be repeated. A
// refused token ends the client.
func (c *Client) reconnect() (Pipe, *outbox, error) {
	c.settle()
	for attempt := 0; ; attempt++ {
		if err := c.o.wait(c.ctx, attempt); err != nil {
			return nil, nil, fault.Unavailablef("The connection to Helix is closed.").WithCause(err)
		}
		p, h, err := c.open(c.ctx)
		if err != nil {
			if fault.Is(err, fault.Denied) || fault.Is(err, fault.Invalid) {
				return nil, nil, err
			}
			continue
		}
		if err := c.resume(p, h); err != nil {
			closePipe(p)
			continue
		}
		out := c.outboxFor(p)
		c.repeat(p, out, h)
		return p, out, nil
	}
}

// settle fails the calls that may have been executed and must not be repeated.
func (c *Client) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, call := range c.calls {
		if !call.keyed && c.scopes != nil && c.scopes[call.method] != "read" {
			call.done <- answer{err: errUnsure}
			delete(c.calls, id)
		}
	}
}

var errUnsure = fault.Unavailablef("The connection to Helix was lost during this call. Check whether it took effect before you repeat it.")

// repeat lets new calls through and resends the remaining ones. Which methods only read is
// requested once, before anything else uses the pipe.
func (c *Client) repeat(p Pipe, out *outbox, h Hello) {
	c.mu.Lock()
	unknown := false
	for _, call := range c.calls {
		unknown = unknown || !call.keyed
	}
	known := c.scopes != nil
	c.mu.Unlock()
	if unknown && !known {
		raw, err := c.exchange(c.ctx, p, "rpc.discover", struct{}{})
		scopes := map[string]string{}
		var doc struct {
			Methods []struct {
				Name  string `json:"name"`
				Scope string `json:"x-scope"`
			} `json:"methods"`
		}
		if err == nil && json.Unmarshal(raw, &doc) == nil {
			for _, m := range doc.Methods {
				scopes[m.Name] = m.Scope
			}
		}
		c.mu.Lock()
		c.scopes = scopes
		c.mu.Unlock()
		c.settle()
	}
	c.mu.Lock()
	var frames [][]byte
	for _, call := range c.calls {
		call.repeated = true
		frames = append(frames, call.frame)
	}
	c.out, c.hello = out, h // from now on, new calls send themselves
	c.mu.Unlock()
	if c.o.OnState != nil {
		c.o.OnState(true)
	}
	for _, f := range frames {
		out.send(f)
	}
}

// follow is one subscriber.
type follow struct {
	topics []string
	fn     func(Event)
	last   uint64 // seq of the newest event that it received
	epoch  string
	gap    func()
	ended  chan error
}

func (f *follow) end(err error) {
	select {
	case f.ended <- err:
	default:
	}
}

func (f *follow) wants(name string) bool {
	for _, t := range f.topics {
		if p, star := strings.CutSuffix(t, "*"); t == name || (star && strings.HasPrefix(name, p)) {
			return true
		}
	}
	return false
}

// heard passes a notification to its followers. Duplicates are dropped.
func (c *Client) heard(m inbound) {
	var p struct {
		Seq  uint64          `json:"seq"`
		Time time.Time       `json:"time"`
		Data json.RawMessage `json:"data"`
	}
	if json.Unmarshal(m.Params, &p) != nil {
		return
	}
	if m.Method == "events.gap" {
		c.mu.Lock()
		var told []func()
		for f := range c.follows {
			if f.gap != nil {
				told = append(told, f.gap)
			}
		}
		c.mu.Unlock()
		for _, fn := range told {
			fn()
		}
		return
	}
	c.mu.Lock()
	var to []*follow
	for f := range c.follows {
		if f.wants(m.Method) && (p.Seq == 0 || p.Seq > f.last || m.Method == "system.stopping") {
			to = append(to, f)
		}
		f.last = max(f.last, p.Seq) // there is a single stream, so all earlier events have arrived
	}
	c.mu.Unlock()
	for _, f := range to {
		f.fn(Event{m.Method, p.Seq, p.Time, p.Data})
	}
}

// Follow calls fn for each event of topics, in order and without duplicates, until ctx ends (nil)
// or the session ends permanently. after is the seq after which to start; a negative one means now.
// gap, which may be nil, is called if events are missing: reload what you show. fn runs on the
// client's reader: it must be quick and must not call the client.
func (c *Client) Follow(ctx context.Context, topics []string, after int64, fn func(Event), gap func()) error {
	f := &follow{topics: topics, fn: fn, gap: gap, ended: make(chan error, 1)}
	c.mu.Lock()
	f.epoch = c.hello.Epoch
	if after >= 0 {
		f.last = uint64(after)
	}
	c.follows[f] = true
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.follows, f)
		c.mu.Unlock()
	}()
	var err error
	if after < 0 {
		var st EventsState
		if err = c.Call(ctx, "events.subscribe", TopicsParams{topics}, &st); err == nil {
			c.mu.Lock()
			f.epoch, f.last = st.Epoch, max(f.last, st.Seq)
			c.mu.Unlock()
		}
	} else {
		var r ResumeResult
		err = c.Call(ctx, "events.resume", ResumeParams{Epoch: f.epoch, AfterSeq: uint64(after), Topics: topics}, &r)
		if err == nil && r.Gap && gap != nil {
			gap()
		}
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-f.ended:
		return err
	}
}

// resume brings the followers up to date in a new session, before anything else is sent.
func (c *Client) resume(p Pipe, h Hello) error {
	c.mu.Lock()
	var topics []string
	var after uint64
	var epoch string
	for f := range c.follows {
		if len(topics) == 0 || f.last < after {
			after, epoch = f.last, f.epoch
		}
		topics = append(topics, f.topics...)
	}
	c.mu.Unlock()
	if len(topics) == 0 {
		return nil
	}
	raw, err := c.exchange(c.ctx, p, "events.resume", ResumeParams{Epoch: epoch, AfterSeq: after, Topics: topics})
	if err != nil {
		return err
	}
	var r ResumeResult
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	c.mu.Lock()
	var told []func()
	for f := range c.follows {
		if f.epoch != h.Epoch {
			f.epoch, f.last = h.Epoch, r.Seq
		}
		if r.Gap {
			f.last = r.Seq
			if f.gap != nil {
				told = append(told, f.gap)
			}
		}
	}
	c.mu.Unlock()
	for _, fn := range told {
		fn()
	}
	return nil
}
