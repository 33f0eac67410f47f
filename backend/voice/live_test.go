package voice

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"helix/backend/audio/capture/capturetest"
	"helix/backend/bus"
	"helix/backend/transcribe"
)

// streamer is a fake service that streams.
type streamer struct {
	*scripted
	fail    error
	mu      sync.Mutex
	samples int
	first   chan struct{} // closed with the first text
	ctx     context.Context
}

func (s *streamer) Stream(ctx context.Context, _ transcribe.Options, heard func(transcribe.Partial)) (transcribe.Stream, error) {
	s.ctx = ctx
	if s.fail != nil {
		return nil, s.fail
	}
	return &stream{s, heard, sync.Once{}}, nil
}

type stream struct {
	*streamer
	heard func(transcribe.Partial)
	once  sync.Once
}

func (s *stream) Write(p []float32) {
	s.mu.Lock()
	s.samples += len(p)
	s.mu.Unlock()
	s.once.Do(func() {
		s.heard(transcribe.Partial{Text: "pract", StartMs: 0, EndMs: 500})
		close(s.first)
	})
}

func (s *stream) Finish() error {
	s.heard(transcribe.Partial{Text: "practice", Final: true, StartMs: 0, EndMs: 900})
	return s.ctx.Err()
}

func liveFixture(t *testing.T) (*fixture, *capturetest.Mic, *streamer, chan PartialHeard) {
	mic := &capturetest.Mic{}
	s := &streamer{scripted: &scripted{id: "deepgram"}, first: make(chan struct{})}
	heard := make(chan PartialHeard, 10)
	f := newFixture(t, func(o *Options) {
		o.Microphone, o.Recordings, o.Engines[1] = mic, t.TempDir(), s
		t.Cleanup(bus.Subscribe(o.Bus, func(_ uuid.UUID, e PartialHeard) { heard <- e }))
	})
	t.Cleanup(func() { f.Close() })
	service := "deepgram"
	_, err := f.UpdateSettings(f.ctx, SettingsParams{Provider: &service})
	f.must(err)
	return f, mic, s, heard
}

func TestTextsAreSentWhileRecordingAndTheRecordingIsTranscribed(t *testing.T) {
	t.Parallel()
	f, mic, s, heard := liveFixture(t)
	r, err := f.Start(f.ctx, StartParams{Stream: true})
	f.must(err)
	said := speech(t)
	for part := range slices.Chunk(said, 800) {
		mic.Play(part)
	}
	<-s.first
	stopped, err := f.Stop(f.ctx, StopParams{})
	f.must(err)
	want := []PartialHeard{{r.RecordingID, "pract", false, 0, 500, 1}, {r.RecordingID, "practice", true, 0, 900, 2}}
	if got := []PartialHeard{<-heard, <-heard}; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	f.live.runs.Wait()
	if s.samples != len(said) {
		t.Errorf("%d samples were streamed, want %d", s.samples, len(said))
	}
	for f.next() {
	}
	if m := f.memo(*stopped.MemoID); m.Status != completed || m.Text != "Übung macht den Meister" {
		t.Errorf("%+v", m)
	}
}

func TestRecordingDoesNotDependOnTheStream(t *testing.T) {
	t.Parallel()
	f, mic, s, _ := liveFixture(t)
	s.fail = errors.New("cut off")
	_, err := f.Start(f.ctx, StartParams{Stream: true})
	f.must(err)
	said := speech(t)
	for part := range slices.Chunk(said, 800) {
		mic.Play(part)
	}
	stopped, err := f.Stop(f.ctx, StopParams{})
	f.must(err)
	if stopped.DurationMs != int64(len(said)/16) {
		t.Errorf("%d ms of %d samples", stopped.DurationMs, len(said))
	}
	for f.next() {
	}
	if m := f.memo(*stopped.MemoID); m.Status != completed || m.Text != "Übung macht den Meister" {
		t.Errorf("%+v", m)
	}
}

func TestCloseEndsTheStream(t *testing.T) {
	t.Parallel()
	f, mic, s, _ := liveFixture(t)
	_, err := f.Start(f.ctx, StartParams{Stream: true})
	f.must(err)
	mic.Play(make([]float32, 16000))
	<-s.first
	f.must(f.Close())
	if s.ctx.Err() == nil {
		t.Error("the stream goes on")
	}
}
