package voice

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
	"helix/backend/transcribe"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		child := crashChild
		if os.Getenv("HELIX_VOICE_LOSS_KIND") != "" {
			child = lossChild
		}
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(testkit.Run(m))
}

// scripted is a fake engine, either local or a service. Each call returns the next of its answers.
type scripted struct {
	id      string
	local   bool
	mu      sync.Mutex
	answers []error // nil means success
	calls   int
	got     []transcribe.Audio
	models  []string // that were asked for
}

func (s *scripted) Info(context.Context) transcribe.Info {
	return transcribe.Info{ID: s.id, Name: s.id, Local: s.local, WordTimes: true, Languages: []string{}, Models: []string{}, Available: true}
}

func (s *scripted) Transcribe(ctx context.Context, a transcribe.Audio, o transcribe.Options) (transcribe.Transcript, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.got, s.models = append(s.got, a), append(s.models, o.Model)
	if len(s.answers) > 0 {
		err := s.answers[0]
		s.answers = s.answers[1:]
		if err != nil {
			return transcribe.Transcript{}, err
		}
	}
	return transcribe.Transcript{Text: "Übung macht den Meister", Language: "de-DE", Words: []transcribe.Word{
		{Text: "Übung", StartMs: 100, EndMs: 400}, {Text: "macht", StartMs: 400, EndMs: 700}, {Text: "den", StartMs: 700, EndMs: 800}, {Text: "Meister", StartMs: 800, EndMs: 1200}}}, nil
}

type fixture struct {
	*Service
	db        *storage.DB
	ctx, them context.Context
	t         *testing.T
	cloud     *scripted
	local     *scripted
}

func newFixture(t *testing.T, change func(*Options)) *fixture {
	t.Helper()
	db := storagetest.Open(t)
	f := &fixture{db: db, ctx: storagetest.Ctx(t, db), them: storagetest.OtherUser(t, db), t: t,
		cloud: &scripted{id: "deepgram"}, local: &scripted{id: "pocketsphinx", local: true}}
	o := Options{Bus: bus.New(), Dir: t.TempDir(), Engines: []transcribe.Engine{f.local, f.cloud}}
	if change != nil {
		change(&o)
	}
	f.Service = New(db, o)
	return f
}

// say creates a WAV file with text spoken by flite.
func say(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "said.wav")
	if out, err := exec.Command("flite", "-voice", "rms", "-t", text, "-o", path).CombinedOutput(); err != nil {
		t.Fatalf("flite: %v\n%s", err, out)
	}
	return path
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// upload stores a recording of speech.
func (f *fixture) upload() UploadResult {
	f.t.Helper()
	r, err := f.UploadMemo(f.ctx, UploadParams{Path: say(f.t, "Practice makes perfect."), Title: "Proverb", Tags: []string{"words"}})
	f.must(err)
	return r
}

func (f *fixture) memo(id uuid.UUID) Memo {
	f.t.Helper()
	m, err := f.GetMemo(f.ctx, MemoParams{id})
	f.must(err)
	return m
}

// next executes the due job. It returns false if no job is due.
func (f *fixture) next() bool {
	f.t.Helper()
	for _, local := range []bool{true, false} {
		j, _, err := f.claim(f.ctx, local, uuid.Nil)
		f.must(err)
		if j != nil {
			f.do(f.ctx, j)
			return true
		}
	}
	return false
}

func (f *fixture) jobs() []Job {
	f.t.Helper()
	q, err := f.Queue(f.ctx, struct{}{})
	f.must(err)
	return q.Jobs
}

// TestSpokenWordIsFoundWithItsTime transcribes a recording with PocketSphinx and finds a word with
// its time.
func TestSpokenWordIsFoundWithItsTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *Options) { o.Engines = []transcribe.Engine{transcribe.NewPocketSphinx()} })
	r, err := f.Process(f.ctx, ProcessParams{Path: say(t, "Search my memories for the budget meeting in March."), Title: "Task"})
	f.must(err)
	if !r.Success || r.Transcript != "search my memories for the budget meeting in march" || r.Status != completed {
		t.Fatalf("%+v", r)
	}
	s, err := f.SearchTranscripts(f.ctx, SearchParams{Query: "BUDGET meet"})
	f.must(err)
	if s.Total != 1 || len(s.Results[0].Matches) != 2 || s.Results[0].StartMs < 1000 || s.Results[0].StartMs > 2500 || !strings.Contains(s.Results[0].Snippet, "budget meeting") {
		t.Errorf("%+v", s)
	}
	w, err := f.Waveform(f.ctx, WaveformParams{RecordingID: *r.RecordingID, Buckets: 50})
	f.must(err)
	if len(w.Min) != 50 || len(w.Max) != 50 || len(w.RMS) != 50 || w.DurationMs < r.DurationMs || !slices.ContainsFunc(w.RMS, func(b byte) bool { return b > 5 }) {
		t.Errorf("%+v", w)
	}
	if files, err := os.ReadDir(f.tempDir()); err != nil || len(files) > 0 {
		t.Errorf("left %v, %v", files, err)
	}
}

func TestSilenceGivesAnEmptyTextWithoutAnEngine(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	path := filepath.Join(t.TempDir(), "silence.wav")
	if out, err := exec.Command("sox", "-n", "-r", "44100", "-c", "2", path, "trim", "0", "60").CombinedOutput(); err != nil {
		t.Fatalf("sox: %v\n%s", err, out)
	}
	r, err := f.Process(f.ctx, ProcessParams{Path: path})
	f.must(err)
	if !r.Success || r.Transcript != "" || r.DurationMs != 60_000 || f.local.calls != 0 {
		t.Errorf("%+v after %d calls", r, f.local.calls)
	}
}

func TestDiscardedRecordingLeavesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	r, err := f.Process(f.ctx, ProcessParams{Path: say(t, "Practice makes perfect."), Discard: true})
	f.must(err)
	if !r.Success || r.RecordingID != nil || r.Transcript == "" {
		t.Errorf("%+v", r)
	}
	l, err := f.ListMemos(f.ctx, ListParams{})
	f.must(err)
	n := 0
	f.must(f.db.Blobs().Each(func(storage.Ref, time.Time) error { n++; return nil }))
	if l.Total != 0 || n != 0 {
		t.Errorf("%d memos, %d blobs", l.Total, n)
	}
}

func TestMemoIsChangedDeletedAndRestored(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	up := f.upload()
	if !f.next() || f.next() {
		t.Fatal("not one job")
	}
	title, tags := "Saying", []string{"german", "words", "german"}
	m, err := f.UpdateMemo(f.ctx, UpdateParams{MemoID: up.MemoID, Title: &title, Tags: &tags})
	f.must(err)
	if m.Title != title || len(m.Tags) != 2 || m.Status != completed {
		t.Errorf("%+v", m)
	}
	found := func(query string, want int) {
		t.Helper()
		s, err := f.SearchTranscripts(f.ctx, SearchParams{Query: query})
		f.must(err)
		l, err := f.ListMemos(f.ctx, ListParams{Query: query})
		f.must(err)
		if s.Total != want || len(s.Results) != want || l.Total != want || len(l.Memos) != want {
			t.Errorf("%q: %d and %d hits, want %d", query, s.Total, l.Total, want)
		}
	}
	for query, want := range map[string]int{"ubung": 1, "ÜBUNG MEIST": 1, "saying": 1, "german": 1, "proverb": 0, "meister OR nothing": 0, `"meister`: 1, "den NOT macht": 0, "macht*": 1, "(": 0, "text:macht": 0} {
		found(query, want)
	}
	_, err = f.DeleteMemo(f.ctx, MemoParams{up.MemoID})
	f.must(err)
	found("meister", 0)
	if _, err := f.GetTranscript(f.ctx, RecordingParams{up.RecordingID}); !fault.Is(err, fault.NotFound) {
		t.Errorf("the transcript of a deleted memo: %v", err)
	}
	_, err = f.RestoreMemo(f.ctx, MemoParams{up.MemoID})
	f.must(err)
	found("meister", 1)
	_, err = f.DeleteMemo(f.ctx, MemoParams{up.MemoID})
	f.must(err)
	f.must(f.db.Write(f.ctx, func(tx *storage.Tx) error {
		return tx.WithoutCapture(func() error { return f.Trash().Purge(tx, up.MemoID) })
	}))
	f.must(f.db.Read(f.ctx, func(tx *storage.Tx) error {
		var left int
		err := tx.QueryRow(`SELECT (SELECT count(*) FROM voice_memos) + (SELECT count(*) FROM voice_recordings) + (SELECT count(*) FROM voice_transcripts) + (SELECT count(*) FROM voice_transcript_items)
			+ (SELECT count(*) FROM voice_transcripts_fts) + (SELECT count(*) FROM voice_processing_queue)`).Scan(&left)
		if left != 0 {
			t.Errorf("%d rows are left", left)
		}
		return err
	}))
}

func TestMemoThatIsDeletedDuringItsTranscriptionIsTranscribedAfterItsRestore(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	up := f.upload()
	f.crashPoint = func(step string) {
		if step == "decoded" {
			_, err := f.DeleteMemo(f.ctx, MemoParams{up.MemoID})
			f.must(err)
		}
	}
	if !f.next() || f.next() {
		t.Error("not one job")
	}
	f.crashPoint = func(string) {}
	if s, err := f.SearchTranscripts(f.ctx, SearchParams{Query: "meister"}); err != nil || s.Total != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	m, err := f.RestoreMemo(f.ctx, MemoParams{up.MemoID})
	if err != nil || m.Status != pending || len(f.jobs()) != 1 {
		t.Errorf("%+v, %v", m, err)
	}
	for f.next() {
	}
	if m := f.memo(up.MemoID); m.Status != completed || m.Text == "" {
		t.Errorf("%+v", m)
	}
}

func TestEditedTranscriptKeepsWordTimesAndTheFormerVersion(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	up := f.upload()
	f.next()
	tr, err := f.EditTranscript(f.ctx, EditParams{RecordingID: up.RecordingID, Text: "Übung, sie macht immer Meister."})
	f.must(err)
	want := []transcribe.Word{{Text: "Übung,", StartMs: 100, EndMs: 400}, {Text: "sie", StartMs: 400, EndMs: 400}, {Text: "macht", StartMs: 400, EndMs: 700}, {Text: "immer", StartMs: 700, EndMs: 800}, {Text: "Meister.", StartMs: 800, EndMs: 1200}}
	if !slices.Equal(tr.Words, want) || len(tr.Versions) != 2 || tr.Engine != person || !tr.Versions[0].Current || tr.Versions[1].Current || tr.Versions[1].Text != "Übung macht den Meister" {
		t.Errorf("%+v", tr)
	}
	if s, err := f.SearchTranscripts(f.ctx, SearchParams{Query: "den"}); err != nil || s.Total != 0 {
		t.Errorf("a word that was corrected is found: %+v, %v", s, err)
	}
	if _, err := f.Transcribe(f.ctx, TranscribeParams{RecordingID: up.RecordingID}); err != nil || !f.next() {
		t.Fatal(err)
	}
	if tr, err = f.GetTranscript(f.ctx, RecordingParams{up.RecordingID}); err != nil || len(tr.Versions) != 3 || tr.Text != "Übung macht den Meister" {
		t.Errorf("%+v, %v", tr, err)
	}
}

// TestFailuresAreRetriedAndNothingIsLost simulates every failure of a service.
func TestFailuresAreRetriedAndNothingIsLost(t *testing.T) {
	t.Parallel()
	cause := func(c transcribe.Cause, k fault.Kind) error {
		e := fault.New(k, "no: %s", c).WithDetails(transcribe.DetailsOf(c))
		e.RetryAfter = 17 * time.Second
		return e
	}
	failed := cause(transcribe.Failed, fault.Unavailable)
	for _, c := range []struct {
		name     string
		answers  []error
		status   string
		attempts int
		wait     [2]time.Duration // until the next attempt
	}{
		{"error once", []error{failed}, pending, 1, [2]time.Duration{1600 * time.Millisecond, 2400 * time.Millisecond}},
		{"error twice", []error{failed, failed}, pending, 2, [2]time.Duration{6400 * time.Millisecond, 9600 * time.Millisecond}},
		{"error three times", []error{failed, failed, failed}, failedState, 3, [2]time.Duration{}},
		{"some other error", []error{errors.New("boom")}, pending, 1, [2]time.Duration{1600 * time.Millisecond, 2400 * time.Millisecond}},
		{"wrong key", []error{cause(transcribe.Refused, fault.Denied)}, failedState, 1, [2]time.Duration{}},
		{"offline many times", []error{cause(transcribe.Offline, fault.Unavailable), cause(transcribe.Offline, fault.Unavailable), cause(transcribe.Offline, fault.Unavailable), cause(transcribe.Offline, fault.Unavailable)}, pending, 0, [2]time.Duration{24 * time.Second, 36 * time.Second}},
		{"rate limit", []error{cause(transcribe.RateLimit, fault.Limit)}, pending, 0, [2]time.Duration{17 * time.Second, 17 * time.Second}},
		{"no engine", []error{cause(transcribe.Missing, fault.Unavailable)}, pending, 0, [2]time.Duration{missingWait, missingWait}},
	} {
		f := newFixture(t, nil)
		provider := "deepgram"
		_, err := f.UpdateSettings(f.ctx, SettingsParams{Provider: &provider})
		f.must(err)
		f.cloud.answers = c.answers
		up := f.upload()
		for range c.answers {
			if !f.next() {
				t.Errorf("%s: no job is due", c.name)
			}
			f.must(f.db.Write(f.ctx, func(tx *storage.Tx) error {
				if f.cloud.calls < len(c.answers) {
					_, err := tx.Exec(`UPDATE voice_processing_queue SET next_attempt_at = 0`)
					return err
				}
				return nil
			}))
		}
		jobs := f.jobs()
		m := f.memo(up.MemoID)
		if len(jobs) != 1 || jobs[0].Status != c.status || jobs[0].Attempts != c.attempts || m.Status != c.status || m.Error == "" || f.local.calls > 0 {
			t.Errorf("%s: %+v, memo %s %q", c.name, jobs, m.Status, m.Error)
			continue
		}
		if next := jobs[0].NextAttempt; next != nil {
			if d := next.Sub(jobs[0].UpdatedAt); d < c.wait[0] || d > c.wait[1] {
				t.Errorf("%s: next attempt after %v", c.name, d)
			}
		}
		if _, err := f.Retry(f.ctx, JobParams{jobs[0].ID}); err != nil || !f.next() {
			t.Errorf("%s: retry: %v", c.name, err)
		}
		if m := f.memo(up.MemoID); m.Status != completed || m.Text == "" || m.Error != "" || len(f.jobs()) != 0 {
			t.Errorf("%s: after a retry: %+v", c.name, m)
		}
	}
}

func TestLocalEngineTakesOverWhenTheServiceFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	provider, fallback := "deepgram", "local"
	_, err := f.UpdateSettings(f.ctx, SettingsParams{Provider: &provider, Fallback: &fallback})
	f.must(err)
	f.cloud.answers = []error{fault.Unavailablef("offline").WithDetails(transcribe.DetailsOf(transcribe.Offline))}
	up := f.upload()
	f.next()
	f.next()
	tr, err := f.GetTranscript(f.ctx, RecordingParams{up.RecordingID})
	if err != nil || tr.Engine != "pocketsphinx" || f.cloud.calls != 1 || f.local.calls != 1 {
		t.Errorf("%+v, %v", tr, err)
	}
	if f.cloud.models[0] != "nova-3" || f.local.models[0] != "" {
		t.Errorf("the service got the model %q, the local engine %q", f.cloud.models, f.local.models)
	}
}

func TestServiceIsNotAskedUnlessItWasChosen(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.upload()
	for f.next() {
	}
	if f.cloud.calls != 0 || f.local.calls != 1 {
		t.Errorf("%d calls of the service, %d of the local engine", f.cloud.calls, f.local.calls)
	}
}

func TestFilesThatCannotBeDecodedAreKeptWithTheReason(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	whole, err := os.ReadFile(say(t, "Practice makes perfect."))
	f.must(err)
	for name, c := range map[string]struct {
		data []byte
		kind fault.Kind
		text string
	}{
		"unknown":       {[]byte("no sound at all"), fault.Invalid, "6E6F20736F756E64"},
		"m4a":           {append([]byte{0, 0, 0, 24}, "ftypM4A mp42isom"...), fault.Invalid, "m4a file is damaged"},
		"damaged start": {append([]byte("fLaC"), make([]byte, 100)...), fault.Invalid, "damaged"},
		"cut header":    {whole[:20], fault.Invalid, "damaged"},
	} {
		r, err := f.Process(f.ctx, ProcessParams{AudioBase64: base64.StdEncoding.EncodeToString(c.data)})
		if err != nil || r.Success || r.Status != failedState || r.ErrorKind != string(c.kind) || !strings.Contains(r.Error, c.text) {
			t.Errorf("%s: %+v, %v", name, r, err)
			continue
		}
		m := f.memo(*r.MemoID)
		if ref, err := f.sound(f.ctx, m.RecordingID); err != nil || !m.HasAudio || m.Size != int64(len(c.data)) || !f.db.Blobs().Has(storage.Ref{SHA256: ref.SHA256, Size: m.Size}) {
			t.Errorf("%s: the file is not kept: %v", name, err)
		}
	}
	if r, err := f.Process(f.ctx, ProcessParams{AudioBase64: base64.StdEncoding.EncodeToString(whole[:len(whole)/2])}); err != nil || !r.Success || r.LostMs == 0 {
		t.Errorf("half a recording: %+v, %v", r, err)
	}
}

func TestBadRequestsAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	up := f.upload()
	path := say(t, "Practice.")
	long := strings.Repeat("x", maxTitle+1)
	for name, call := range map[string]func() error{
		"nothing":    func() error { _, err := f.UploadMemo(f.ctx, UploadParams{}); return err },
		"two ways":   func() error { _, err := f.UploadMemo(f.ctx, UploadParams{Path: path, AudioBase64: "AAAA"}); return err },
		"not base64": func() error { _, err := f.UploadMemo(f.ctx, UploadParams{AudioBase64: "?"}); return err },
		"six tags": func() error {
			_, err := f.UploadMemo(f.ctx, UploadParams{Path: path, Tags: strings.Split("abcdef", "")})
			return err
		},
		"empty tag":  func() error { _, err := f.UploadMemo(f.ctx, UploadParams{Path: path, Tags: []string{" "}}); return err },
		"long title": func() error { _, err := f.UpdateMemo(f.ctx, UpdateParams{MemoID: up.MemoID, Title: &long}); return err },
		"engine":     func() error { _, err := f.UploadMemo(f.ctx, UploadParams{Path: path, Engine: "ear"}); return err },
		"language": func() error {
			_, err := f.Transcribe(f.ctx, TranscribeParams{RecordingID: up.RecordingID, Language: "e;"})
			return err
		},
		"buckets": func() error {
			_, err := f.Waveform(f.ctx, WaveformParams{RecordingID: up.RecordingID, Buckets: 4001})
			return err
		},
		"empty search": func() error { _, err := f.SearchTranscripts(f.ctx, SearchParams{Query: " "}); return err },
		"status":       func() error { _, err := f.ListMemos(f.ctx, ListParams{Status: "odd"}); return err },
		"provider": func() error {
			x := "cloud"
			_, err := f.UpdateSettings(f.ctx, SettingsParams{Provider: &x})
			return err
		},
		"local engine": func() error {
			x := "deepgram"
			_, err := f.UpdateSettings(f.ctx, SettingsParams{LocalEngine: &x})
			return err
		},
	} {
		if err := call(); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := f.UploadMemo(f.ctx, UploadParams{AudioBase64: strings.Repeat("A", maxInline/3*4+8)}); !fault.Is(err, fault.Limit) {
		t.Errorf("too large: %v", err)
	}
}

func TestRecordingsAreLimited(t *testing.T) {
	t.Parallel()
	zeros := make([]byte, 1<<20)
	read := func(n int64) error {
		r := &limited{r: io.LimitReader(zeroReader{}, n), left: maxAudio}
		_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r, zeros)
		return err
	}
	if err := read(maxAudio); err != nil {
		t.Error(err)
	}
	if err := read(maxAudio + 1); !errors.Is(err, ErrTooLarge) || !fault.Is(err, fault.Limit) {
		t.Error(err)
	}
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { return len(p), nil }

func TestRecordingsOfOthersAreNotFound(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	up := f.upload()
	f.next()
	jobs, err := f.Transcribe(f.ctx, TranscribeParams{RecordingID: up.RecordingID})
	f.must(err)
	title := "mine"
	for name, call := range map[string]func() error{
		"get": func() error { _, err := f.GetMemo(f.them, MemoParams{up.MemoID}); return err },
		"update": func() error {
			_, err := f.UpdateMemo(f.them, UpdateParams{MemoID: up.MemoID, Title: &title})
			return err
		},
		"delete":     func() error { _, err := f.DeleteMemo(f.them, MemoParams{up.MemoID}); return err },
		"transcript": func() error { _, err := f.GetTranscript(f.them, RecordingParams{up.RecordingID}); return err },
		"edit": func() error {
			_, err := f.EditTranscript(f.them, EditParams{RecordingID: up.RecordingID, Text: "x"})
			return err
		},
		"transcribe": func() error {
			_, err := f.Transcribe(f.them, TranscribeParams{RecordingID: up.RecordingID})
			return err
		},
		"process":  func() error { _, err := f.Process(f.them, ProcessParams{RecordingID: &up.RecordingID}); return err },
		"waveform": func() error { _, err := f.Waveform(f.them, WaveformParams{RecordingID: up.RecordingID}); return err },
		"sound":    func() error { _, _, err := f.Sound(f.them, AudioURLParams{RecordingID: up.RecordingID}); return err },
		"retry":    func() error { _, err := f.Retry(f.them, JobParams{jobs.JobID}); return err },
		"skip":     func() error { _, err := f.Skip(f.them, JobParams{jobs.JobID}); return err },
	} {
		if err := call(); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s, err := f.SearchTranscripts(f.them, SearchParams{Query: "meister"}); err != nil || s.Total != 0 {
		t.Errorf("search: %+v, %v", s, err)
	}
	if l, err := f.ListMemos(f.them, ListParams{}); err != nil || l.Total != 0 {
		t.Errorf("list: %+v, %v", l, err)
	}
}

// TestPrivateStorageSealsTexts searches the database file for the words.
func TestPrivateStorageSealsTexts(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *Options) { o.Private = true })
	f.upload()
	f.next()
	for query, want := range map[string]int{"ubung meist": 1, "proverb": 1, "nothing": 0} {
		s, err := f.SearchTranscripts(f.ctx, SearchParams{Query: query})
		f.must(err)
		l, err := f.ListMemos(f.ctx, ListParams{Query: query})
		f.must(err)
		if s.Total != want || l.Total != want {
			t.Errorf("%q: %+v, %+v", query, s, l)
		}
	}
	f.must(f.db.Read(f.ctx, func(tx *storage.Tx) error {
		return tx.Select(`SELECT text, words FROM voice_transcripts UNION ALL SELECT title, '' FROM voice_memos UNION ALL SELECT text, title FROM voice_transcripts_fts`).Each(func(r storage.Row) error {
			var a, b []byte
			err := r.Scan(&a, &b)
			if s := append(a, b...); bytes.Contains(s, []byte("Meister")) || bytes.Contains(s, []byte("Proverb")) {
				t.Errorf("stored in plain: %q", s)
			}
			return err
		})
	}))
}

// TestWorkersTranscribeWhatIsStored stores recordings while Run is active.
func TestWorkersTranscribeWhatIsStored(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	ctx, cancel := context.WithCancel(f.ctx)
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	for range 3 {
		r, err := f.Process(f.ctx, ProcessParams{Path: say(t, "Practice makes perfect.")})
		if err != nil || !r.Success || r.Transcript == "" {
			t.Errorf("%+v, %v", r, err)
		}
	}
	cancel()
	f.must(<-ended)
	if f.local.calls != 3 || len(f.jobs()) != 0 {
		t.Errorf("%d calls, queue %+v", f.local.calls, f.jobs())
	}
}

// TestEndOfTheProgramIsNoAttempt cancels a job while its engine is working.
func TestEndOfTheProgramIsNoAttempt(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	up := f.upload()
	ctx, cancel := context.WithCancel(f.ctx)
	j, _, err := f.claim(ctx, true, uuid.Nil)
	f.must(err)
	cancel()
	f.do(ctx, j)
	jobs := f.jobs()
	if len(jobs) != 1 || jobs[0].Status != pending || jobs[0].Attempts != 0 || jobs[0].Error != "" || f.memo(up.MemoID).Status != pending {
		t.Errorf("%+v", jobs)
	}
}

func TestJobWithAnExpiredLeaseIsTakenAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.upload()
	j, _, err := f.claim(f.ctx, true, uuid.Nil)
	f.must(err)
	if again, _, err := f.claim(f.ctx, true, uuid.Nil); err != nil || again != nil {
		t.Fatalf("claimed twice: %+v, %v", again, err)
	}
	f.must(f.db.Write(f.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE voice_processing_queue SET lease_until = 1 WHERE id = ?`, j.id)
		return err
	}))
	if again, _, err := f.claim(f.ctx, true, uuid.Nil); err != nil || again == nil || again.attempts != 2 {
		t.Errorf("%+v, %v", again, err)
	}
}

func TestSkippedJobLeavesTheRecording(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	up := f.upload()
	_, err := f.Skip(f.ctx, JobParams{f.jobs()[0].ID})
	f.must(err)
	if m := f.memo(up.MemoID); m.Status != failedState || !m.HasAudio || f.next() {
		t.Errorf("%+v", m)
	}
	if _, err := f.Transcribe(f.ctx, TranscribeParams{RecordingID: up.RecordingID}); err != nil || !f.next() || f.memo(up.MemoID).Status != completed {
		t.Errorf("transcribe after all: %v", err)
	}
}

// TestMemosOfAnotherDeviceAreFound copies rows from one device to another, without their sound.
func TestMemosOfAnotherDeviceAreFound(t *testing.T) {
	t.Parallel()
	a, b := newFixture(t, nil), newFixture(t, nil)
	up := a.upload()
	a.next()
	for _, table := range []string{"voice_recordings", "voice_memos", "voice_transcripts"} {
		storagetest.Exchange(t, table, nil, a.db, b.db)
	}
	s, err := b.SearchTranscripts(b.ctx, SearchParams{Query: "meister"})
	b.must(err)
	if s.Total != 1 || s.Results[0].Title != "Proverb" {
		t.Errorf("%+v", s)
	}
	l, err := b.ListMemos(b.ctx, ListParams{Query: "proverb", Tags: []string{"words"}})
	b.must(err)
	if l.Total != 1 || l.Memos[0].HasAudio || l.Memos[0].ID != up.MemoID {
		t.Errorf("%+v", l)
	}
	if _, err := b.Transcribe(b.ctx, TranscribeParams{RecordingID: up.RecordingID}); !fault.Is(err, fault.NotFound) {
		t.Errorf("transcribe without the sound: %v", err)
	}
}
