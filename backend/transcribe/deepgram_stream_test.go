package transcribe

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"helix/backend/audio"
	"helix/backend/fault"
)

// ear answers streams. Each second of sound is a word, the number of that second in the sound
// itself: every sample of second n is n/100. cut ends the nth connection after some seconds.
func ear(t testing.TB, cut func(connection int) (seconds int)) http.HandlerFunc {
	var connections atomic.Int32
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("encoding") != "linear16" || q.Get("sample_rate") != "16000" || q.Get("channels") != "1" || q.Get("interim_results") != "true" || q.Get("endpointing") != "300" || r.Header.Get("Authorization") != "Token "+secretKey {
			t.Errorf("%s %v", r.URL, r.Header)
		}
		limit := cut(int(connections.Add(1)))
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.CloseNow()
		c.SetReadLimit(1 << 20)
		say := func(start, length float64, word int, final bool) {
			b, _ := json.Marshal(map[string]any{"type": "Results", "start": start, "duration": length, "is_final": final, "channel": map[string]any{"alternatives": []any{map[string]any{"transcript": fmt.Sprintf("w%d", word)}}}})
			if err := c.Write(r.Context(), websocket.MessageText, b); err != nil && final {
				t.Logf("say: %v", err)
			}
		}
		var sound []byte
		for said := 0; ; {
			kind, data, err := c.Read(r.Context())
			if err != nil {
				return
			}
			if kind == websocket.MessageText {
				if strings.Contains(string(data), "CloseStream") {
					c.Close(websocket.StatusNormalClosure, "")
					return
				}
				continue
			}
			sound = append(sound, data...)
			for len(sound) >= (said+1)*2*audio.Rate {
				at := sound[said*2*audio.Rate+audio.Rate:]
				word := (int(at[0]) | int(at[1])<<8) * 100 / 32767
				if (int(at[0])|int(at[1])<<8)*100%32767 > 16000 {
					word++
				}
				say(float64(said), 0.5, word, false)
				if said == limit {
					return // cut off before the final text
				}
				say(float64(said), 1, word, true)
				said++
			}
		}
	}
}

// streamed sends seconds of sound and returns the final texts and their times.
func streamed(t testing.TB, d *Deepgram, seconds int) (text string, interims int, err error) {
	t.Helper()
	var words []string
	s, err := d.Stream(t.Context(), Options{Language: "en-US"}, func(p Partial) {
		if !p.Final {
			interims++
			return
		}
		words = append(words, fmt.Sprintf("%s@%d-%d", p.Text, p.StartMs, p.EndMs))
	})
	if err != nil {
		t.Fatal(err)
	}
	for n := range seconds {
		x := make([]float32, audio.Rate)
		for i := range x {
			x[i] = float32(n+1) / 100
		}
		s.Write(x)
	}
	err = s.Finish()
	return strings.Join(words, " "), interims, err
}

const fiveSeconds = "w1@0-1000 w2@1000-2000 w3@2000-3000 w4@3000-4000 w5@4000-5000"

func TestStreamSendsTextsWhileRecording(t *testing.T) {
	t.Parallel()
	d := service(t, ear(t, func(int) int { return -1 }))
	text, interims, err := streamed(t, d, 5)
	if err != nil || text != fiveSeconds || interims != 5 {
		t.Errorf("%q, %d interims, %v", text, interims, err)
	}
}

func TestLostStreamContinuesAfterTheLastFinalText(t *testing.T) {
	t.Parallel()
	for name, cuts := range map[string][]int{"at the start": {0, -1}, "in the middle": {2, -1}, "twice": {1, 2, -1}, "many times, with progress": {1, 1, 1, 1, -1}} {
		d := service(t, ear(t, func(n int) int { return cuts[min(n, len(cuts))-1] }))
		d.o.Pause = time.Millisecond
		text, _, err := streamed(t, d, 5)
		if err != nil || text != fiveSeconds {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

func TestStreamGivesUpOnAServiceThatFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		calls  int32
		kind   fault.Kind
	}{
		"401":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, 1, fault.Denied},
		"429":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }, 3, fault.Limit},
		"500":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, 3, fault.Unavailable},
		"HTML": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, 3, fault.Unavailable},
		"cut":  {ear(t, func(int) int { return 0 }), 3, fault.Unavailable},
		"not JSON": {func(w http.ResponseWriter, r *http.Request) {
			if c, err := websocket.Accept(w, r, nil); err == nil {
				_ = c.Write(r.Context(), websocket.MessageText, []byte("{"))
				c.CloseNow()
			}
		}, 3, fault.Unavailable},
	} {
		var calls atomic.Int32
		d := service(t, func(w http.ResponseWriter, r *http.Request) { calls.Add(1); c.answer(w, r) })
		d.o.Pause = time.Millisecond
		_, _, err := streamed(t, d, 2)
		if !fault.Is(err, c.kind) || calls.Load() != c.calls || strings.Contains(fmt.Sprint(err), secretKey) {
			t.Errorf("%s: %v after %d connections, want %d", name, err, calls.Load(), c.calls)
		}
	}
}

func TestCanceledStreamEnds(t *testing.T) {
	t.Parallel()
	d := service(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithCancel(t.Context())
	s, err := d.Stream(ctx, Options{}, func(Partial) {})
	if err != nil {
		t.Fatal(err)
	}
	s.Write(make([]float32, 100))
	cancel()
	if err := s.Finish(); err == nil {
		t.Error("ended without an error")
	}
	d.o.Key = func(context.Context) (string, error) { return "", nil }
	if _, err := d.Stream(t.Context(), Options{}, func(Partial) {}); CauseOf(err) != Missing {
		t.Errorf("without a key: %v", err)
	}
}
