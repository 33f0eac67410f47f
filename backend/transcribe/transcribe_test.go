package transcribe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"helix/backend/audio"
	"helix/backend/fault"
	"helix/backend/safehttp"
	"helix/backend/testkit"
)

func TestMain(m *testing.M) {
	if os.Getenv(standIn) != "" {
		os.Exit(whisperStandIn(os.Args[1:]))
	}
	os.Exit(testkit.Run(m))
}

const secretKey = "dg-key-7f3a91c4"

// spoken returns text spoken by flite, prepared for engines.
func spoken(t testing.TB, voice, text string) Audio {
	t.Helper()
	raw := filepath.Join(t.TempDir(), "raw.wav")
	if out, err := exec.Command("flite", "-voice", voice, "-t", text, "-o", raw).CombinedOutput(); err != nil {
		t.Fatalf("flite: %v\n%s", err, out)
	}
	return prepared(t, raw)
}

// prepared decodes a file for engines.
func prepared(t testing.TB, path string) Audio {
	t.Helper()
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	_, src, err := audio.Speech(in)
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "speech.wav"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	d := audio.NewDetector()
	n, err := audio.WriteWAV(out, audio.Rate, tee{src, d})
	if err != nil {
		t.Fatal(err)
	}
	return Audio{Path: out.Name(), Duration: audio.Duration(n, audio.Rate), Speech: d.Speech()}
}

type tee struct {
	audio.Source
	d *audio.Detector
}

func (t tee) Read(p []float32) (int, error) {
	n, err := t.Source.Read(p)
	t.d.Write(p[:n])
	return n, err
}

// silence returns a recording without speech.
func silence(t testing.TB, seconds int) Audio {
	t.Helper()
	path := filepath.Join(t.TempDir(), "silence.wav")
	b := append([]byte("RIFF\x00\x00\x00\x00WAVEfmt "), 16, 0, 0, 0, 1, 0, 1, 0)
	b = binary.LittleEndian.AppendUint32(b, audio.Rate)
	b = binary.LittleEndian.AppendUint32(b, 2*audio.Rate)
	b = append(append(b, 2, 0, 16, 0), "data\x00\x00\x00\x00"...)
	if err := os.WriteFile(path, append(b, make([]byte, 2*audio.Rate*seconds)...), 0o600); err != nil {
		t.Fatal(err)
	}
	return prepared(t, path)
}

// service returns an engine that calls a fake Deepgram API.
func service(t testing.TB, answer http.HandlerFunc) *Deepgram {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	client := safehttp.New(safehttp.Options{AllowLoopback: func(int) bool { return true }, MaxRedirects: -1})
	t.Cleanup(client.Close)
	return NewDeepgram(DeepgramOptions{URL: s.URL, HTTP: client, Key: func(context.Context) (string, error) { return secretKey, nil }})
}

const heard = `{"metadata":{"request_id":"1"},"results":{"channels":[{"alternatives":[{"transcript":"Remind me, please.","confidence":0.98,"words":[
	{"word":"remind","punctuated_word":"Remind","start":0.24,"end":0.6,"confidence":0.99},{"word":"me","punctuated_word":"me,","start":0.6,"end":0.8,"confidence":0.9},{"word":"please","punctuated_word":"please.","start":0.9,"end":1.2,"confidence":0.97}]}]}]}}`

// conforms tests the behavior that all engines share.
func conforms(t *testing.T, e Engine, speech Audio) {
	info := e.Info(t.Context())
	if info.ID == "" || info.Name == "" || !info.Available || info.Reason != "" || info.Languages == nil || info.Models == nil {
		t.Errorf("info %+v", info)
	}
	tr, err := e.Transcribe(t.Context(), speech, Options{Language: "en-US"})
	if err != nil || tr.Text == "" || tr.Language == "" || tr.Model == "" || tr.Confidence < 0 || tr.Confidence > 1 {
		t.Fatalf("%+v, %v", tr, err)
	}
	if info.WordTimes && len(tr.Words) == 0 {
		t.Error("no words")
	}
	last := int64(0)
	for _, w := range tr.Words {
		if w.Text == "" || w.StartMs < last || w.EndMs < w.StartMs || w.EndMs > speech.Duration.Milliseconds()+100 || w.Confidence < 0 || w.Confidence > 1 {
			t.Errorf("word %+v after %d ms", w, last)
		}
		last = w.StartMs
	}
	if tr, err := e.Transcribe(t.Context(), silence(t, 60), Options{}); err != nil || tr.Text != "" || tr.Words == nil || len(tr.Words) > 0 {
		t.Errorf("a minute of silence: %+v, %v", tr, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Transcribe(ended, speech, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if _, err := e.Transcribe(t.Context(), Audio{Path: filepath.Join(t.TempDir(), "none.wav"), Duration: time.Second, Speech: []audio.Span{{StartMs: 0, EndMs: 900}}}, Options{}); err == nil {
		t.Error("a file that is not there was transcribed")
	}
}

func TestEnginesConform(t *testing.T) {
	t.Parallel()
	speech := spoken(t, "rms", "Remind me to call the dentist.")
	t.Run("pocketsphinx", func(t *testing.T) { t.Parallel(); conforms(t, NewPocketSphinx(), speech) })
	t.Run("deepgram", func(t *testing.T) {
		t.Parallel()
		conforms(t, service(t, func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			if r.Method != http.MethodPost || r.URL.Path != "/v1/listen" || q.Get("model") != "nova-3" || q.Get("smart_format") != "true" || q.Get("punctuate") != "true" ||
				r.Header.Get("Authorization") != "Token "+secretKey || r.Header.Get("Content-Type") != "audio/wav" {
				t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
			}
			st, err := audio.Open(r.Body)
			if err != nil || st.SampleRate != audio.Rate || st.Channels != 1 || st.Codec != "pcm" {
				t.Errorf("sent %+v, %v", st, err)
				return
			}
			loud, p := false, make([]float32, 4096)
			for err == nil {
				var n int
				n, err = st.Read(p)
				for _, v := range p[:n] {
					loud = loud || v > 0.01
				}
			}
			if answer := heard; loud {
				io.WriteString(w, answer)
			} else {
				io.WriteString(w, `{"metadata":{},"results":{"channels":[{"alternatives":[]}]}}`)
			}
		}), speech)
	})
}

// TestDeepgramFailuresAreTold simulates every failure of the service and checks the kinds and
// causes of the errors.
func TestDeepgramFailuresAreTold(t *testing.T) {
	t.Parallel()
	speech := silence(t, 1)
	status := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			io.WriteString(w, `{"err_code":"X","err_msg":"`+secretKey+`"}`)
		}
	}
	body := func(text string, cut bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			if cut {
				w.Header().Set("Content-Length", fmt.Sprint(len(text)+100))
			}
			io.WriteString(w, text)
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		kind   fault.Kind
		cause  Cause
		pause  time.Duration
	}{
		"400":                {status(400), fault.Invalid, Refused, 0},
		"401":                {status(401), fault.Denied, Refused, 0},
		"402":                {status(402), fault.Limit, Refused, 0},
		"403":                {status(403), fault.Denied, Refused, 0},
		"413":                {status(413), fault.Limit, Refused, 0},
		"429":                {status(429, "Retry-After", "7"), fault.Limit, RateLimit, 7 * time.Second},
		"429 without a time": {status(429), fault.Limit, RateLimit, 30 * time.Second},
		"503":                {status(503, "Retry-After", "2"), fault.Limit, RateLimit, 2 * time.Second},
		"500":                {status(500), fault.Unavailable, Failed, 0},
		"redirect":           {status(302, "Location", "https://example.org/"), fault.Unavailable, Failed, 0},
		"HTML":               {body("<html>hello</html>", false), fault.Unavailable, Failed, 0},
		"half a JSON":        {body(heard[:len(heard)/2], false), fault.Unavailable, Failed, 0},
		"JSON without":       {body(`{}`, false), fault.Unavailable, Failed, 0},
		"cut off":            {body(heard[:40], true), fault.Unavailable, Failed, 0},
	} {
		_, err := service(t, c.answer).Transcribe(t.Context(), speech, Options{})
		f := fault.As(err)
		if f == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		if f.Kind != c.kind && name != "redirect" || CauseOf(err) != c.cause && name != "redirect" || f.RetryAfter != c.pause {
			t.Errorf("%s: kind %s, cause %s, pause %v: %v", name, f.Kind, CauseOf(err), f.RetryAfter, err)
		}
		if strings.Contains(err.Error(), secretKey) {
			t.Errorf("%s: the key is in the error: %v", name, err)
		}
	}
}

func TestDeepgramThatIsSlowOrGoneIsTriedLater(t *testing.T) {
	t.Parallel()
	speech := silence(t, 1)
	stop := make(chan struct{})
	d := service(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	})
	defer close(stop)
	d.o.Grace = time.Millisecond
	short := speech
	short.Duration = 0
	if _, err := d.Transcribe(t.Context(), short, Options{}); !fault.Is(err, fault.Timeout) || CauseOf(err) != Failed {
		t.Errorf("slow: %v, %s", err, CauseOf(err))
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	url := gone.URL
	gone.Close()
	d.o.URL, d.o.Grace = url, time.Minute
	if _, err := d.Transcribe(t.Context(), speech, Options{}); !fault.Is(err, fault.Unavailable) || CauseOf(err) != Offline || strings.Contains(err.Error(), secretKey) {
		t.Errorf("gone: %v, %s", err, CauseOf(err))
	}
	var calls atomic.Int32
	none := service(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	none.o.Key = func(context.Context) (string, error) { return "", nil }
	if _, err := none.Transcribe(t.Context(), speech, Options{}); CauseOf(err) != Missing || none.Info(t.Context()).Available || calls.Load() != 0 {
		t.Errorf("without a key: %v after %d calls", err, calls.Load())
	}
}

func TestPocketSphinxThatIsMissingOrBrokenIsTold(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.wav")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	speech := Audio{Path: file, Speech: []audio.Span{{StartMs: 0, EndMs: 1000}}}
	p := &PocketSphinx{program: "/nowhere/pocketsphinx", model: t.TempDir()}
	if _, err := p.Transcribe(t.Context(), speech, Options{}); CauseOf(err) != Missing || p.Info(t.Context()).Available {
		t.Errorf("missing: %v", err)
	}
	script := filepath.Join(t.TempDir(), "fake")
	for text, cause := range map[string]Cause{"exit 3": Failed, "exit 0": Failed, `while [ $# -gt 0 ]; do [ "$1" = -hypseg ] && echo "0 S 1 T 2 A 3 L 4 x y z" > "$2"; shift; done`: Failed} {
		if err := os.WriteFile(script, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := (&PocketSphinx{program: script, model: sphinxModel}).Transcribe(t.Context(), speech, Options{}); CauseOf(err) != cause || !fault.Is(err, fault.Unavailable) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := NewPocketSphinx().Transcribe(t.Context(), speech, Options{Language: "de-DE"}); CauseOf(err) != Refused {
		t.Errorf("German: %v", err)
	}
}

// sentences are spoken by two voices for PocketSphinx.
var sentences = []string{
	"remind me to call the dentist tomorrow at nine in the morning", "search my memories for the budget meeting in march", "i went to the beach with my sister last summer",
	"send an email to john about the new contract", "turn off the lights in the living room", "my grandmother used to bake apple pie every sunday",
	"how many days are left until the end of the year", "schedule a meeting with the design team on friday afternoon", "read me the last message from my brother", "stop recording and save the file",
}

// TestPocketSphinxHearsSentences counts the wrong words in a recording of ten sentences for each
// voice, and checks that each correct word lies within its sentence.
func TestPocketSphinxHearsSentences(t *testing.T) {
	t.Parallel()
	for voice, most := range map[string]float64{"rms": 0.05, "slt": 0.10} {
		dir := t.TempDir()
		args := []string{}
		var starts []int64
		at := int64(0)
		for i, s := range sentences {
			raw, out := filepath.Join(dir, "raw.wav"), filepath.Join(dir, fmt.Sprintf("%02d.wav", i))
			for _, cmd := range [][]string{{"flite", "-voice", voice, "-t", s, "-o", raw}, {"sox", raw, "-r", "16000", "-c", "1", "-b", "16", out, "pad", "0", "1"}} {
				if msg, err := exec.Command(cmd[0], cmd[1:]...).CombinedOutput(); err != nil {
					t.Fatalf("%v: %v\n%s", cmd, err, msg)
				}
			}
			st, err := os.Stat(out)
			if err != nil {
				t.Fatal(err)
			}
			starts = append(starts, at)
			at += (st.Size() - 44) / 32
			args = append(args, out)
		}
		all := filepath.Join(dir, "all.wav")
		if msg, err := exec.Command("sox", append(args, all)...).CombinedOutput(); err != nil {
			t.Fatalf("sox: %v\n%s", err, msg)
		}
		tr, err := NewPocketSphinx().Transcribe(t.Context(), prepared(t, all), Options{})
		if err != nil {
			t.Fatal(err)
		}
		var total, wrong int
		for i, s := range sentences {
			end := at
			if i+1 < len(starts) {
				end = starts[i+1]
			}
			var got []string
			for _, w := range tr.Words {
				if w.StartMs >= starts[i]-150 && w.StartMs < end-150 {
					got = append(got, w.Text)
				}
			}
			want := strings.Fields(s)
			total, wrong = total+len(want), wrong+distance(want, got)
		}
		t.Logf("%s: %d of %d words wrong, %.1f %%", voice, wrong, total, 100*float64(wrong)/float64(total))
		if float64(wrong) > most*float64(total) {
			t.Errorf("%s: %d of %d words wrong: %s", voice, wrong, total, tr.Text)
		}
	}
}

// distance returns the edit distance of two lists of words.
func distance(a, b []string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, x := range a {
		last := row[0]
		row[0] = i + 1
		for j, y := range b {
			d := last
			if x != y {
				d++
			}
			last = row[j+1]
			row[j+1] = min(d, last+1, row[j]+1)
		}
	}
	return row[len(b)]
}
