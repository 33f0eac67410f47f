package backend

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/testkit"
	"helix/backend/voice"
)

// speaker is a backend with the extra port of POST /transcribe, and a recording.
type speaker struct {
	*Backend
	urls  []string // of the main server and of the port that serves /transcribe alone
	token string
	said  []byte
}

func newSpeaker(t *testing.T) *speaker {
	t.Helper()
	port := testkit.FreePort(t)
	o := testOptions(t.TempDir())
	o.Extra = []gateway.Extra{{Port: port, Routes: map[string]string{"/transcribe": "/transcribe"}}}
	s := &speaker{Backend: startWith(t, o)}
	s.urls = []string{s.Gateway.URL(), fmt.Sprintf("http://127.0.0.1:%d", port)}
	var err error
	if s.token, _, err = s.Root.Token(t.Context()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "said.wav")
	if out, err := exec.Command("flite", "-voice", "rms", "-t", "Stop recording and save the file.", "-o", path).CombinedOutput(); err != nil {
		t.Fatalf("flite: %v\n%s", err, out)
	}
	if s.said, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *speaker) post(t *testing.T, url, contentType string, body io.Reader) (int, transcribeAnswer) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if l, ok := body.(*io.LimitedReader); ok {
		req.ContentLength = l.N // refused before anything is read
	}
	req.Header.Set("Content-Type", contentType)
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	var a transcribeAnswer
	if err := json.Unmarshal(text, &a); err != nil {
		t.Fatalf("%d %s: %v", r.StatusCode, text, err)
	}
	return r.StatusCode, a
}

// audioForm is a form with some fields and a recording behind them.
func audioForm(t *testing.T, audio []byte, fields ...string) (body []byte, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i+1 < len(fields); i += 2 {
		if err := w.WriteField(fields[i], fields[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	p, err := w.CreateFormFile("audio", "x.bin")
	if err == nil {
		_, err = p.Write(audio)
	}
	if err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return b.Bytes(), w.FormDataContentType()
}

// TestPostTranscribe sends a recording in each way to both ports and finds it in what was said.
func TestPostTranscribe(t *testing.T) {
	t.Parallel()
	s := newSpeaker(t)
	const heard = "stop recording and save the file"
	status, a := s.post(t, s.urls[0]+"/transcribe?title=Raw&user_id="+s.LocalUser().String(), "audio/mpeg", bytes.NewReader(s.said)) // a wrong label
	if status != http.StatusOK || !a.Success || *a.Transcript != heard || len(a.Words) != 6 || a.RecordingID == nil || a.DurationMs < 1000 {
		t.Errorf("raw: %d %+v", status, a)
	}
	body, kind := audioForm(t, s.said, "title", "Form", "user_id", s.LocalUser().String(), "engine", "pocketsphinx", "language", "en-US")
	if status, a = s.post(t, s.urls[1]+"/transcribe", kind, bytes.NewReader(body)); status != http.StatusOK || *a.Transcript != heard {
		t.Errorf("form: %d %+v", status, a)
	}
	var found voice.SearchResult
	s.session(t).call("voice.search_transcripts", voice.SearchParams{Query: "recording"}, &found)
	if found.Total != 2 {
		t.Errorf("found %+v", found)
	}
	if status, a = s.post(t, s.urls[0]+"/transcribe?wait=0", "application/octet-stream", bytes.NewReader(s.said)); status != http.StatusAccepted || !a.Success || a.RecordingID == nil || a.Status != "pending" {
		t.Errorf("without a wait: %d %+v", status, a)
	}
	long := append(append([]byte(nil), s.said[:40]...), make([]byte, 10<<20)...)
	if status, a = s.post(t, s.urls[1]+"/transcribe", "audio/ogg", io.MultiReader(bytes.NewReader(long))); status != http.StatusOK || a.DurationMs < 300_000 {
		t.Errorf("10 MB of unknown length: %d %+v", status, a)
	}
	silent := append(append([]byte(nil), s.said[:44]...), make([]byte, 32000)...)
	if status, a = s.post(t, s.urls[0]+"/transcribe", "audio/wav", bytes.NewReader(silent)); status != http.StatusOK || a.Transcript == nil || *a.Transcript != "" {
		t.Errorf("silence: %d %+v", status, a)
	}
}

// TestPostTranscribeRefusals sends what can't be taken, and counts what is kept of it.
func TestPostTranscribeRefusals(t *testing.T) {
	t.Parallel()
	s := newSpeaker(t)
	form, kind := audioForm(t, s.said)
	noAudio, noKind := audioForm(t, nil, "title", "x")
	noAudio = bytes.Replace(noAudio, []byte(`name="audio"`), []byte(`name="sound"`), 1)
	foreign, foreignKind := audioForm(t, s.said, "user_id", "018f3c5e-0000-7000-8000-000000000000")
	long, longKind := audioForm(t, s.said, "title", strings.Repeat("x", 5000))
	late := bytes.Replace(foreign, []byte(`name="user_id"`), []byte(`name="audio"`), 1)
	late = bytes.Replace(late, []byte(`name="audio"; filename`), []byte(`name="user_id"; filename`), 1)
	memos := 0
	for _, c := range []struct {
		name, query, kind string
		body              io.Reader
		status, kept      int
	}{
		{"empty", "", "audio/wav", strings.NewReader(""), http.StatusBadRequest, 0},
		{"no boundary", "", "multipart/form-data", bytes.NewReader(form), http.StatusBadRequest, 0},
		{"cut off form", "", kind, bytes.NewReader(form[:len(form)/2]), http.StatusBadRequest, 0},
		{"no part audio", "", noKind, bytes.NewReader(noAudio), http.StatusBadRequest, 0},
		{"long field", "", longKind, bytes.NewReader(long), http.StatusBadRequest, 0},
		{"not a form", "", kind, strings.NewReader("x"), http.StatusBadRequest, 0},
		{"another user", "", foreignKind, bytes.NewReader(foreign), http.StatusForbidden, 0},
		{"another user after the recording", "", foreignKind, bytes.NewReader(late), http.StatusBadRequest, 0},
		{"another user in the address", "?user_id=someone", "audio/wav", bytes.NewReader(s.said), http.StatusForbidden, 0},
		{"unknown engine", "?engine=ear", "audio/wav", bytes.NewReader(s.said), http.StatusBadRequest, 0},
		{"announced too large", "", "audio/wav", io.LimitReader(zeros{}, transcribeBody+1), http.StatusRequestEntityTooLarge, 0},
		{"m4a", "", "audio/mp4", strings.NewReader("\x00\x00\x00\x18ftypM4A mp42"), http.StatusUnprocessableEntity, 1},
		{"unknown format", "", "audio/wav", strings.NewReader("no sound"), http.StatusUnprocessableEntity, 1},
		{"damaged", "", "audio/wav", bytes.NewReader(s.said[:30]), http.StatusUnprocessableEntity, 1},
	} {
		status, a := s.post(t, s.urls[0]+"/transcribe"+c.query, c.kind, c.body)
		if status != c.status || a.Success || a.Error == "" || (a.RecordingID != nil) != (c.kept > 0) {
			t.Errorf("%s: %d %+v", c.name, status, a)
		}
		memos += c.kept
		var l voice.ListResult
		if s.session(t).call("voice.list_memos", voice.ListParams{}, &l); l.Total != memos {
			t.Errorf("%s: %d memos are kept, want %d", c.name, l.Total, memos)
		}
	}
}

func TestFullDiskIsNotARecordingThatIsTooLarge(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]int{
		fmt.Errorf("blob: %w", voice.ErrTooLarge):             http.StatusRequestEntityTooLarge,
		fmt.Errorf("read: %w", &http.MaxBytesError{Limit: 1}): http.StatusRequestEntityTooLarge,
		fault.Limitf("The disk is full."):                     http.StatusInternalServerError,
		fault.Invalidf("The recording is empty."):             http.StatusBadRequest,
	} {
		if got := notStored(err); got != want {
			t.Errorf("%v: status %d, want %d", err, got, want)
		}
	}
}

// zeros is endless.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestSoundOfARecordingIsServed fetches the bytes of a memo, and a part of them, without a token.
func TestSoundOfARecordingIsServed(t *testing.T) {
	t.Parallel()
	s := newSpeaker(t)
	_, a := s.post(t, s.urls[0]+"/transcribe?wait=0", "audio/wav", bytes.NewReader(s.said))
	var u gateway.BlobURL
	s.session(t).call("voice.audio_url", voice.AudioURLParams{RecordingID: *a.RecordingID}, &u)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Range", "bytes=8-11")
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if b, err := io.ReadAll(r.Body); err != nil || r.StatusCode != http.StatusPartialContent || string(b) != "WAVE" || r.Header.Get("Content-Type") != "audio/wav" {
		t.Errorf("%d %q %s, %v", r.StatusCode, b, r.Header.Get("Content-Type"), err)
	}
}

// FuzzTranscribeForm reads forms of any content.
func FuzzTranscribeForm(f *testing.F) {
	const part = "--b\r\nContent-Disposition: form-data; name=\"%s\"\r\n\r\nx\r\n"
	for _, names := range [][]string{{"audio"}, {"title", "audio"}, {"audio", "user_id"}, {"user_id", "user_id", "audio"}, {"other"}, {""}} {
		body := ""
		for _, n := range names {
			body += fmt.Sprintf(part, n)
		}
		f.Add(body+"--b--\r\n", "b")
		f.Add(body, "b")
	}
	f.Fuzz(func(t *testing.T, body, boundary string) {
		var p voice.UploadParams
		var user string
		audio, err := formAudio(strings.NewReader(body), boundary, &p, &user)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatal(err)
			}
			return
		}
		if n, err := io.Copy(io.Discard, audio); n > int64(len(body)) || max(len(p.Title), len(p.Engine), len(p.Language), len(user)) > transcribeField {
			t.Fatalf("%d bytes of sound, %+v, user %q, %v", n, p, user, err)
		}
	})
}
