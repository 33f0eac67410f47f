package voice

import (
	"os"
	"testing"
	"time"

	"helix/backend/audio/capture/capturetest"
	"helix/backend/fault"
	"helix/backend/storage"
)

func ptr[T any](v T) *T { return &v }

func TestVoicemailIsListedUnheardFirst(t *testing.T) {
	t.Parallel()
	for _, private := range []bool{false, true} {
		f := newFixture(t, func(o *Options) { o.Private = private })
		path := say(t, "Please call me back.")
		var memos []UploadResult
		at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
		for i, sender := range []string{"Anna", "Bob", "Carla", ""} {
			r, err := f.UploadMemo(f.ctx, UploadParams{Path: path, Sender: sender, RecordedAt: ptr(at.Add(time.Duration(i) * time.Hour))})
			f.must(err)
			memos = append(memos, r)
		}
		for f.next() {
		}
		list := func(p VoicemailParams) string {
			t.Helper()
			l, err := f.ListVoicemail(f.ctx, p)
			f.must(err)
			names := ""
			for _, m := range l.Messages {
				if m.Text != "Übung macht den Meister" || m.Status != completed || m.IsHeard != (m.HeardAt != nil) {
					t.Errorf("%+v", m)
				}
				names += m.Sender + " "
			}
			if l.Total != len(l.Messages) {
				t.Errorf("%d of %d", len(l.Messages), l.Total)
			}
			return names
		}
		l, err := f.ListVoicemail(f.ctx, VoicemailParams{})
		f.must(err)
		if len(l.Messages) != 3 || l.Unheard != 3 {
			t.Fatalf("%+v", l)
		}
		id := map[string]Voicemail{}
		for _, m := range l.Messages {
			id[m.Sender] = m
		}
		heard, err := f.MarkVoicemail(f.ctx, MarkVoicemailParams{ID: id["Carla"].ID, Heard: ptr(true)})
		f.must(err)
		if !heard.IsHeard || heard.HeardAt == nil || heard.Sender != "Carla" || heard.MemoID != memos[2].MemoID {
			t.Errorf("%+v", heard)
		}
		again, err := f.MarkVoicemail(f.ctx, MarkVoicemailParams{ID: id["Carla"].ID, Heard: ptr(true)})
		f.must(err)
		if !again.HeardAt.Equal(*heard.HeardAt) {
			t.Error("the time at which it was heard has changed")
		}
		if got := list(VoicemailParams{}); got != "Bob Anna Carla " {
			t.Error(got)
		}
		_, err = f.MarkVoicemail(f.ctx, MarkVoicemailParams{ID: id["Bob"].ID, Archived: ptr(true)})
		f.must(err)
		for want, p := range map[string]VoicemailParams{"Anna Carla ": {}, "Anna ": {Heard: ptr(false)}, "Carla ": {Heard: ptr(true)}, "Bob ": {Archived: ptr(true)}} {
			if got := list(p); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		_, err = f.DeleteMemo(f.ctx, MemoParams{memos[0].MemoID})
		f.must(err)
		if got := list(VoicemailParams{}); got != "Carla " {
			t.Error(got)
		}
		_, err = f.RestoreMemo(f.ctx, MemoParams{memos[0].MemoID})
		f.must(err)
		if got := list(VoicemailParams{}); got != "Anna Carla " {
			t.Error(got)
		}
		if _, err := f.MarkVoicemail(f.them, MarkVoicemailParams{ID: id["Anna"].ID, Heard: ptr(true)}); !fault.Is(err, fault.NotFound) {
			t.Error(err)
		}
		if l, err := f.ListVoicemail(f.them, VoicemailParams{}); err != nil || l.Total != 0 || l.Unheard != 0 {
			t.Errorf("%+v, %v", l, err)
		}
	}
}

func TestTalkRecordingsAreTurnsOfAConversation(t *testing.T) {
	t.Parallel()
	mic := &capturetest.Mic{}
	f := newFixture(t, func(o *Options) { o.Microphone = mic })
	t.Cleanup(f.mic.rec.Close)
	if _, err := f.GetSession(f.ctx, SessionParams{}); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
	var turns []StopResult
	for _, mode := range []string{ModeTalk, ModeMemo, ModeTalk} {
		_, err := f.Start(f.ctx, StartParams{Mode: mode})
		f.must(err)
		mic.Play(speech(t))
		r, err := f.Stop(f.ctx, StopParams{})
		f.must(err)
		if mode == ModeTalk {
			turns = append(turns, r)
		}
	}
	for f.next() {
	}
	first, err := f.GetSession(f.ctx, SessionParams{})
	f.must(err)
	if len(first.Turns) != 2 || first.Turns[0].RecordingID != turns[0].RecordingID || first.Turns[1].Text != "Übung macht den Meister" || first.EndedAt != nil || first.Mode != ModeTalk {
		t.Fatalf("%+v", first)
	}
	f.must(f.db.Write(f.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE voice_sessions SET turns = replace(turns, '"at":"20', '"at":"19')`)
		return err
	}))
	if s, err := f.GetSession(f.ctx, SessionParams{}); err != nil || s.EndedAt == nil {
		t.Errorf("a conversation of last century has not ended: %+v, %v", s, err)
	}
	_, err = f.Start(f.ctx, StartParams{Mode: ModeTalk})
	f.must(err)
	mic.Play(speech(t))
	_, err = f.Stop(f.ctx, StopParams{})
	f.must(err)
	second, err := f.GetSession(f.ctx, SessionParams{})
	f.must(err)
	if second.ID == first.ID || len(second.Turns) != 1 || second.EndedAt != nil {
		t.Errorf("%+v", second)
	}
	_, err = f.DeleteMemo(f.ctx, MemoParams{*turns[0].MemoID})
	f.must(err)
	if s, err := f.GetSession(f.ctx, SessionParams{&first.ID}); err != nil || len(s.Turns) != 1 || s.EndedAt == nil {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := f.GetSession(f.them, SessionParams{&first.ID}); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
}

func TestRecordingsBecomeFLACWithTheSameSound(t *testing.T) {
	t.Parallel()
	mic := &capturetest.Mic{}
	f := newFixture(t, func(o *Options) { o.Microphone = mic })
	t.Cleanup(f.mic.rec.Close)
	_, err := f.Start(f.ctx, StartParams{})
	f.must(err)
	mic.Play(speech(t))
	r, err := f.Stop(f.ctx, StopParams{})
	f.must(err)
	uploaded := f.upload()
	for f.next() {
	}
	before := f.memo(*r.MemoID)
	wave, err := f.Waveform(f.ctx, WaveformParams{RecordingID: r.RecordingID})
	f.must(err)
	f.must(f.compress(f.ctx, time.Now()))
	if m := f.memo(*r.MemoID); m.AudioSHA256 != before.AudioSHA256 {
		t.Error("a recording of this minute was compressed")
	}
	f.must(f.compress(f.ctx, time.Now().Add(settled)))
	after := f.memo(*r.MemoID)
	if after.Format != "flac" || before.Format != "wav" || after.AudioSHA256 == before.AudioSHA256 || !after.UpdatedAt.Equal(before.UpdatedAt) {
		t.Fatalf("%+v", after)
	}
	if m := f.memo(uploaded.MemoID); m.Format != "wav" {
		t.Error("an upload was changed")
	}
	if _, kind, err := f.Sound(f.ctx, AudioURLParams{RecordingID: r.RecordingID}); err != nil || kind != "audio/flac" {
		t.Errorf("%s, %v", kind, err)
	}
	ref, err := f.sound(f.ctx, r.RecordingID)
	f.must(err)
	if _, err := os.Stat(f.peaksFile(ref)); err != nil {
		t.Errorf("the waveform is drawn again: %v", err)
	}
	again, err := f.Waveform(f.ctx, WaveformParams{RecordingID: r.RecordingID})
	f.must(err)
	if toJSON(again) != toJSON(wave) {
		t.Error("the waveform has changed")
	}
	f.must(os.Remove(f.peaksFile(ref)))
	if again, err = f.Waveform(f.ctx, WaveformParams{RecordingID: r.RecordingID}); err != nil || toJSON(again) != toJSON(wave) {
		t.Errorf("the samples have changed: %v", err)
	}
	f.must(f.compress(f.ctx, time.Now().Add(settled)))
	if m := f.memo(*r.MemoID); m.AudioSHA256 != after.AudioSHA256 {
		t.Error("it was compressed twice")
	}
	if _, err := f.Transcribe(f.ctx, TranscribeParams{RecordingID: r.RecordingID}); err != nil || !f.next() || f.memo(*r.MemoID).Status != completed {
		t.Errorf("the FLAC file can't be transcribed: %v", err)
	}
}
