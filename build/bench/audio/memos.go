package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"helix/backend/storage"
	"helix/backend/transcribe"
	"helix/backend/voice"

	"helixbench/figures"
)

const memoCount = 10_000

// memos measures the search in many transcripts and the waveform of an hour.
func (b *bench) memos() {
	db, s, ctx, done := b.voice("memos", voice.Options{})
	defer done()
	r := rand.New(rand.NewPCG(1, 2))
	vocabulary := slices.Compact(slices.Sorted(slices.Values(strings.Fields(strings.Join(sentences, " ")))))
	zipf := rand.NewZipf(r, 1.1, 2.7, 20_000) // the frequency of words in a language
	pick := func() string {
		if n := int(zipf.Uint64()); n < len(vocabulary) {
			return vocabulary[n]
		} else {
			return strconv.FormatUint(uint64(n)*2654435761%36_000_000_000+1_000_000_000, 36) // few begin alike
		}
	}
	figures.Check(db.Write(ctx, func(tx *storage.Tx) error {
		for range memoCount {
			said := make([]transcribe.Word, 100)
			text := make([]string, len(said))
			for i := range said {
				text[i] = pick()
				said[i] = transcribe.Word{Text: text[i], StartMs: int64(i) * 300, EndMs: int64(i)*300 + 250}
			}
			words, err := json.Marshal(said)
			if err != nil {
				return err
			}
			recording := storage.NewID()
			if _, err := tx.Exec(`INSERT INTO voice_recordings (id, user_id, device_id, source, audio_size, format, codec, sample_rate, channels, recorded_at, created_at, updated_at)
				VALUES (?1, ?2, ?3, 'upload', 1, 'wav', 'pcm', 16000, 1, ?4, ?4, ?4)`, recording, db.LocalUser().ID, db.Device().ID, tx.Now); err != nil {
				return err
			}
			if _, err := tx.Exec(`INSERT INTO voice_memos (id, user_id, recording_id, title, transcription_status, recorded_at, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, 'completed', ?5, ?5, ?5)`,
				storage.NewID(), db.LocalUser().ID, recording, pick()+" "+pick(), tx.Now); err != nil {
				return err
			}
			if _, err := tx.Exec(`INSERT INTO voice_transcripts (id, user_id, recording_id, engine, model, language_code, text, words, is_current, created_at, updated_at) VALUES (?1, ?2, ?3, 'pocketsphinx', '', 'en-US', ?4, ?5, 1, ?6, ?6)`,
				storage.NewID(), db.LocalUser().ID, recording, strings.Join(text, " "), string(words), tx.Now); err != nil {
				return err
			}
		}
		return nil
	}))
	var times []float64
	for range 200 {
		query := pick() + " " + pick()
		times = append(times, cpu(func() {
			_, err := s.SearchTranscripts(ctx, voice.SearchParams{Query: query})
			figures.Check(err)
		}).Seconds()*1000)
	}
	slices.Sort(times)
	figures.Print(fmt.Sprintf("search for two words in %d transcripts, processor time, p95", memoCount), times[len(times)*95/100], "ms", 0, "")

	up, err := s.UploadMemo(ctx, voice.UploadParams{Path: b.long("flac", time.Hour)})
	figures.Check(err)
	draw := func() float64 {
		return cpu(func() {
			_, err := s.Waveform(ctx, voice.WaveformParams{RecordingID: up.RecordingID})
			figures.Check(err)
		}).Seconds()
	}
	figures.Print("waveform of one hour, first time, processor time", draw(), "s", 0, "")
	figures.Print("waveform of one hour, again, processor time", draw()*1000, "ms", 0, "")
}
