package voice

import (
	"context"
	"strings"
	"testing"
	"time"

	"helix/backend/storage"
	"helix/backend/transcribe"
)

// japanese is an engine that divides its text as whisper.cpp does: not at words.
type japanese struct{ scripted }

func (*japanese) Transcribe(context.Context, transcribe.Audio, transcribe.Options) (transcribe.Transcript, error) {
	return transcribe.Transcript{Text: "明日の会議は十時です。資料を送ってください。", Language: "ja", Words: []transcribe.Word{
		{Text: "明日の", StartMs: 100, EndMs: 400}, {Text: "会", StartMs: 400, EndMs: 500}, {Text: "議は", StartMs: 500, EndMs: 700}, {Text: "十時です。", StartMs: 700, EndMs: 1200},
		{Text: "資料を", StartMs: 1500, EndMs: 1800}, {Text: "送ってください。", StartMs: 1800, EndMs: 2500}}}, nil
}

func TestWordsOfLanguagesWithoutSpacesAreFound(t *testing.T) {
	t.Parallel()
	for _, private := range []bool{false, true} {
		f := newFixture(t, func(o *Options) {
			o.Private = private
			o.Engines = []transcribe.Engine{&japanese{scripted{id: "pocketsphinx", local: true}}}
		})
		_, err := f.UploadMemo(f.ctx, UploadParams{Path: say(t, "Practice makes perfect."), Title: "東京 meeting", Tags: []string{"仕事の予定"}})
		f.must(err)
		for f.next() {
		}
		for query, want := range map[string][2]int64{"会議": {400, 700}, "十時": {700, 1200}, "資料 会議": {400, 700}, "送ってください": {1800, 2500}, "京": {-1, -1}, "予定": {-1, -1}, "会議 meeting": {400, 700}} {
			r, err := f.SearchTranscripts(f.ctx, SearchParams{Query: query})
			f.must(err)
			if r.Total != 1 || len(r.Results) != 1 || r.Results[0].StartMs != want[0] || r.Results[0].EndMs != want[1] {
				t.Errorf("private %v, %s: %+v", private, query, r)
			}
		}
		for _, query := range []string{"会社", "議会", "会議 lunch", "%"} {
			if r, err := f.SearchTranscripts(f.ctx, SearchParams{Query: query}); err != nil || r.Total != 0 {
				t.Errorf("private %v, %s: %+v, %v", private, query, r, err)
			}
		}
	}
}

// reader is an engine that hears a text, each word of which takes 100 ms.
type reader struct {
	scripted
	text string
}

func (r *reader) Transcribe(context.Context, transcribe.Audio, transcribe.Options) (transcribe.Transcript, error) {
	t := transcribe.Transcript{Text: r.text}
	for i, w := range strings.Fields(r.text) {
		t.Words = append(t.Words, transcribe.Word{Text: w, StartMs: int64(i) * 100, EndMs: int64(i)*100 + 100})
	}
	return t, nil
}

func TestWordsOfAnyScriptAreFound(t *testing.T) {
	t.Parallel()
	const text = "내일 회의에서 봅시다 यह हिन्दी है Café ЁЛКА it's a well-known word"
	for _, private := range []bool{false, true} {
		f := newFixture(t, func(o *Options) {
			o.Private = private
			o.Engines = []transcribe.Engine{&reader{scripted{id: "pocketsphinx", local: true}, text}}
		})
		_, err := f.UploadMemo(f.ctx, UploadParams{Path: say(t, "Practice makes perfect."), Title: "🎉 Party"})
		f.must(err)
		for f.next() {
		}
		for query, at := range map[string]int64{"회의에서": 100, "회의": 100, "हिन्दी": 400, "cafe\u0301": 600, "ёлка": 700, "it's": 800, "well-known": 1000, "🎉 회의에서": 100, "봅시다\x00": 200,
			`"봅시다" "`: 200, "(봅시다": 200, "봅시다*": 200, "party": -1} {
			r, err := f.SearchTranscripts(f.ctx, SearchParams{Query: query})
			f.must(err)
			if r.Total != 1 || len(r.Results) != 1 || r.Results[0].StartMs != at {
				t.Errorf("private %v, %q: %+v", private, query, r)
			}
		}
		for _, query := range []string{"회사", "नद", `"`, "🎉", "봅시다 OR x", "NEAR(봅시다)", "title:party", "-봅시다 x", "\x00"} {
			if r, err := f.SearchTranscripts(f.ctx, SearchParams{Query: query}); err != nil || r.Total != 0 {
				t.Errorf("private %v, %q: %+v, %v", private, query, r, err)
			}
		}
	}
}

// TestFrequentWordsRankTheLatestTranscripts stores more transcripts with a word than are ranked.
func TestFrequentWordsRankTheLatestTranscripts(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.must(f.db.Write(f.ctx, func(tx *storage.Tx) error {
		for i := range mostRanked + 100 {
			recording, user := storage.NewID(), f.db.LocalUser().ID
			text, tags, at := "the sun", `[]`, tx.Now.Add(time.Duration(i)*time.Second)
			if i < 10 {
				text, tags = "the moon", `["old"]`
			}
			for query, args := range map[string][]any{
				`INSERT INTO voice_recordings (id, user_id, device_id, source, audio_size, format, codec, sample_rate, channels, recorded_at, created_at, updated_at) VALUES (?1, ?2, ?3, 'upload', 1, 'wav', 'pcm', 16000, 1, ?4, ?4, ?4)`: {recording, user, f.db.Device().ID, at},
				`INSERT INTO voice_memos (id, user_id, recording_id, title, tags, transcription_status, recorded_at, created_at, updated_at) VALUES (?1, ?2, ?3, '', ?5, 'completed', ?4, ?4, ?4)`:                                          {storage.NewID(), user, recording, at, tags},
				`INSERT INTO voice_transcripts (id, user_id, recording_id, engine, model, language_code, text, words, is_current, created_at, updated_at) VALUES (?1, ?2, ?3, 'pocketsphinx', '', 'en-US', ?5, '[]', 1, ?4, ?4)`:            {storage.NewID(), user, recording, at, text},
			} {
				if _, err := tx.Exec(query, args...); err != nil {
					return err
				}
			}
		}
		return nil
	}))
	for _, c := range []struct {
		p     SearchParams
		total int
	}{{SearchParams{Query: "the"}, mostRanked}, {SearchParams{Query: "the", Offset: 5}, mostRanked}, {SearchParams{Query: "the moon"}, 10}, {SearchParams{Query: "the", Tags: []string{"old"}}, 10}, {SearchParams{Query: "the", Offset: mostRanked}, mostRanked}} {
		r, err := f.SearchTranscripts(f.ctx, c.p)
		f.must(err)
		if n := min(20, max(0, c.total-c.p.Offset)); r.Total != c.total || len(r.Results) != n {
			t.Errorf("%+v: %d of %d", c.p, len(r.Results), r.Total)
		}
	}
}
