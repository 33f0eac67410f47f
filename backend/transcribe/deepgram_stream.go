package transcribe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"helix/backend/audio"
	"helix/backend/fault"
)

const (
	streamFrame    = audio.Rate / 20        // samples per message: 50 ms
	streamBytes    = 2 * streamFrame        // 16 bits each
	streamKept     = 60 * 20                // frames without a final text that are kept for another connection
	streamFailures = 3                      // connections in a row that failed
	streamMessage  = 1 << 20                // bytes
	streamEnd      = 10 * time.Second       // until the service has sent the last texts
	streamDial     = 10 * time.Second       // until the service accepts a connection
	streamSilence  = 5 * time.Second        // without sound until a message keeps the connection open
	streamPause    = 500 * time.Millisecond // before another connection
)

// Partial is a text of a recording that is still in progress. A final one does not change anymore;
// others are replaced by the next.
type Partial struct {
	Text           string
	Final          bool
	StartMs, EndMs int64
}

// Streamer is an engine that transcribes during a recording.
type Streamer interface {
	Engine
	// Stream starts a transcription. heard is called with its texts, one at a time. The texts are a
	// preview: after failures, parts may be missing.
	Stream(ctx context.Context, o Options, heard func(Partial)) (Stream, error)
}

// Stream is a transcription in progress.
type Stream interface {
	// Write adds samples at audio.Rate. It does not wait for the service.
	Write(samples []float32)
	// Finish waits for the last texts and ends the transcription. The error is the reason why it
	// ended early.
	Finish() error
}

// deepgramStream keeps the frames that have no final text yet, so that another connection can
// continue with them.
type deepgramStream struct {
	d     *Deepgram
	url   string
	key   string
	heard func(Partial)
	done  chan struct{}
	err   error // set before done is closed

	mu    sync.Mutex
	frame []byte
	kept  [][]byte
	base  int // index of kept[0] among all frames
	sent  int // index of the next frame to send
	ended bool
	wake  chan struct{}
}

// Stream implements Streamer.
func (d *Deepgram) Stream(ctx context.Context, o Options, heard func(Partial)) (Stream, error) {
	key, err := d.o.Key(ctx)
	if err != nil {
		return nil, err
	}
	if key == "" {
		return nil, failure(Missing, fault.Unavailablef("%s", d.Info(ctx).Reason))
	}
	q := url.Values{"model": {cmp.Or(o.Model, deepgramModel)}, "smart_format": {"true"}, "punctuate": {"true"}, "encoding": {"linear16"}, "sample_rate": {"16000"},
		"channels": {"1"}, "interim_results": {"true"}, "endpointing": {"300"}}
	if o.Language != "" {
		q.Set("language", o.Language)
	}
	s := &deepgramStream{d: d, url: strings.TrimRight(d.o.URL, "/") + "/v1/listen?" + q.Encode(), key: key, heard: heard, done: make(chan struct{}), wake: make(chan struct{}, 1)}
	go func() {
		defer close(s.done)
		s.err = fault.Catch(func() error { return s.run(ctx) })
	}()
	return s, nil
}

// Write implements Stream.
func (s *deepgramStream) Write(samples []float32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range samples {
		p := uint16(audio.PCM16(v))
		if s.frame = append(s.frame, byte(p), byte(p>>8)); len(s.frame) == streamBytes {
			s.pushLocked()
		}
	}
}

func (s *deepgramStream) pushLocked() {
	s.kept = append(s.kept, s.frame)
	s.frame = make([]byte, 0, streamBytes)
	if drop := len(s.kept) - streamKept; drop > 0 {
		s.forgetLocked(s.base + drop)
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// forgetLocked drops the frames before one.
func (s *deepgramStream) forgetLocked(before int) {
	n := max(0, min(before-s.base, len(s.kept)))
	s.kept, s.base = s.kept[n:], s.base+n
	s.sent = max(s.sent, s.base)
}

// Finish implements Stream.
func (s *deepgramStream) Finish() error {
	s.mu.Lock()
	if len(s.frame) > 0 && !s.ended {
		s.pushLocked()
	}
	s.ended = true
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	<-s.done
	return s.err
}

// run connects until the stream has ended or the service failed too often.
func (s *deepgramStream) run(ctx context.Context) error {
	for failures := 0; ; {
		s.mu.Lock()
		first := s.base
		s.sent = s.base
		s.mu.Unlock()
		ended, err := s.connect(ctx, first)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case ended:
			return nil
		case CauseOf(err) == Refused:
			return err
		}
		s.mu.Lock()
		if s.base > first { // it was of use
			failures = 0
		}
		s.mu.Unlock()
		if failures++; failures == streamFailures {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(cmp.Or(s.d.o.Pause, streamPause)):
		}
	}
}

// connect streams the frames from first on. ended is true if all of them have their texts.
func (s *deepgramStream) connect(ctx context.Context, first int) (ended bool, err error) {
	dial, cancel := context.WithTimeout(ctx, streamDial)
	defer cancel()
	client := &http.Client{Transport: s.d.o.HTTP, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	c, resp, err := websocket.Dial(dial, s.url, &websocket.DialOptions{HTTPClient: client, HTTPHeader: http.Header{"Authorization": {"Token " + s.key}}}) //nolint:bodyclose // closed with the connection
	if err != nil {
		if resp != nil && resp.StatusCode >= http.StatusBadRequest {
			return false, s.d.refused(resp.StatusCode, resp.Header)
		}
		return false, s.d.unreachable(ctx, err)
	}
	defer c.CloseNow() //nolint:errcheck // the connection is over
	c.SetReadLimit(streamMessage)
	both, stop := context.WithCancel(ctx)
	defer stop()
	sent := make(chan error, 1)
	go func() {
		err := fault.Catch(func() error { return s.send(both, c) })
		if err != nil {
			stop()
		}
		sent <- err
	}()
	err = s.receive(both, c, first)
	s.mu.Lock()
	ended = s.ended && s.sent == s.base+len(s.kept) && websocket.CloseStatus(err) == websocket.StatusNormalClosure
	s.mu.Unlock()
	stop()
	failed := <-sent
	if ended {
		return true, nil
	}
	if failed != nil && !errors.Is(failed, context.Canceled) {
		err = failed
	}
	return false, s.d.unreachable(ctx, err)
}

// send writes frames as they come, and the end of the stream.
func (s *deepgramStream) send(ctx context.Context, c *websocket.Conn) error {
	silence := time.NewTimer(streamSilence)
	defer silence.Stop()
	for {
		s.mu.Lock()
		var frame []byte
		if i := s.sent - s.base; i < len(s.kept) {
			frame = s.kept[i]
			s.sent++
		}
		over := s.ended
		s.mu.Unlock()
		if frame != nil {
			if err := c.Write(ctx, websocket.MessageBinary, frame); err != nil {
				return err
			}
			silence.Reset(streamSilence)
			continue
		}
		if over {
			if err := c.Write(ctx, websocket.MessageText, []byte(`{"type":"CloseStream"}`)); err != nil {
				return err
			}
			limit := time.NewTimer(streamEnd)
			defer limit.Stop()
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-limit.C:
				return errors.New("the service did not end the stream")
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.wake:
		case <-silence.C:
			if err := c.Write(ctx, websocket.MessageText, []byte(`{"type":"KeepAlive"}`)); err != nil {
				return err
			}
			silence.Reset(streamSilence)
		}
	}
}

// streamReply holds the needed fields of a message.
type streamReply struct {
	Type     string  `json:"type"`
	Start    float64 `json:"start"`
	Duration float64 `json:"duration"`
	Final    bool    `json:"is_final"`
	Channel  struct {
		Alternatives []struct {
			Transcript string `json:"transcript"`
		} `json:"alternatives"`
	} `json:"channel"`
}

// receive reads texts until the connection ends. Their times are relative to the frame first.
func (s *deepgramStream) receive(ctx context.Context, c *websocket.Conn, first int) error {
	const perSecond = audio.Rate / streamFrame
	for {
		_, data, err := c.Read(ctx)
		if err != nil {
			return err
		}
		var r streamReply
		if err := json.Unmarshal(data, &r); err != nil {
			return failure(Failed, fault.Unavailablef("Couldn't read Deepgram's answer.").WithCause(err))
		}
		if r.Type != "Results" || !(r.Start >= 0 && r.Duration >= 0 && r.Start+r.Duration < audio.MaxDuration.Seconds()) {
			continue
		}
		offset := int64(first) * 1000 / perSecond
		p := Partial{Final: r.Final, StartMs: offset + int64(math.Round(r.Start*1000)), EndMs: offset + int64(math.Round((r.Start+r.Duration)*1000))}
		if len(r.Channel.Alternatives) > 0 {
			p.Text = r.Channel.Alternatives[0].Transcript
		}
		if p.Final {
			s.mu.Lock()
			s.forgetLocked(min(s.sent, int(p.EndMs*perSecond/1000)))
			s.mu.Unlock()
		}
		if p.Text != "" {
			s.heard(p)
		}
	}
}
