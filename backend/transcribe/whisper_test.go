package transcribe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"helix/backend/audio"
	"helix/backend/fault"
	"helix/backend/safehttp"
)

const standIn = "HELIX_WHISPER_STAND_IN"

// whisperStandIn behaves like whisper-cli of whisper.cpp 1.7: it accepts the same options, ends with the
// same codes and writes the same JSON. PocketSphinx recognizes the words.
func whisperStandIn(args []string) int {
	f := flag.NewFlagSet("whisper-cli", flag.ContinueOnError)
	model, file, lang, out := f.String("model", "", ""), f.String("file", "", ""), f.String("language", "en", ""), f.String("output-file", "", "")
	longest, threads := f.Int("max-len", 0, ""), f.Int("threads", 4, "")
	split, full := f.Bool("split-on-word", false, ""), f.Bool("output-json-full", false, "")
	f.Bool("suppress-nst", false, "")
	f.Bool("no-prints", false, "")
	if err := f.Parse(args); err != nil {
		return 0 // unknown options print the usage and are no failure
	}
	for _, name := range os.Environ() {
		if !strings.HasPrefix(name, "PATH=") && !strings.HasPrefix(name, "LC_ALL=") && !strings.HasPrefix(name, "PWD=") && !strings.HasPrefix(name, standIn) {
			fmt.Fprintln(os.Stderr, "environment:", name)
			return 9
		}
	}
	if b, err := os.ReadFile(*model); err != nil || !bytes.HasPrefix(b, []byte("lmgg")) {
		fmt.Fprintln(os.Stderr, "error: failed to initialize whisper context")
		return 3
	}
	if *longest != 1 || !*split || !*full || *threads < 1 || strings.Contains(string(mustRead(*model)), "hang") {
		select {} // a model that never ends
	}
	in, err := os.Open(*file)
	if err != nil {
		return 2
	}
	st, err := audio.Open(in)
	if err != nil || st.SampleRate != audio.Rate || st.Channels != 1 {
		return 2
	}
	d := audio.NewDetector()
	n := int64(0)
	for buf := make([]float32, 4096); err == nil; {
		var k int
		k, err = st.Read(buf)
		n += int64(k)
		d.Write(buf[:k])
	}
	t, err := NewPocketSphinx().Transcribe(context.Background(), Audio{Path: *file, Duration: audio.Duration(n, audio.Rate), Speech: d.Speech()}, Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 10
	}
	type object = map[string]any
	items := []object{{"offsets": object{"from": 0, "to": 0}, "text": "", "tokens": []object{{"text": "[_BEG_]", "p": 0.5}}}}
	for _, w := range t.Words {
		items = append(items, object{"timestamps": object{}, "offsets": object{"from": w.StartMs, "to": w.EndMs}, "text": " " + w.Text, "tokens": []object{{"text": " " + w.Text, "id": 1, "p": 0.8, "t_dtw": -1}}})
	}
	if *lang == "auto" {
		*lang = "en"
	}
	b, err := json.Marshal(object{"systeminfo": "", "params": object{"language": *lang}, "result": object{"language": *lang}, "transcription": items})
	if err == nil {
		err = os.WriteFile(*out+".json", b, 0o600)
	}
	if err != nil {
		return 4
	}
	return 0
}

func mustRead(path string) []byte {
	b, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return b
}

// whisper returns an engine that runs the stand-in, with models from a test server. serve answers the
// server's requests; nil: from the start or from any byte.
func whisper(t testing.TB, files map[string][]byte, serve func(http.ResponseWriter, *http.Request, []byte)) *Whisper {
	t.Helper()
	if serve == nil {
		serve = func(w http.ResponseWriter, r *http.Request, b []byte) {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serve(w, r, files[strings.TrimPrefix(r.URL.Path, "/")])
	}))
	t.Cleanup(s.Close)
	client := safehttp.New(safehttp.Options{AllowLoopback: func(int) bool { return true }})
	t.Cleanup(client.Close)
	o := ModelsOptions{Dir: filepath.Join(t.TempDir(), "models"), HTTP: client}
	for _, id := range []string{"tiny.en", "base", "large"} {
		if b := files[id]; b != nil {
			sum := sha256.Sum256(b)
			o.Catalog = append(o.Catalog, Model{ID: id, Size: int64(len(b)), SHA256: hex.EncodeToString(sum[:]), URL: s.URL + "/" + id})
		}
	}
	w := NewWhisper(NewModels(o))
	w.program = filepath.Join(t.TempDir(), "whisper-cli")
	if err := os.WriteFile(w.program, []byte("#!/bin/sh\n"+standIn+"=1 exec "+os.Args[0]+` "$@"`+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return w
}

// weights is the content of a model's file.
func weights(n int) []byte {
	b := []byte("lmgg")
	for i := 0; len(b) < n; i++ {
		b = append(b, byte(i*i>>3))
	}
	return b
}

func install(t *testing.T, w *Whisper, id string) {
	t.Helper()
	if err := w.Models().Install(t.Context(), id, func(int64) {}); err != nil {
		t.Fatal(err)
	}
}

func TestWhisperConforms(t *testing.T) {
	t.Parallel()
	w := whisper(t, map[string][]byte{"base": weights(100_000)}, nil)
	install(t, w, "base")
	conforms(t, w, spoken(t, "rms", "Remind me to call the dentist."))
}

// TestWhisperHasWordsWithTimes compares the words with those of the recognizer behind the stand-in.
func TestWhisperHasWordsWithTimes(t *testing.T) {
	t.Parallel()
	w := whisper(t, map[string][]byte{"base": weights(1000)}, nil)
	install(t, w, "base")
	speech := spoken(t, "rms", "Remind me to call the dentist.")
	want, err := NewPocketSphinx().Transcribe(t.Context(), speech, Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := w.Transcribe(t.Context(), speech, Options{})
	if err != nil || got.Text != want.Text || got.Language != "en" || got.Model != "base" || got.Confidence < 0.79 || got.Confidence > 0.81 {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, x := range got.Words {
		x.Confidence = 0
		if x != want.Words[i] {
			t.Errorf("word %d is %+v, want %+v", i, x, want.Words[i])
		}
	}
	var r whisperResult
	if err := json.Unmarshal([]byte(`{"transcription":[{"text":" two words","offsets":{"from":100,"to":300},"tokens":[{"text":"[_TT_5]","p":0.1},{"text":" two","p":0.5},{"text":" words","p":0.7}]},{"text":" late","offsets":{"from":50,"to":9000}},{"text":" "}]}`), &r); err != nil {
		t.Fatal(err)
	}
	words, confidence := r.words(1000)
	if !slices.Equal(words, []Word{{"two", 100, 200, 0.6}, {"words", 200, 300, 0.6}, {"late", 200, 1000, 0}}) || math.Abs(confidence-0.4) > 1e-9 {
		t.Errorf("%+v, %v", words, confidence)
	}
}

func TestWhisperFailuresAreReported(t *testing.T) {
	t.Parallel()
	w := whisper(t, map[string][]byte{"tiny.en": weights(1000), "base": []byte("not a model"), "large": append(weights(100), "hang"...)}, nil)
	speech := spoken(t, "rms", "Remind me.")
	if _, err := w.Transcribe(t.Context(), speech, Options{}); CauseOf(err) != Missing || !strings.Contains(err.Error(), "models install") || w.Info(t.Context()).Available {
		t.Errorf("without a model: %v", err)
	}
	for _, id := range []string{"tiny.en", "base", "large"} {
		install(t, w, id)
	}
	if _, err := w.Transcribe(t.Context(), speech, Options{Model: "base"}); CauseOf(err) != Failed || !fault.Is(err, fault.Unavailable) {
		t.Errorf("a model that can't be loaded: %v", err)
	}
	if _, err := w.Transcribe(t.Context(), speech, Options{Model: "tiny.en", Language: "de-DE"}); CauseOf(err) != Refused {
		t.Errorf("German with an English model: %v", err)
	}
	if _, err := w.Transcribe(t.Context(), speech, Options{Model: "huge"}); CauseOf(err) != Refused {
		t.Errorf("unknown model: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := w.Transcribe(ctx, speech, Options{Model: "large"})
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if err := os.WriteFile(w.Models().path("tiny.en"), weights(1000)[:999], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Transcribe(t.Context(), speech, Options{Model: "tiny.en"}); CauseOf(err) != Missing || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("damaged model: %v", err)
	}
	if _, err := os.Stat(w.Models().path("tiny.en")); err == nil {
		t.Error("the damaged model is still there")
	}
	w.program = "/nowhere/whisper-cli"
	if _, err := w.Transcribe(t.Context(), speech, Options{}); CauseOf(err) != Failed {
		t.Errorf("without the program: %v", err)
	}
}

// TestModelDownloadContinuesWhereItStopped cuts a download at different bytes, with and without a server
// that supports ranges.
func TestModelDownloadContinuesWhereItStopped(t *testing.T) {
	t.Parallel()
	b := weights(1 << 20)
	for _, ranges := range []bool{true, false} {
		var requests []string
		w := whisper(t, map[string][]byte{"base": b}, func(w http.ResponseWriter, r *http.Request, b []byte) {
			from := 0
			requests = append(requests, r.Header.Get("Range"))
			if n, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); n == 1 && ranges {
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(b)-1, len(b)))
				w.Header().Set("Content-Length", fmt.Sprint(len(b)-from))
				w.WriteHeader(http.StatusPartialContent)
			} else {
				from = 0
				w.Header().Set("Content-Length", fmt.Sprint(len(b)))
			}
			if len(requests) < 3 { // it breaks off
				w.Write(b[from : from+300_000]) //nolint:errcheck // the client has gone
				return
			}
			w.Write(b[from:]) //nolint:errcheck // the client has gone
		})
		for range 2 {
			if err := w.Models().Install(t.Context(), "base", func(int64) {}); !fault.Is(err, fault.Unavailable) {
				t.Fatalf("broken off: %v", err)
			}
			if s := w.Models().List()[0]; s.Installed || s.Done == 0 || s.Done >= s.Size {
				t.Fatalf("%+v", s)
			}
		}
		at := w.Models().List()[0].Done
		first := int64(-1)
		if err := w.Models().Install(t.Context(), "base", func(n int64) {
			if first < 0 {
				first = n
			}
		}); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int64{true: at, false: 0}[ranges]; first != want {
			t.Errorf("ranges %v: continued at %d, want %d", ranges, first, want)
		}
		if got := mustRead(w.Models().path("base")); !bytes.Equal(got, b) {
			t.Errorf("ranges %v: %d bytes that differ", ranges, len(got))
		}
		if len(requests) != 3 || requests[0] != "" || requests[2] != fmt.Sprintf("bytes=%d-", at) {
			t.Errorf("requests %q", requests)
		}
	}
}

func TestDamagedDownloadIsDeleted(t *testing.T) {
	t.Parallel()
	b := weights(1000)
	for name, answer := range map[string][]byte{"another byte": append(bytes.Clone(b[:999]), b[999]+1), "longer": append(bytes.Clone(b), 0)} {
		w := whisper(t, map[string][]byte{"base": b}, func(w http.ResponseWriter, _ *http.Request, _ []byte) { w.Write(answer) }) //nolint:errcheck // the client has gone
		if err := w.Models().Install(t.Context(), "base", func(int64) {}); !fault.Is(err, fault.Unavailable) || len(w.Models().Installed()) != 0 {
			t.Errorf("%s: %v", name, err)
		}
		if files, err := os.ReadDir(w.Models().o.Dir); err != nil || len(files) != 0 {
			t.Errorf("%s: left %v, %v", name, files, err)
		}
	}
	w := whisper(t, map[string][]byte{"base": b}, func(w http.ResponseWriter, _ *http.Request, _ []byte) { w.WriteHeader(404) })
	if err := w.Models().Install(t.Context(), "base", func(int64) {}); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "404") {
		t.Errorf("404: %v", err)
	}
}

// TestDownloadCanBeCanceledAndRemoved cancels a download that hangs after its first bytes.
func TestDownloadCanBeCanceledAndRemoved(t *testing.T) {
	t.Parallel()
	b := weights(200_000)
	stop := make(chan struct{})
	w := whisper(t, map[string][]byte{"base": b}, func(w http.ResponseWriter, r *http.Request, b []byte) {
		w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		w.Write(b[:100_000]) //nolint:errcheck // the client has gone
		w.(http.Flusher).Flush()
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	})
	defer close(stop)
	m := w.Models()
	begin := func(ctx context.Context) (arrived chan struct{}, ended chan error) {
		arrived, ended = make(chan struct{}, 1), make(chan error, 1)
		go func() {
			ended <- m.Install(ctx, "base", func(n int64) {
				if n >= 100_000 {
					select {
					case arrived <- struct{}{}:
					default:
					}
				}
			})
		}()
		<-arrived
		return arrived, ended
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, ended := begin(ctx)
	if err := m.Install(t.Context(), "base", func(int64) {}); !fault.Is(err, fault.Conflict) || !m.List()[0].Downloading {
		t.Errorf("twice at once: %v", err)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("a canceled download succeeded")
	}
	if s := m.List()[0]; s.Downloading || s.Done != 100_000 {
		t.Errorf("after canceling: %+v", s)
	}
	_, ended = begin(t.Context())
	if err := m.Remove("base"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("a removed download succeeded")
	}
	if s := m.List()[0]; s.Done != 0 {
		t.Errorf("after removing: %+v", s)
	}
}

// TestCatalogIsComplete checks the form of the catalog, whose addresses are not opened.
func TestCatalogIsComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, m := range WhisperModels() {
		sum, err := hex.DecodeString(m.SHA256)
		if err != nil || len(sum) != sha256.Size || seen[m.SHA256] || m.Size < 1<<20 || m.URL != whisperSource+m.ID+".bin" {
			t.Errorf("%+v", m)
		}
		seen[m.SHA256] = true
	}
}
