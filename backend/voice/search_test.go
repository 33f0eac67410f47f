package voice

import (
	"context"
	"testing"

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
