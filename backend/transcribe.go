package backend

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/transcribe"
	"helix/backend/voice"
)

const (
	transcribeWait  = 30 * time.Second // until the answer says that the transcript follows
	transcribeBody  = 201 << 20        // bytes of a request: the largest recording with its form
	transcribeField = 4 << 10          // bytes of a field of a form
	transcribeIdle  = time.Minute      // longest pause of a sender
)

// transcribeAnswer is the body of every answer of POST /transcribe that the address itself gives; what is
// refused before, such as a wrong token, has the common form of the gateway.
type transcribeAnswer struct {
	Success     bool              `json:"success"`
	Transcript  *string           `json:"transcript,omitempty"`
	Error       string            `json:"error,omitempty"`
	RecordingID *uuid.UUID        `json:"recordingId,omitempty"`
	Status      string            `json:"status,omitempty"`
	Confidence  float64           `json:"confidence,omitempty"`
	DurationMs  int64             `json:"durationMs,omitempty"`
	Words       []transcribe.Word `json:"words,omitempty"`
}

// serveTranscribe answers POST /transcribe: a recording, as the body or as the part audio of a form, is
// stored as a memo of the token's user and transcribed. When that takes longer than the wait, the answer
// is 202 and the transcript follows.
func (b *Backend) serveTranscribe(w http.ResponseWriter, r *http.Request) error {
	status, a := b.transcribe(w, r)
	body, err := json.Marshal(a)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "10")
	}
	w.WriteHeader(status)
	w.Write(append(body, '\n')) //nolint:errcheck // the client has gone
	return nil
}

func (b *Backend) transcribe(w http.ResponseWriter, r *http.Request) (int, transcribeAnswer) {
	refuse := func(status int, err error) (int, transcribeAnswer) {
		if fault.Is(err, fault.Internal) {
			b.log.Error("POST /transcribe failed", "error", err)
		}
		return status, transcribeAnswer{Error: fault.As(err).Message}
	}
	if err := b.gate("voice.process"); err != nil {
		return refuse(http.StatusServiceUnavailable, err)
	}
	if r.ContentLength > transcribeBody {
		return refuse(http.StatusRequestEntityTooLarge, fault.Limitf("The recording is larger than 200 MiB."))
	}
	q := r.URL.Query()
	p := voice.UploadParams{Title: q.Get("title"), Language: q.Get("language"), Engine: q.Get("engine")}
	user := q.Get("user_id")
	body := io.Reader(&arriving{http.MaxBytesReader(w, r.Body, transcribeBody), http.NewResponseController(w)})
	if kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); strings.HasPrefix(kind, "multipart/") {
		var err error
		if body, err = formAudio(body, params["boundary"], &p, &user); err != nil {
			return refuse(http.StatusBadRequest, err)
		}
	}
	if user != "" && user != identity.UserID(r.Context()).String() {
		return refuse(http.StatusForbidden, fault.Deniedf("user_id is not the user of this token."))
	}
	wait := transcribeWait
	if q.Get("wait") == "0" {
		wait = 0
	}
	// The upload itself may take longer than the wait for its transcript.
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var timer *time.Timer
	res, err := b.Voice.Keep(ctx, body, p, func(voice.UploadResult) { timer = time.AfterFunc(wait, cancel) })
	if timer != nil {
		timer.Stop()
	}
	if err != nil {
		return refuse(notStored(err), err)
	}
	a := transcribeAnswer{RecordingID: res.RecordingID, Status: res.Status, Error: res.Error, DurationMs: res.DurationMs}
	switch {
	case res.Success:
		a.Success, a.Transcript, a.Confidence, a.Words = true, &res.Transcript, res.Confidence, res.Words
		return http.StatusOK, a
	case res.Status == "pending":
		a.Success = true // it is stored
		return http.StatusAccepted, a
	case res.ErrorKind == string(fault.Unavailable):
		return http.StatusUnsupportedMediaType, a
	case res.ErrorKind == string(fault.Invalid) || res.ErrorKind == string(fault.Limit):
		return http.StatusUnprocessableEntity, a
	}
	a.Success = true // it is stored, and the person can have it transcribed again
	return http.StatusAccepted, a
}

// notStored returns the status for a recording that was not stored.
func notStored(err error) int {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large) || errors.Is(err, voice.ErrTooLarge):
		return http.StatusRequestEntityTooLarge
	case fault.Is(err, fault.Invalid):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError // such as a full disk
}

var errCutOff = fault.Invalidf("The recording did not arrive completely.")

// arriving ends a request whose sender pauses for too long.
type arriving struct {
	r io.Reader
	c *http.ResponseController
}

func (a *arriving) Read(p []byte) (int, error) {
	a.c.SetReadDeadline(time.Now().Add(transcribeIdle)) //nolint:errcheck // only a real connection has one
	n, err := a.r.Read(p)
	var large *http.MaxBytesError
	switch {
	case err == nil:
		return n, nil
	case !errors.Is(err, io.EOF) && !errors.As(err, &large):
		err = errCutOff
	}
	a.c.SetReadDeadline(time.Time{}) //nolint:errcheck // as above
	return n, err
}

// formAudio reads the fields of a form up to its part audio, and returns that part.
func formAudio(body io.Reader, boundary string, p *voice.UploadParams, user *string) (io.Reader, error) {
	if boundary == "" {
		return nil, fault.Invalidf("The form has no boundary.")
	}
	form := multipart.NewReader(body, boundary)
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return nil, fault.Invalidf("The form has no part named audio.")
		}
		if err != nil {
			return nil, fault.Invalidf("The form is malformed.").WithCause(err)
		}
		field := map[string]*string{"user_id": user, "language": &p.Language, "engine": &p.Engine, "title": &p.Title}[part.FormName()]
		switch {
		case part.FormName() == "audio":
			return formPart{part, form}, nil
		case field == nil:
			return nil, fault.Invalidf("The form has an unknown part %.40q. Before audio there may be user_id, language, engine and title.", part.FormName())
		}
		text, err := io.ReadAll(io.LimitReader(part, transcribeField+1))
		if err != nil || len(text) > transcribeField {
			return nil, fault.Invalidf("The part %.40q is malformed or too long.", part.FormName())
		}
		*field = string(text)
	}
}

// formPart is the last part of a form, which must be whole.
type formPart struct {
	r    io.Reader
	form *multipart.Reader
}

func (f formPart) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return n, errCutOff
	}
	if errors.Is(err, io.EOF) {
		// A field that was ignored might have been the user_id of somebody else.
		if next, more := f.form.NextPart(); more == nil {
			return n, fault.Invalidf("The part %.40q follows the part audio, which must be the last one.", next.FormName())
		}
	}
	return n, err
}
