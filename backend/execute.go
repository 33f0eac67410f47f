package backend

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/sandbox"
	"helix/backend/tools"
)

// executeBody is the maximum size in bytes of the body of POST /execute.
const executeBody = 4 << 20

// executeAnswer is the body of every response of POST /execute itself; requests that are refused
// before, for example because of a wrong token, get the common form of the gateway.
type executeAnswer struct {
	Success    bool            `json:"success"`
	Output     json.RawMessage `json:"output,omitempty"`
	Error      string          `json:"error,omitempty"`
	ErrorClass string          `json:"error_class,omitempty"`
}

// serveExecute handles POST /execute: {"skill_id": uuid, "input": any} runs a WASM tool of the
// token's user. If the client disconnects, the run is canceled.
func (b *Backend) serveExecute(w http.ResponseWriter, r *http.Request) error {
	status, a := b.execute(w, r)
	body, err := json.Marshal(a)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(body, '\n')) //nolint:errcheck // the client has gone
	return nil
}

func (b *Backend) execute(w http.ResponseWriter, r *http.Request) (int, executeAnswer) {
	refuse := func(status int, class, message string) (int, executeAnswer) {
		return status, executeAnswer{Error: message, ErrorClass: class}
	}
	if err := b.gate("skills.execute"); err != nil {
		return refuse(http.StatusServiceUnavailable, "unavailable", fault.As(err).Message)
	}
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Minute)) //nolint:errcheck // only a real connection has one
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, executeBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return refuse(http.StatusRequestEntityTooLarge, "input", "The body has more than 4 MiB.")
	case err != nil:
		return refuse(http.StatusBadRequest, "input", "The body did not arrive.")
	}
	http.NewResponseController(w).SetReadDeadline(time.Time{}) //nolint:errcheck // as above; from here on only the end of the connection counts
	p, err := readExecute(body)
	if err != nil {
		return refuse(http.StatusBadRequest, "input", err.Error())
	}
	res, err := b.Tools.ExecuteSkill(r.Context(), p)
	if err != nil {
		f := fault.As(err)
		if f.Kind == fault.Internal {
			b.log.Error("POST /execute failed", "error", err)
		}
		return refuse(executeStatus(err), executeClass(err), f.Message)
	}
	if !res.Success {
		return http.StatusInternalServerError, executeAnswer{Error: res.Error, ErrorClass: res.ErrorClass}
	}
	return http.StatusOK, executeAnswer{Success: true, Output: res.Output}
}

// readExecute decodes the body strictly: one JSON object with the two known members.
func readExecute(body []byte) (p tools.ExecuteSkillParams, err error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil || members == nil {
		return p, errors.New(`expected {"skill_id": "…", "input": …}`)
	}
	for name, v := range members {
		switch name {
		case "skill_id":
			var text string
			if json.Unmarshal(v, &text) == nil {
				p.SkillID, err = uuid.Parse(text)
			}
			if err != nil || len(text) != 36 {
				return p, errors.New("skill_id must be the id of a skill")
			}
		case "input":
			p.Input = v
		default:
			return p, errors.New("the only members are skill_id and input")
		}
	}
	if p.SkillID == uuid.Nil {
		return p, errors.New("skill_id is missing")
	}
	return p, nil
}

// executeStatus returns the HTTP status of a call that produced no result.
func executeStatus(err error) int {
	var e *sandbox.Error
	var d sandbox.LimitDetail
	if errors.As(err, &e) {
		d, _ = e.Details.(sandbox.LimitDetail)
	}
	switch fault.As(err).Kind {
	case fault.Invalid:
		return http.StatusBadRequest
	case fault.Denied:
		return http.StatusForbidden
	case fault.NotFound:
		return http.StatusNotFound
	case fault.Limit:
		return http.StatusTooManyRequests
	case fault.Unavailable:
		if d.Limit == sandbox.LimitQueue {
			return http.StatusTooManyRequests
		}
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// executeClass returns why a skill did not start, as an error class of runs where one fits.
func executeClass(err error) string {
	switch k := fault.As(err).Kind; k {
	case fault.Invalid:
		return string(sandbox.ClassInput)
	case fault.Denied:
		return string(sandbox.ClassHostDenied)
	default:
		return string(k)
	}
}
