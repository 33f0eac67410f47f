package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"helix/backend/audio"
	"helix/backend/audio/capture/capturetest"
	"helix/backend/bus"
	"helix/backend/safehttp"
	"helix/backend/transcribe"
	"helix/backend/voice"

	"helixbench/figures"
)

// recorder is a service with a microphone that hears what is played to it.
type recorder struct {
	*voice.Service
	mic     *capturetest.Mic
	ctx     context.Context
	done    func()
	written atomic.Int64  // samples of the recording so far
	more    chan struct{} // written has changed
	ended   chan time.Time
}

// recorder opens a service whose queue runs.
func (b *bench) recorder(name string, engines ...transcribe.Engine) *recorder {
	r := &recorder{mic: &capturetest.Mic{}, more: make(chan struct{}, 1), ended: make(chan time.Time, 100)}
	events := bus.New()
	bus.Subscribe(events, func(_ uuid.UUID, l voice.LevelChanged) {
		r.written.Store(l.ElapsedMs * audio.Rate / 1000)
		select {
		case r.more <- struct{}{}:
		default:
		}
	})
	bus.Subscribe(events, func(_ uuid.UUID, t voice.Transcribed) {
		if t.Status == "completed" {
			r.ended <- time.Now()
		}
	})
	var closeAll func()
	_, r.Service, r.ctx, closeAll = b.voice(name, voice.Options{Bus: events, Microphone: r.mic, Engines: engines})
	ctx, cancel := context.WithCancel(r.ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- r.Run(ctx) }()
	r.done = func() {
		cancel()
		figures.Check(<-stopped)
		closeAll()
	}
	return r
}

// record records sound so many times, in pieces of 10 ms, as fast as it is written.
func (r *recorder) record(x []float32, times int) {
	_, err := r.Start(r.ctx, voice.StartParams{})
	figures.Check(err)
	const ahead = audio.Rate // the recorder holds two seconds
	r.written.Store(0)
	var played int64
	wait := func(written int64) {
		for r.written.Load() < written {
			<-r.more
		}
	}
	for range times {
		for piece := range slices.Chunk(x, audio.Rate/100) {
			wait(played - ahead)
			r.mic.Play(piece)
			played += int64(len(piece))
		}
	}
	wait(played - audio.Rate/20)
}

// overhead measures what Helix adds to the time of a service that answers at once.
func (b *bench) overhead() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			figures.Check(json.NewEncoder(w).Encode(map[string]any{"results": map[string]any{"channels": []any{map[string]any{"alternatives": []any{map[string]any{"transcript": "Open the garden.", "confidence": 0.9}}}}}}))
		}
	}))
	defer server.Close()
	client := safehttp.New(safehttp.Options{AllowLoopback: func(int) bool { return true }, MaxRedirects: -1})
	defer client.Close()
	r := b.recorder("overhead", transcribe.NewPocketSphinx(), transcribe.NewDeepgram(transcribe.DeepgramOptions{URL: server.URL, HTTP: client, Key: func(context.Context) (string, error) { return "key", nil }}))
	defer r.done()
	service := "deepgram"
	_, err := r.UpdateSettings(r.ctx, voice.SettingsParams{Provider: &service})
	figures.Check(err)
	x := samplesOf(b.speech(wav))
	var stored, text []float64
	var used time.Duration
	for range 15 {
		r.record(x[:10*audio.Rate], 1)
		used += cpu(func() {
			start := time.Now()
			_, err := r.Stop(r.ctx, voice.StopParams{})
			figures.Check(err)
			stored = append(stored, time.Since(start).Seconds()*1000)
			text = append(text, (<-r.ended).Sub(start).Seconds()*1000)
		})
	}
	slices.Sort(stored)
	slices.Sort(text)
	figures.Print("10 s of speech are stored after the end, median", stored[len(stored)/2], "ms", 0, "")
	figures.Print("from the end of 10 s of speech to its text, median, with a service that answers at once", text[len(text)/2], "ms", 0, "")
	figures.Print("the same, processor time", used.Seconds()*1000/float64(len(text)), "ms", 0, "")
}

// recording measures the memory and processor time of recordings, and the wake-ups without one.
func (b *bench) recording() {
	for _, seconds := range []int{10, b.minutes * 60} {
		var mib, used float64
		inChild(childRecord, fmt.Sprint(seconds), &mib, &used)
		figures.Print(fmt.Sprintf("memory while recording more than idle, %d s", seconds), mib, "MiB", 0, "")
		if seconds > 10 {
			figures.Print("processor time while recording, of the length", 100*used/float64(seconds), "%", 0, "")
		}
	}
	var wakeups float64
	inChild(childIdle, "10", &wakeups)
	figures.Print("wake-ups in 10 s with a closed microphone", wakeups, "count", 0, "")
}

// childRecorder opens a service in a temporary folder.
func childRecorder() (r *recorder, done func()) {
	dir, err := os.MkdirTemp("", "helix-bench-audio-")
	figures.Check(err)
	r = (&bench{dir: dir}).recorder("recorder", transcribe.NewPocketSphinx())
	return r, func() {
		r.done()
		figures.Check(os.RemoveAll(dir))
	}
}

func recordChild(text string) {
	seconds, err := strconv.Atoi(text)
	figures.Check(err)
	r, done := childRecorder()
	defer done()
	second := readAll(&sine{hz: 500, rate: audio.Rate})
	idle := peakMemory()
	used := cpu(func() { r.record(second, seconds) })
	fmt.Println(peakMemory()-idle, used.Seconds())
	_, err = r.Cancel(r.ctx, voice.StopParams{})
	figures.Check(err)
}

// idleChild prints how often a thread of this process woke up.
func idleChild(text string) {
	seconds, err := strconv.Atoi(text)
	figures.Check(err)
	_, done := childRecorder()
	defer done()
	time.Sleep(5 * time.Second) // what the start left to the garbage collector
	before := wakeUps()
	time.Sleep(time.Duration(seconds) * time.Second)
	fmt.Println(wakeUps() - before)
}

// wakeUps returns how often threads of this process have slept.
func wakeUps() (n int) {
	list, err := filepath.Glob("/proc/self/task/*/status")
	figures.Check(err)
	for _, path := range list {
		text, err := os.ReadFile(path)
		figures.Check(err)
		_, rest, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
		var k int
		_, err = fmt.Sscan(rest, &k)
		figures.Check(err)
		n += k
	}
	return n
}
