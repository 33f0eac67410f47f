package voice

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/google/uuid"

	"helix/backend/audio"
	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/transcribe"
)

const liveChunks = 100 // chunks of samples that wait for the stream, of about 50 ms each

// PartialHeard is published with texts of a recording in progress. A text that is not final is
// replaced by the next one. They are a preview: when the recording has ended, it is transcribed as a
// whole.
type PartialHeard struct {
	RecordingID uuid.UUID `json:"recordingId"`
	Text        string    `json:"text"`
	IsFinal     bool      `json:"isFinal"`
	StartMs     int64     `json:"startMs"`
	EndMs       int64     `json:"endMs"`
	Seq         int64     `json:"seq"` // 1, 2, 3 and so on
}

// live passes the samples of one recording at a time to an engine.
type live struct {
	mu     sync.Mutex
	id     uuid.UUID
	in     chan []float32 // nil: there is no stream
	rate   int
	cancel context.CancelFunc
	runs   sync.WaitGroup
}

// startLive starts the preview of a recording if the selected engine can stream.
func (s *Service) startLive(user, id uuid.UUID, conf Settings) {
	e, ok := s.engine(conf.engine()).(transcribe.Streamer)
	if !ok {
		return
	}
	ctx, cancel := context.WithCancel(as(context.Background(), user))
	p := TranscribeParams{Engine: conf.engine()}
	choice(conf, &p)
	l := &s.live
	in := make(chan []float32, liveChunks)
	l.mu.Lock()
	l.id, l.in, l.cancel, l.rate = id, in, cancel, 0
	l.mu.Unlock()
	l.runs.Go(func() {
		defer cancel()
		if err := fault.Catch(func() error {
			return s.preview(ctx, e, user, id, in, transcribe.Options{Language: p.Language, Model: p.Model})
		}); err != nil && ctx.Err() == nil {
			s.o.Logger.Warn("texts during a recording", "recording", id, "err", err)
		}
	})
}

// stopLive ends the preview, which then gets its last texts. With discard they are not waited for.
func (s *Service) stopLive(discard bool) {
	l := &s.live
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.in != nil {
		close(l.in)
		l.in = nil
	}
	if discard && l.cancel != nil {
		l.cancel()
	}
}

// sampled gets what the recorder records. It must not wait: what doesn't fit is missing in the
// preview only.
func (s *Service) sampled(id uuid.UUID, rate int, samples []float32) {
	l := &s.live
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.in == nil || l.id != id {
		return
	}
	l.rate = rate
	select {
	case l.in <- append([]float32(nil), samples...):
	default:
	}
}

// pushed is a source of samples from a channel.
type pushed struct {
	in   <-chan []float32
	rest []float32
}

func (p *pushed) Read(out []float32) (int, error) {
	for len(p.rest) == 0 {
		var ok bool
		if p.rest, ok = <-p.in; !ok {
			return 0, io.EOF
		}
	}
	n := copy(out, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// preview streams a recording to an engine and publishes its texts.
func (s *Service) preview(ctx context.Context, e transcribe.Streamer, user, id uuid.UUID, in <-chan []float32, o transcribe.Options) error {
	first, ok := <-in
	if !ok {
		return nil
	}
	s.live.mu.Lock()
	rate := s.live.rate
	s.live.mu.Unlock()
	src, err := audio.Resample(&pushed{in, first}, rate, audio.Rate)
	if err != nil {
		return err
	}
	seq := int64(0)
	st, err := e.Stream(ctx, o, func(p transcribe.Partial) {
		seq++
		bus.Publish(s.o.Bus, user, PartialHeard{id, p.Text, p.Final, p.StartMs, p.EndMs, seq})
	})
	if err != nil {
		return err
	}
	for buf := make([]float32, audio.Rate/20); ; {
		n, err := src.Read(buf)
		st.Write(buf[:n])
		if errors.Is(err, io.EOF) {
			return st.Finish()
		}
		if err != nil {
			return errors.Join(err, st.Finish())
		}
	}
}
