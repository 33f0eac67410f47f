package voice

import (
	"slices"
	"strings"
	"testing"
	"time"

	"helix/backend/fault"
	"helix/backend/storage"
)

// logged returns the tables whose rows of the memo go to the hub.
func (f *fixture) logged(r UploadResult) (tables []string) {
	f.t.Helper()
	f.must(f.db.Read(f.ctx, func(tx *storage.Tx) (err error) {
		tables, err = storage.Collect(tx.Select(`SELECT DISTINCT tbl FROM change_log WHERE row_id IN (SELECT id FROM voice_transcripts WHERE recording_id = ?1 UNION SELECT ?1 UNION SELECT ?2) ORDER BY tbl`, r.RecordingID, r.MemoID), storage.RowTo[string])
		return err
	}))
	return tables
}

func TestTranscriptsStayOnTheDeviceIfTheyAreNotSaved(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.must(f.db.Write(f.ctx, func(tx *storage.Tx) error { return tx.LogAll(f.db.LocalUser().ID) }))
	saved := f.upload()
	for f.next() {
	}
	no := false
	c, err := f.UpdateSettings(f.ctx, SettingsParams{SaveTranscripts: &no})
	f.must(err)
	if c.SaveTranscripts {
		t.Error("the setting wasn't changed")
	}
	kept := f.upload()
	for f.next() {
	}
	if got := f.logged(saved); !slices.Equal(got, []string{"voice_memos", "voice_recordings", "voice_transcripts"}) {
		t.Errorf("saved: %v", got)
	}
	if got := f.logged(kept); !slices.Equal(got, []string{"voice_memos", "voice_recordings"}) {
		t.Errorf("not saved: %v", got)
	}
	_, err = f.EditTranscript(f.ctx, EditParams{kept.RecordingID, "Practice makes perfect, they say."})
	f.must(err)
	f.must(f.db.Write(f.ctx, func(tx *storage.Tx) error { return tx.LogAll(f.db.LocalUser().ID) })) // as the first connection to a hub does
	if got := f.logged(kept); slices.Contains(got, "voice_transcripts") {
		t.Errorf("when a hub is connected: %v", got)
	}
	if m := f.memo(kept.MemoID); !strings.HasSuffix(m.Text, "they say.") {
		t.Errorf("on this device: %+v", m)
	}
}

// onHub returns the file of a recording that the hub is to have; empty: none.
func (f *fixture) onHub(r UploadResult) (hub string) {
	f.t.Helper()
	f.must(f.db.Read(f.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT coalesce(hub_audio, '') FROM voice_recordings WHERE id = ?`, r.RecordingID).Scan(&hub)
	}))
	return hub
}

func TestSoundIsOnTheHubOnlyWhileItIsSaved(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	before := f.upload()
	for f.next() {
	}
	if f.onHub(before) != "" {
		t.Error("the sound of a recording is on the hub by default")
	}
	yes, no := true, false
	_, err := f.UpdateSettings(f.ctx, SettingsParams{SaveAudio: &yes})
	f.must(err)
	after := f.upload()
	for name, r := range map[string]UploadResult{"before": before, "after": after} {
		if f.onHub(r) != "sha256:"+f.memo(r.MemoID).AudioSHA256 {
			t.Errorf("recorded %s: %q", name, f.onHub(r))
		}
	}
	// Another device has the row, but not the file, which it then gets from the hub.
	f.must(f.db.Write(f.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE voice_recordings SET audio_sha256 = NULL WHERE id = ?`, after.RecordingID)
		return err
	}))
	if m := f.memo(after.MemoID); !m.HasAudio || m.AudioSHA256 == "" {
		t.Errorf("on another device: %+v", m)
	}
	if _, err := f.sound(f.ctx, after.RecordingID); err != nil {
		t.Errorf("on another device: %v", err)
	}
	f.must(f.retain(f.ctx, time.Now()))
	if f.onHub(after) == "" {
		t.Error("a device without the file took it from the hub")
	}
	until := "until_transcribed"
	_, err = f.UpdateSettings(f.ctx, SettingsParams{RetainAudio: &until})
	f.must(err)
	f.must(f.retain(f.ctx, time.Now()))
	f.must(f.retain(f.ctx, time.Now()))
	if f.onHub(before) != "" {
		t.Error("sound in the trash is on the hub")
	}
	_, err = f.UpdateMemo(f.ctx, UpdateParams{MemoID: before.MemoID, Pinned: &yes})
	f.must(err)
	f.must(f.retain(f.ctx, time.Now()))
	if f.onHub(before) == "" {
		t.Error("restored sound isn't on the hub")
	}
	_, err = f.UpdateSettings(f.ctx, SettingsParams{SaveAudio: &no})
	f.must(err)
	if f.onHub(before) != "" || f.onHub(after) != "" {
		t.Error("the sound is still on the hub")
	}
}

func TestWakeWordIsNotPartOfACommand(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	_, err := f.CreateCommand(f.ctx, CreateCommandParams{Name: "Journal", TriggerPhrase: "open my journal", ActionType: "navigation", NavigationTarget: "chat"})
	f.must(err)
	runs := func(text string) bool {
		t.Helper()
		r, err := f.TestCommand(f.ctx, TestCommandParams{Text: text})
		f.must(err)
		return r.Decision == DecideRun && r.Best.Score == 1
	}
	if !runs("Hey Helix, open my journal") || runs("Dear computer, open my journal") {
		t.Error("the default wake word")
	}
	word := "dear computer"
	_, err = f.UpdateSettings(f.ctx, SettingsParams{WakeWord: &word})
	f.must(err)
	if !runs("Please, dear computer, open my journal") || !runs("open my journal") {
		t.Error("the chosen wake word")
	}
	empty, long, yes := " ", "one two three four five", true
	for name, p := range map[string]SettingsParams{"empty": {WakeWord: &empty}, "long": {WakeWord: &long}, "other voice": {TTSProvider: &long}} {
		if _, err := f.UpdateSettings(f.ctx, p); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := f.UpdateSettings(f.ctx, SettingsParams{WakeWordEnabled: &yes}); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "push-to-talk") {
		t.Errorf("listening for the wake word: %v", err)
	}
	none := "none"
	if c, err := f.UpdateSettings(f.ctx, SettingsParams{TTSProvider: &none}); err != nil || c.TTSProvider != none || c.WakeWordEnabled {
		t.Errorf("%+v, %v", c, err)
	}
}
