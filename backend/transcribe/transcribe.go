// Package transcribe converts speech to text, with the times of the words. All engines implement
// the same interface, whether they are programs on this computer or online services. The package
// keeps no state and owns no tables.
package transcribe

import (
	"context"
	"strings"
	"time"

	"helix/backend/audio"
	"helix/backend/fault"
)

// Info describes an engine and whether it is available.
type Info struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Local     bool     `json:"local"` // the audio stays on this device
	Streaming bool     `json:"streaming"`
	WordTimes bool     `json:"wordTimes"`
	Languages []string `json:"languages"` // if empty, the service decides
	Models    []string `json:"models"`
	// Downloads are models that can be installed, best last.
	Downloads []ModelState `json:"downloads,omitempty"`
	Available bool         `json:"available"`
	Reason    string       `json:"reason,omitempty"` // why it is not available, and what to do
}

// Audio is a recording prepared for engines: a WAV file at 16 kHz with one channel of 16 bits.
type Audio struct {
	Path     string
	Duration time.Duration
	Speech   []audio.Span // parts with speech
}

// Options control how a recording is transcribed. For empty fields the engine uses its defaults.
type Options struct {
	Language string // BCP 47, such as en-US
	Model    string
}

// Word is a word with its position in the recording.
type Word struct {
	Text       string  `json:"w"`
	StartMs    int64   `json:"startMs"`
	EndMs      int64   `json:"endMs"`
	Confidence float64 `json:"confidence,omitempty"` // 0 to 1; 0 if the engine does not report it
}

// Transcript is the result of a transcription.
type Transcript struct {
	Text       string
	Language   string
	Model      string
	Confidence float64 // 0 to 1; 0 if the engine does not report it
	Words      []Word
}

// Engine transcribes recordings. It is safe for concurrent use.
type Engine interface {
	Info(ctx context.Context) Info
	// Transcribe transcribes a whole recording. Silence gives an empty text. CauseOf reports
	// whether and when a call that returned an error can be retried.
	Transcribe(ctx context.Context, a Audio, o Options) (Transcript, error)
}

// Cause is the reason why a transcription failed.
type Cause string

// Causes of failed transcriptions.
const (
	Failed    Cause = "failed"     // a retry may succeed
	Offline   Cause = "offline"    // the service can't be reached
	RateLimit Cause = "rate_limit" // the service asked for a pause
	Refused   Cause = "refused"    // the service would refuse a retry too: wrong key, no credit, or bad request
	Missing   Cause = "no_engine"  // the engine is not installed or has no key
)

// CauseOf returns the cause of an engine's error.
func CauseOf(err error) Cause {
	if d, ok := fault.As(err).Details.(details); ok {
		return d.Cause
	}
	return Failed
}

// details are the details of an error, which clients see too.
type details struct {
	Cause Cause `json:"cause"`
}

// DetailsOf returns error details from which CauseOf reads c.
func DetailsOf(c Cause) any { return details{c} }

func failure(c Cause, e *fault.Error) *fault.Error { return e.WithDetails(DetailsOf(c)) }

// language returns the language part of a language tag, in lower case.
func language(tag string) string {
	l, _, _ := strings.Cut(strings.ToLower(tag), "-")
	return l
}
