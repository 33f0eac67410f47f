// Package transcribe turns speech into text with words and their times. Each engine stands behind the
// same interface: a program on this computer, or a service. It keeps no state and owns no tables.
package transcribe

import (
	"context"
	"strings"
	"time"

	"helix/backend/audio"
	"helix/backend/fault"
)

// Info describes an engine, and whether it can be used now.
type Info struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Local     bool     `json:"local"` // the audio stays on this device
	Streaming bool     `json:"streaming"`
	WordTimes bool     `json:"wordTimes"`
	Languages []string `json:"languages"` // empty: the service decides
	Models    []string `json:"models"`
	Available bool     `json:"available"`
	Reason    string   `json:"reason,omitempty"` // why it is not available, and what to do
}

// Audio is a recording as engines get it: a WAV file of 16 kHz, one channel and 16 bits.
type Audio struct {
	Path     string
	Duration time.Duration
	Speech   []audio.Span // where somebody speaks
}

// Options choose how a recording is read. Empty fields leave it to the engine.
type Options struct {
	Language string // BCP 47, such as en-US
	Model    string
}

// Word is a word with its place in the recording.
type Word struct {
	Text       string  `json:"w"`
	StartMs    int64   `json:"startMs"`
	EndMs      int64   `json:"endMs"`
	Confidence float64 `json:"confidence,omitempty"` // 0 to 1; 0: the engine gives none
}

// Transcript is what an engine has heard.
type Transcript struct {
	Text       string
	Language   string
	Model      string
	Confidence float64 // 0 to 1; 0: the engine gives none
	Words      []Word
}

// Engine transcribes recordings. It is safe for concurrent use.
type Engine interface {
	Info(ctx context.Context) Info
	// Transcribe reads a whole recording. Silence gives an empty text. Its errors are coded; Cause
	// tells whether and when to try again.
	Transcribe(ctx context.Context, a Audio, o Options) (Transcript, error)
}

// Cause is why a transcription failed.
type Cause string

// The causes.
const (
	Failed    Cause = "failed"     // it may work another time
	Offline   Cause = "offline"    // the service can't be reached
	RateLimit Cause = "rate_limit" // the service wants a pause
	Refused   Cause = "refused"    // the service will refuse it again: a wrong key, no credit, a bad request
	Missing   Cause = "no_engine"  // the engine is not installed, or has no key
)

// CauseOf reads the cause of an error of an engine.
func CauseOf(err error) Cause {
	if d, ok := fault.As(err).Details.(details); ok {
		return d.Cause
	}
	return Failed
}

// details travel with errors to clients too.
type details struct {
	Cause Cause `json:"cause"`
}

// DetailsOf are the details of an error from which CauseOf reads c.
func DetailsOf(c Cause) any { return details{c} }

func failure(c Cause, e *fault.Error) *fault.Error { return e.WithDetails(DetailsOf(c)) }

// language is the part of a language tag before the region, in lower case.
func language(tag string) string {
	l, _, _ := strings.Cut(strings.ToLower(tag), "-")
	return l
}
