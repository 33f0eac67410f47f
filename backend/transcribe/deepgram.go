package transcribe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/safehttp"
)

const (
	deepgramURL    = "https://api.deepgram.com"
	deepgramModel  = "nova-3"
	deepgramAnswer = 64 << 20 // bytes; the words of four hours take about 10 MB
	// DeepgramSecret is the name of the secret that holds the API key.
	DeepgramSecret = "voice/deepgram"
)

// DeepgramOptions configure a Deepgram engine. Key and HTTP are required.
type DeepgramOptions struct {
	URL  string // default: the public API of Deepgram
	HTTP *safehttp.Client
	// Key returns the API key of the user in ctx; empty if there is none.
	Key func(ctx context.Context) (string, error)
	// Grace is the base of the time limit of a call; default 30 s. Half the length of the recording
	// is added, up to a total of ten minutes.
	Grace time.Duration
	// Pause is the time before an interrupted stream connects again; default 0.5 s.
	Pause time.Duration
}

// Deepgram transcribes recordings with the Deepgram API.
type Deepgram struct{ o DeepgramOptions }

// NewDeepgram returns the engine. It makes no API call.
func NewDeepgram(o DeepgramOptions) *Deepgram {
	o.URL, o.Grace = cmp.Or(o.URL, deepgramURL), cmp.Or(o.Grace, 30*time.Second)
	return &Deepgram{o}
}

// Info implements Engine.
func (d *Deepgram) Info(ctx context.Context) Info {
	i := Info{ID: "deepgram", Name: "Deepgram", Streaming: true, WordTimes: true, Languages: []string{}, Models: []string{deepgramModel, "nova-2"}, Available: true}
	if key, err := d.o.Key(ctx); err != nil {
		i.Available, i.Reason = false, fault.As(err).Message
	} else if key == "" {
		i.Available, i.Reason = false, "Deepgram needs a key. Store it with: helix secrets set "+DeepgramSecret
	}
	return i
}

// deepgramReply holds the needed fields of a response.
type deepgramReply struct {
	Metadata struct {
		Models []string `json:"models"`
	} `json:"metadata"`
	Results *struct {
		Channels []struct {
			Detected     string `json:"detected_language"`
			Alternatives []struct {
				Transcript string  `json:"transcript"`
				Confidence float64 `json:"confidence"`
				Words      []struct {
					Word       string  `json:"word"`
					Punctuated string  `json:"punctuated_word"`
					Start      float64 `json:"start"`
					End        float64 `json:"end"`
					Confidence float64 `json:"confidence"`
				} `json:"words"`
			} `json:"alternatives"`
		} `json:"channels"`
	} `json:"results"`
}

// Transcribe implements Engine.
func (d *Deepgram) Transcribe(ctx context.Context, a Audio, o Options) (t Transcript, err error) {
	t = Transcript{Language: o.Language, Model: cmp.Or(o.Model, deepgramModel), Words: []Word{}}
	key, err := d.o.Key(ctx)
	if err != nil {
		return t, err
	}
	if key == "" {
		return t, failure(Missing, fault.Unavailablef("%s", d.Info(ctx).Reason))
	}
	f, err := os.Open(a.Path)
	if err != nil {
		return t, err
	}
	defer f.Close()
	q := url.Values{"model": {t.Model}, "smart_format": {"true"}, "punctuate": {"true"}}
	if o.Language != "" {
		q.Set("language", o.Language)
	} else {
		q.Set("detect_language", "true")
	}
	limit := min(d.o.Grace+a.Duration/2, 10*time.Minute)
	call, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	header := http.Header{"Authorization": {"Token " + key}, "Content-Type": {"audio/wav"}, "Accept": {"application/json"}}
	s, err := d.o.HTTP.Stream(call, safehttp.StreamRequest{
		Request: safehttp.Request{Method: http.MethodPost, URL: strings.TrimRight(d.o.URL, "/") + "/v1/listen?" + q.Encode(), Header: header, SensitiveBody: true},
		Reader:  f, Idle: limit, MaxBody: deepgramAnswer,
	})
	if err != nil {
		return t, d.unreachable(ctx, err)
	}
	defer s.Body.Close()
	body, err := io.ReadAll(s.Body)
	if s.Status != http.StatusOK {
		return t, d.refused(s.Status, s.Header)
	}
	if err != nil {
		return t, d.unreachable(ctx, err)
	}
	var r deepgramReply
	if err := json.Unmarshal(body, &r); err != nil || r.Results == nil {
		return t, failure(Failed, fault.Unavailablef("Couldn't read Deepgram's answer.").WithCause(errors.Join(err, errors.New("no results"))))
	}
	return r.transcript(t), nil
}

func (r deepgramReply) transcript(t Transcript) Transcript {
	if len(r.Results.Channels) == 0 || len(r.Results.Channels[0].Alternatives) == 0 {
		return t
	}
	c := r.Results.Channels[0]
	best := c.Alternatives[0]
	t.Text, t.Confidence, t.Language = best.Transcript, unit(best.Confidence), cmp.Or(c.Detected, t.Language)
	for _, w := range best.Words {
		start := max(0, int64(math.Round(w.Start*1000)))
		t.Words = append(t.Words, Word{Text: cmp.Or(w.Punctuated, w.Word), StartMs: start, EndMs: max(start, int64(math.Round(w.End*1000))), Confidence: unit(w.Confidence)})
	}
	return t
}

func unit(x float64) float64 { return max(0, min(1, x)) }

// unreachable returns the error for a call without a complete response.
func (d *Deepgram) unreachable(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case fault.Is(err, fault.Timeout) || errors.Is(err, context.DeadlineExceeded):
		return failure(Failed, fault.New(fault.Timeout, "Deepgram took too long to answer.").WithCause(err))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return failure(Failed, fault.Unavailablef("Deepgram's answer was cut off.").WithCause(err))
	}
	return failure(Offline, fault.Unavailablef("Couldn't reach Deepgram. The recording will be transcribed when you are online.").WithCause(err))
}

// refused returns the error for a response other than a transcript.
func (d *Deepgram) refused(status int, header http.Header) error {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return failure(Refused, fault.Deniedf("Deepgram refused the key. Store another one with: helix secrets set %s", DeepgramSecret))
	case http.StatusPaymentRequired:
		return failure(Refused, fault.Limitf("Your Deepgram account has no credit left."))
	case http.StatusRequestEntityTooLarge:
		return failure(Refused, fault.Limitf("The recording is too large for Deepgram."))
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		e := fault.Limitf("Deepgram asked Helix to slow down.")
		e.RetryAfter = retryAfter(header.Get("Retry-After"))
		return failure(RateLimit, e)
	}
	if status < 500 {
		return failure(Refused, fault.Invalidf("Deepgram refused the request with status %d. Check the model and the language.", status))
	}
	return failure(Failed, fault.Unavailablef("Deepgram has a problem (status %d).", status))
}

// retryAfter parses a Retry-After header. The result is at most one hour.
func retryAfter(text string) time.Duration {
	d := 30 * time.Second
	if n, err := strconv.Atoi(text); err == nil && n >= 0 {
		d = duration.Of(min(n, 3600), time.Second)
	} else if at, err := http.ParseTime(text); err == nil {
		d = time.Until(at)
	}
	return max(0, min(d, time.Hour))
}
