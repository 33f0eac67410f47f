package cloudsync

import (
	"bytes"
	"testing"

	"helix/backend/storage"
)

// TestSavedRecordingsArriveAndTheOthersStay syncs a recording whose sound is saved on the hub and one whose
// sound isn't, each with a transcript that may and one that may not leave the device.
func TestSavedRecordingsArriveAndTheOthersStay(t *testing.T) {
	t.Parallel()
	a, b, _ := connected(t)
	a.o.Partial, b.o.Partial = t.TempDir(), t.TempDir()
	for i, saved := range []bool{true, false} {
		sound := noise(2000, uint64(i))
		ref := must[storage.Ref](t)(a.db.Blobs().PutBytes(a.ctx, sound))
		recording, user := storage.NewID(), a.db.LocalUser().ID
		var hub any
		if saved {
			hub = "sha256:" + ref.String()
		}
		a.exec(`INSERT INTO voice_recordings (id, user_id, device_id, source, audio_sha256, hub_audio, audio_size, format, codec, sample_rate, channels, recorded_at, created_at, updated_at) VALUES (?, ?, ?, 'capture', ?, ?, ?, 'wav', 'pcm', 16000, 1, 1, 1, 1)`,
			recording, user, a.db.Device().ID, "sha256:"+ref.String(), hub, ref.Size)
		for _, only := range []bool{true, false} {
			a.exec(`INSERT INTO voice_transcripts (id, user_id, recording_id, engine, model, language_code, text, words, is_current, device_only, created_at, updated_at) VALUES (?, ?, ?, 'pocketsphinx', '', 'en-US', 'hello', '[]', 0, ?, 1, 1)`,
				storage.NewID(), user, recording, only)
		}
		a.exec(`UPDATE voice_transcripts SET is_current = 1, updated_at = 2 WHERE recording_id = ?`, recording)
		a.now()
		b.now()
		var hasFile, hasHub bool
		var transcripts, current int
		if err := b.db.Read(b.ctx, func(tx *storage.Tx) error {
			return tx.QueryRow(`SELECT audio_sha256 IS NOT NULL, hub_audio IS NOT NULL, (SELECT count(*) FROM voice_transcripts WHERE recording_id = r.id), (SELECT sum(is_current) FROM voice_transcripts WHERE recording_id = r.id)
				FROM voice_recordings r WHERE id = ?`, recording).Scan(&hasFile, &hasHub, &transcripts, &current)
		}); err != nil {
			t.Fatal(err)
		}
		if hasFile || hasHub != saved || transcripts != 1 || current != 1 {
			t.Errorf("saved %v: the other device has the file: %v, one on the hub: %v, %d transcripts, %d of them current", saved, hasFile, hasHub, transcripts, current)
		}
		got, err := b.content(ref)
		if saved != (err == nil) || saved && !bytes.Equal(got, sound) {
			t.Errorf("saved %v: %d bytes, %v", saved, len(got), err)
		}
	}
}
