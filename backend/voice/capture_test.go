package voice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/audio"
	"helix/backend/audio/capture"
	"helix/backend/audio/capture/capturetest"
	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/storage"
)

func micFixture(t *testing.T) (*fixture, *capturetest.Mic, chan StateChanged) {
	t.Helper()
	mic := &capturetest.Mic{}
	states := make(chan StateChanged, 100)
	f := newFixture(t, func(o *Options) {
		o.Microphone, o.Recordings = mic, t.TempDir()
		t.Cleanup(bus.Subscribe(o.Bus, func(_ uuid.UUID, e StateChanged) { states <- e }))
	})
	t.Cleanup(func() { f.Close() })
	return f, mic, states
}

// speech returns samples of speech at 16 kHz.
func speech(t *testing.T) []float32 {
	t.Helper()
	file, err := os.Open(say(t, "Practice makes perfect."))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	_, src, err := audio.Speech(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []float32
	for buf := make([]float32, 4096); ; {
		n, err := src.Read(buf)
		out = append(out, buf[:n]...)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (f *fixture) parts() []string {
	f.t.Helper()
	files, err := filepath.Glob(filepath.Join(f.o.Recordings, "*"))
	f.must(err)
	return files
}

func TestRecordingBecomesAMemoWithItsExactSound(t *testing.T) {
	t.Parallel()
	f, mic, states := micFixture(t)
	r, err := f.Start(f.ctx, StartParams{Title: "Idea", Tags: []string{"work"}})
	f.must(err)
	if _, err := f.Start(f.ctx, StartParams{}); !fault.Is(err, fault.Conflict) {
		t.Errorf("second start: %v", err)
	}
	if _, err := f.Stop(f.them, StopParams{}); !fault.Is(err, fault.Conflict) {
		t.Errorf("stop by another user: %v", err)
	}
	sound := speech(t)
	mic.Play(sound)
	if s, err := f.Status(f.ctx, struct{}{}); err != nil || s.State != StateRecording || *s.RecordingID != r.RecordingID || !s.Microphone.Open {
		t.Errorf("%+v, %v", s, err)
	}
	out, err := f.Stop(f.ctx, StopParams{RecordingID: &r.RecordingID})
	f.must(err)
	if out.Status != pending || out.DurationMs != int64(len(sound))*1000/16000 || len(f.parts()) != 0 {
		t.Errorf("%+v, files %v", out, f.parts())
	}
	sum, _, err := f.Sound(f.ctx, AudioURLParams{RecordingID: r.RecordingID})
	f.must(err)
	ref, err := blobRef(blobPrefix + sum)
	f.must(err)
	blob, err := f.db.Blobs().Open(ref)
	f.must(err)
	defer blob.Close()
	st, err := audio.Open(blob)
	f.must(err)
	for n := 0; n < len(sound); {
		buf := make([]float32, 1000)
		k, err := st.Read(buf)
		f.must(err)
		for i, v := range buf[:k] {
			if audio.PCM16(v*32768/32767) != audio.PCM16(sound[n+i]) && math.Abs(float64(v-sound[n+i])) > 1.0/32767 {
				t.Fatalf("sample %d: %g, want %g", n+i, v, sound[n+i])
			}
		}
		n += k
	}
	for f.next() {
	}
	m := f.memo(*out.MemoID)
	if m.Status != completed || m.Title != "Idea" || m.Text == "" || m.Tags[0] != "work" || m.RecordingID != r.RecordingID {
		t.Errorf("%+v", m)
	}
	if a, b := <-states, <-states; a.State != StateRecording || b.State != StateIdle {
		t.Errorf("%+v, %+v", a, b)
	}
}

func TestToggleCancelAndUndo(t *testing.T) {
	t.Parallel()
	f, mic, _ := micFixture(t)
	on, err := f.Toggle(f.ctx, ToggleParams{})
	f.must(err)
	mic.Play(make([]float32, 16000))
	off, err := f.Toggle(f.ctx, ToggleParams{})
	if err != nil || on.State != StateRecording || off.State != StateIdle || on.RecordingID != off.RecordingID {
		t.Fatalf("%+v, %+v, %v", on, off, err)
	}
	_, err = f.Start(f.ctx, StartParams{Title: "Canceled"})
	f.must(err)
	mic.Play(make([]float32, 16000))
	c, err := f.Cancel(f.ctx, StopParams{})
	f.must(err)
	if l, err := f.ListMemos(f.ctx, ListParams{}); err != nil || l.Total != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := f.UndoCancel(f.them, UndoParams(c)); !fault.Is(err, fault.NotFound) {
		t.Errorf("another user: %v", err)
	}
	if m, err := f.UndoCancel(f.ctx, UndoParams(c)); err != nil || m.Title != "Canceled" {
		t.Errorf("%+v, %v", m, err)
	}
	_, err = f.Start(f.ctx, StartParams{})
	f.must(err)
	mic.Play(make([]float32, 3999))
	if r, err := f.Stop(f.ctx, StopParams{}); err != nil || r.Status != "canceled" {
		t.Errorf("a recording of less than 250 ms: %+v, %v", r, err)
	}
}

// TestRecorderInOddOrders calls the recorder as two clients do that don't know of each other.
func TestRecorderInOddOrders(t *testing.T) {
	t.Parallel()
	f, mic, states := micFixture(t)
	conflict := func(when string) {
		t.Helper()
		for name, call := range map[string]func() error{
			"stop":   func() error { _, err := f.Stop(f.ctx, StopParams{}); return err },
			"cancel": func() error { _, err := f.Cancel(f.ctx, StopParams{}); return err },
			"pause":  func() error { _, err := f.Pause(f.ctx, StopParams{}); return err },
			"resume": func() error { _, err := f.Resume(f.ctx, StopParams{}); return err },
		} {
			if err := call(); !fault.Is(err, fault.Conflict) {
				t.Errorf("%s %s: %v", name, when, err)
			}
		}
	}
	conflict("before a recording")
	r, err := f.Start(f.ctx, StartParams{})
	f.must(err)
	if _, err := f.Start(f.ctx, StartParams{}); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second start: %v", err)
	}
	if _, err := f.Stop(f.them, StopParams{}); !fault.Is(err, fault.Conflict) {
		t.Errorf("another user: %v", err)
	}
	other := storage.NewID()
	if _, err := f.Stop(f.ctx, StopParams{RecordingID: &other}); !fault.Is(err, fault.NotFound) {
		t.Errorf("another recording: %v", err)
	}
	mic.Play(make([]float32, 8000))
	for range 2 { // twice is like once
		if p, err := f.Pause(f.ctx, StopParams{}); err != nil || p.Status != StatePaused || p.DurationMs != 500 {
			t.Errorf("%+v, %v", p, err)
		}
	}
	for len(states) > 0 {
		<-states
	}
	mic.Unplug(nil)
	if s := <-states; s.State != StatePaused || s.Notice == "" {
		t.Errorf("a microphone that is lost during a pause: %+v", s)
	}
	for range 2 {
		if p, err := f.Resume(f.ctx, StopParams{}); err != nil || p.Status != StateRecording {
			t.Errorf("%+v, %v", p, err)
		}
	}
	mic.Play(make([]float32, 8000))
	stopped := make(chan error, 8)
	for range cap(stopped) {
		go func() {
			s, err := f.Stop(f.ctx, StopParams{RecordingID: &r.RecordingID})
			if err == nil && s.DurationMs != 1000 {
				err = fmt.Errorf("%d ms", s.DurationMs)
			}
			stopped <- err
		}()
	}
	ended := 0
	for range cap(stopped) {
		switch err := <-stopped; {
		case err == nil:
			ended++
		case !fault.Is(err, fault.Conflict):
			t.Error(err)
		}
	}
	if l, err := f.ListMemos(f.ctx, ListParams{}); err != nil || l.Total != 1 || ended != 1 {
		t.Errorf("%d of 8 ended it; %+v, %v", ended, l, err)
	}
	conflict("after the end")
}

func TestCanceledCommandNeverRuns(t *testing.T) {
	t.Parallel()
	f, p, _ := commandFixture(t)
	mic := &capturetest.Mic{}
	f.o.Microphone = mic
	f.openMicrophone()
	t.Cleanup(f.mic.rec.Close)
	_, err := f.CreateCommand(f.ctx, CreateCommandParams{Name: "proverb", TriggerPhrase: "Übung macht den Meister", ActionType: ActionSkill, SkillID: "read"})
	f.must(err)
	f.crashPoint = func(step string) {
		for step == "part stored" && f.next() { // the queue is faster than the rest of the call
		}
	}
	_, err = f.Start(f.ctx, StartParams{Mode: ModeCommand})
	f.must(err)
	mic.Play(speech(t))
	_, err = f.Cancel(f.ctx, StopParams{})
	f.must(err)
	if f.local.calls != 1 || p.count() != 0 {
		t.Errorf("%d transcriptions, %d runs", f.local.calls, p.count())
	}
}

func TestRecordingOfAKilledProcessIsRecoveredOnce(t *testing.T) {
	t.Parallel()
	f, mic, _ := micFixture(t)
	r, err := f.Start(f.ctx, StartParams{Title: "Lost?"})
	f.must(err)
	mic.Play(make([]float32, 8000))
	f.mic.rec.Close() // as the files are after a kill, apart from the last 100 ms
	for range 2 {
		next := New(f.db, f.o)
		next.recoverParts(f.ctx)
		f.must(next.Close())
	}
	l, err := f.ListMemos(f.ctx, ListParams{})
	f.must(err)
	if l.Total != 1 || !l.Memos[0].Recovered || l.Memos[0].RecordingID != r.RecordingID || l.Memos[0].Title != "Lost?" || len(f.parts()) != 0 {
		t.Errorf("%+v, files %v", l, f.parts())
	}
}

func TestRecordingIsKeptWhenItCannotBeStored(t *testing.T) {
	t.Parallel()
	f, mic, _ := micFixture(t)
	_, err := f.Start(f.ctx, StartParams{})
	f.must(err)
	mic.Play(make([]float32, 8000))
	ctx, cancel := context.WithCancel(f.ctx)
	cancel() // as if the database couldn't be written
	if _, err := f.Stop(ctx, StopParams{}); !fault.Is(err, fault.Unavailable) {
		t.Fatal(err)
	}
	if len(f.parts()) != 2 {
		t.Fatalf("files %v", f.parts())
	}
	if !f.storeQueue(f.ctx) || len(f.parts()) != 0 {
		t.Errorf("files %v", f.parts())
	}
	if l, err := f.ListMemos(f.ctx, ListParams{}); err != nil || l.Total != 1 {
		t.Errorf("%+v, %v", l, err)
	}
}

// TestFullDiskReleasesTheReserve ends recordings for every reason that the recorder has.
func TestFullDiskReleasesTheReserve(t *testing.T) {
	t.Parallel()
	f, mic, _ := micFixture(t)
	released := 0
	f.o.ReleaseReserve = func() error {
		released++
		if len(f.parts()) == 0 {
			t.Error("the recording is stored before the reserve is released")
		}
		return errors.New("still stores the recording")
	}
	for n, want := range map[capture.Notice]int{capture.NoSpace: 1, capture.WriteFailed: 1, capture.Limit: 0, capture.DeviceLost: 0, capture.Continued: 0} {
		_, err := f.Start(f.ctx, StartParams{})
		f.must(err)
		mic.Play(make([]float32, 16000))
		part, err := f.mic.rec.Stop()
		f.must(err)
		released = 0
		f.noticed(part.ID, capture.LowSpace, nil) // goes on
		f.noticed(part.ID, n, part)
		if released != want {
			t.Errorf("%s releases the reserve %d times, want %d", n, released, want)
		}
		f.mic.now.Mode = ""
		if !f.storeQueue(f.ctx) || len(f.parts()) != 0 {
			t.Errorf("%s: files %v remain", n, f.parts())
		}
	}
}

func TestLostMicrophoneEndsAndStoresTheRecording(t *testing.T) {
	t.Parallel()
	f, mic, states := micFixture(t)
	_, err := f.Start(f.ctx, StartParams{})
	f.must(err)
	<-states
	mic.Play(make([]float32, 8000))
	mic.Unplug(fault.Unavailablef("There is no microphone.").WithCause(capture.ErrNoMicrophone))
	if s := <-states; s.State != StateError || s.Notice == "" {
		t.Errorf("%+v", s)
	}
	if !f.storeQueue(f.ctx) {
		t.Error("not stored")
	}
	if l, err := f.ListMemos(f.ctx, ListParams{}); err != nil || l.Total != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	s, err := f.Status(f.ctx, struct{}{})
	if err != nil || s.State != StateError || s.Microphone.Available || s.Microphone.Reason == "" {
		t.Errorf("%+v, %v", s, err)
	}
	if d, err := f.Devices(f.ctx, struct{}{}); err != nil || d.Available || len(d.Devices) != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestSpokenCommandRunsOnceFromTheMicrophone(t *testing.T) {
	t.Parallel()
	f, p, events := commandFixture(t)
	mic := &capturetest.Mic{}
	f.o.Microphone = mic
	f.openMicrophone()
	t.Cleanup(f.mic.rec.Close)
	_, err := f.CreateCommand(f.ctx, CreateCommandParams{Name: "proverb", TriggerPhrase: "Übung macht den Meister", ActionType: ActionSkill, SkillID: "read"})
	f.must(err)
	for i, mode := range []string{ModeMemo, ModeCommand} {
		_, err = f.Start(f.ctx, StartParams{Mode: mode})
		f.must(err)
		mic.Play(speech(t))
		r, err := f.Stop(f.ctx, StopParams{})
		f.must(err)
		for f.next() {
		}
		if p.count() != i {
			t.Errorf("mode %s started %d", mode, p.count())
		}
		if _, err := f.Transcribe(f.ctx, TranscribeParams{RecordingID: r.RecordingID}); err != nil {
			t.Error(err)
		}
		for f.next() {
		}
	}
	if p.count() != 1 { // another transcription of the recording runs nothing
		t.Fatalf("started %d", p.count())
	}
	if e := <-events; e.Status != "started" || e.Text != "Übung macht den Meister" {
		t.Errorf("%+v", e)
	}
}

func TestRetentionRemovesOnlyTranscribedSound(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	until, days := "until_transcribed", "days:2"
	done, pinned, waiting := f.upload(), f.upload(), UploadResult{}
	for f.next() {
	}
	waiting = f.upload()
	yes := true
	_, err := f.UpdateMemo(f.ctx, UpdateParams{MemoID: pinned.MemoID, Pinned: &yes})
	f.must(err)
	has := func(want ...bool) {
		t.Helper()
		for i, u := range []UploadResult{done, pinned, waiting} {
			if got := f.memo(u.MemoID).HasAudio; got != want[i] {
				t.Errorf("recording %d: has sound %v", i, got)
			}
		}
	}
	f.must(f.retain(f.ctx, time.Now()))
	has(true, true, true)
	_, err = f.UpdateSettings(f.ctx, SettingsParams{RetainAudio: &days})
	f.must(err)
	f.must(f.retain(f.ctx, time.Now().Add(47*time.Hour)))
	has(true, true, true)
	_, err = f.UpdateSettings(f.ctx, SettingsParams{RetainAudio: &until})
	f.must(err)
	f.must(f.retain(f.ctx, time.Now()))
	has(false, true, true)
	if m := f.memo(done.MemoID); m.Text == "" {
		t.Error("the text is gone too")
	}
	if f.memo(done.MemoID).SoundDeletedAt == nil {
		t.Error("the memo doesn't tell that its sound can be restored")
	}
	_, err = f.UpdateMemo(f.ctx, UpdateParams{MemoID: done.MemoID, Pinned: &yes})
	f.must(err)
	has(true, true, true)
	no := false
	_, err = f.UpdateMemo(f.ctx, UpdateParams{MemoID: done.MemoID, Pinned: &no})
	f.must(err)
	f.must(f.retain(f.ctx, time.Now()))
	f.must(f.retain(f.ctx, time.Now().Add(31*24*time.Hour)))
	has(false, true, true)
	var left int
	f.must(f.db.Read(f.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM voice_recordings WHERE audio_sha256 IS NULL AND id = ?`, done.RecordingID).Scan(&left)
	}))
	if left != 1 {
		t.Error("the sound is still referenced after its time in the trash")
	}
}
