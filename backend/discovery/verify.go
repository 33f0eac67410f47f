package discovery

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/storage"
)

// The states of the installation of a tool on this device. A tool runs only if it is ready.
const (
	installNone       = "none"
	installInstalling = "installing"
	installReady      = "ready"
	installFailed     = "failed"
)

// CallerVerify is the kind of the caller that tries the samples of a tool.
const CallerVerify = "verify"

// Verification is what the samples of a tool showed on this device.
type Verification struct {
	// State is passed, failed, or not_verifiable: the tool has no samples that could be tried.
	State   string         `json:"state"`
	At      time.Time      `json:"at"`
	Samples []SampleResult `json:"samples"`
	Error   string         `json:"error,omitempty"`
}

// JobResult names background work, whose progress is announced by discovery.job.
type JobResult struct {
	JobID uuid.UUID `json:"jobId"`
}

// JobChanged is the event discovery.job: an installation or verification got on.
type JobChanged struct {
	JobID      uuid.UUID `json:"jobId"`
	ManifestID uuid.UUID `json:"manifestId"`
	Step       string    `json:"step"` // the operation that is tried, or done
	Done       int       `json:"done"`
	Total      int       `json:"total"`
	Message    string    `json:"message,omitempty"` // why it failed
}

// VerifyParams name a tool whose samples are tried.
type VerifyParams struct {
	ManifestID uuid.UUID `json:"manifestId"`
	Effects    bool      `json:"sideEffects,omitempty"` // also try samples that change something
}

// Install installs an approved tool on this device: it tries the samples that change nothing, and the tool
// becomes active if they pass. A tool that is installed already is tried again.
func (s *Service) Install(ctx context.Context, p ToolParams) (JobResult, error) {
	return s.Verify(ctx, VerifyParams{ManifestID: p.ManifestID})
}

// Verify tries the samples of a tool under its permissions and limits. If one fails, the tool can't run on
// this device until they pass. A sample that changes something is tried only with sideEffects.
func (s *Service) Verify(ctx context.Context, p VerifyParams) (out JobResult, err error) {
	id, _ := identity.From(ctx)
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		t, err := loadTool(tx, p.ManifestID)
		if err != nil {
			return err
		}
		if t.Status != StatusApproved && t.Status != StatusActive {
			return fault.Conflictf("The tool %s is %s. Only an approved tool can be verified.", t.Name, words(t.Status))
		}
		if t.InstallState == installInstalling {
			return fault.Conflictf("The tool %s is being verified already.", t.Name)
		}
		out.JobID, err = s.beginVerify(tx, t, id, p.Effects)
		return err
	})
	return out, err
}

// beginVerify records that a tool is being installed, and starts that after the transaction.
func (s *Service) beginVerify(tx *storage.Tx, t *Tool, by identity.Identity, effects bool) (uuid.UUID, error) {
	job := storage.NewID()
	if err := saveInstall(tx, t, installInstalling, nil, ""); err != nil {
		return job, err
	}
	t.InstallState = installInstalling
	tx.AfterCommit(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ctx.Err() != nil {
			return // the next start of Helix says so
		}
		s.jobs.Add(1)
		go func() {
			defer s.jobs.Done()
			s.verify(identity.With(s.ctx, by), job, t, effects)
		}()
	})
	return job, nil
}

// verifiedFor is how long samples that passed count.
const verifiedFor = 30 * 24 * time.Hour

// verifyOld tries the samples of one tool again whose verification is the oldest and older than verifiedFor, at most once
// an hour and only while no tool runs. Only what changes nothing is tried. The tool can be used meanwhile, and a server
// that doesn't answer proves nothing.
func (s *Service) verifyOld(ctx context.Context) error {
	s.mu.Lock()
	due := len(s.users) == 0 && time.Now().After(s.nextVerify)
	s.mu.Unlock()
	if !due {
		return nil
	}
	var t *Tool
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		var tool, user uuid.UUID
		err := tx.QueryRow(`SELECT t.id, t.user_id`+fromTools+`WHERE i.state = 'ready' AND `+statusHere+` = 'active' AND i.verified_at < ? ORDER BY i.verified_at LIMIT 1`, tx.Now.Add(-verifiedFor)).Scan(&tool, &user)
		if err != nil {
			return err
		}
		ctx = s.inBackground(ctx, user)
		t, err = scanTool(tx.QueryRow(`SELECT `+toolColumns+fromTools+`WHERE t.id = ? AND t.user_id = ?`, tool, user))
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.nextVerify = time.Now().Add(time.Hour)
	s.mu.Unlock()
	t.again = true
	s.verify(ctx, storage.NewID(), t, false)
	return nil
}

// approve records that a person approved the current definition of a tool on this device. It is ready if it
// has no samples.
func (t *Tool) approve(tx *storage.Tx) error {
	state, active := installNone, len(t.manifest.Samples) == 0
	if active {
		state = installReady
	}
	_, err := tx.Exec(`INSERT INTO tool_install (tool_id, definition_hash, user_id, approved_at, active, state, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?4)
		ON CONFLICT (tool_id, definition_hash) DO UPDATE SET approved_at = excluded.approved_at, active = excluded.active, state = excluded.state, verified_at = NULL, verify_result = '[]', error = '', updated_at = excluded.updated_at`,
		t.ID, t.hash, t.user, tx.Now, active, state)
	return err
}

// saveInstall stores the installation of the current definition of a tool, which was approved.
func saveInstall(tx *storage.Tx, t *Tool, state string, v *Verification, problem string) error {
	samples, at := json.RawMessage("[]"), any(nil)
	if v != nil {
		samples, at = rawJSON(v.Samples), v.At
	}
	_, err := tx.Exec(`UPDATE tool_install SET state = ?1, active = active OR ?1 = 'ready', verified_at = ?2, verify_result = ?3, error = ?4, updated_at = ?5 WHERE tool_id = ?6 AND definition_hash = ?7`,
		state, at, samples, problem, tx.Now, t.ID, t.hash)
	return err
}

// verify tries the samples and records the result.
func (s *Service) verify(ctx context.Context, job uuid.UUID, t *Tool, effects bool) {
	tried := *t
	tried.verifying = true
	v := Verification{Samples: []SampleResult{}}
	var problem error
	for i, x := range t.manifest.Samples {
		s.publish(t.user, JobChanged{job, t.ID, x.Capability, i, len(t.manifest.Samples), ""})
		r := SampleResult{Capability: x.Capability, Result: "skipped", Reason: "it changes something"}
		if c, _ := t.manifest.capability(x.Capability); tierOf(c.Tier) == permission.ReadOnly || effects {
			r.Result, r.Reason = "pass", ""
			why, err := s.try(ctx, &tried, x)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				if k := fault.As(err).Kind; t.again && (k == fault.Unavailable || k == fault.Timeout || k == fault.Limit) {
					return
				}
				why = fault.As(err).Message
			}
			if why != "" {
				r.Result, r.Reason = "fail", why
			}
		}
		v.Samples = append(v.Samples, r)
	}
	if len(t.manifest.Samples) == 0 { // what can be checked without a request
		_, problem = s.open(ctx, t)
	}
	v.State = stateOf(v.Samples, problem != nil)
	state, text := installReady, ""
	if v.State == verifyFailed {
		state, text = installFailed, "A sample failed."
		if problem != nil {
			text = fault.As(problem).Message
		}
	}
	if err := s.endVerify(ctx, t, state, &v, text); err != nil {
		s.log.Error("record a verification", "tool", t.Name, "error", err)
	}
	s.publish(t.user, JobChanged{job, t.ID, "done", len(t.manifest.Samples), len(t.manifest.Samples), text})
}

// endVerify records the result of a verification, unless the tool has changed meanwhile.
func (s *Service) endVerify(ctx context.Context, t *Tool, state string, v *Verification, problem string) error {
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		now, err := loadTool(tx, t.ID)
		if err != nil {
			return err
		}
		if now.hash != t.hash || now.Status == StatusRevoked || now.Status == StatusPending {
			return nil
		}
		v.At = tx.Now
		if err := saveInstall(tx, t, state, v, problem); err != nil {
			return err
		}
		if state == installReady && now.Status == StatusApproved {
			if now.shared == StatusApproved {
				if err := now.setSharedStatus(tx, StatusActive); err != nil {
					return err
				}
			}
			now.Status = StatusActive
		}
		s.announce(tx, t.user, Changed{t.ID, now.Status})
		outcome := audit.OK
		if state != installReady {
			outcome = audit.Failed
		}
		return audit.Append(tx, audit.Entry{Action: "tool.verified", SubjectKind: string(Kind), SubjectID: t.ID.String(), Outcome: outcome, Details: map[string]any{"name": t.Name, "result": v.State}})
	})
}

// The states of a verification.
const (
	verifyPassed  = "passed"
	verifyFailed  = "failed"
	notVerifiable = "not_verifiable"
)

// stateOf summarizes the results of samples.
func stateOf(list []SampleResult, failed bool) string {
	has := func(result string) bool {
		return slices.ContainsFunc(list, func(r SampleResult) bool { return r.Result == result })
	}
	switch {
	case failed || has("fail"):
		return verifyFailed
	case has("pass"):
		return verifyPassed
	}
	return notVerifiable
}

// try calls an operation as a sample says. why is not empty if the result isn't the expected one.
func (s *Service) try(ctx context.Context, t *Tool, x Sample) (why string, err error) {
	r, err := s.run(ctx, t, x.Capability, callable.Request{Input: x.Params, Caller: callable.Caller{Kind: CallerVerify}})
	if err != nil {
		return "", err
	}
	var result struct {
		Status int
		Body   json.RawMessage
	}
	if err := json.Unmarshal(r.Output, &result); err != nil {
		return "", err
	}
	if result.Status >= 500 || result.Status == http.StatusTooManyRequests {
		return "", fault.Unavailablef("%s", r.Error)
	}
	if !r.Success {
		return r.Error, nil
	}
	return x.Expect.check(ctx, result.Body)
}

// verification returns the last result of the samples of the current definition; nil: it wasn't tried.
func verification(tx *storage.Tx, t *Tool) (*Verification, error) {
	v := Verification{Samples: []SampleResult{}}
	var at *time.Time
	var state string
	err := tx.QueryRow(`SELECT state, verified_at, verify_result, error FROM tool_install WHERE tool_id = ? AND definition_hash = ?`, t.ID, t.hash).Scan(&state, storage.TimePtr(&at), storage.JSON(&v.Samples), &v.Error)
	if errors.Is(err, sql.ErrNoRows) || err == nil && at == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v.At, v.State = *at, stateOf(v.Samples, state == installFailed)
	return &v, nil
}

// recoverInstalls ends the verifications that were in progress when the last process ended.
func (s *Service) recoverInstalls(tx *storage.Tx) error {
	_, err := tx.Exec(`UPDATE tool_install SET state = 'failed', error = 'Helix was stopped during the verification.', verified_at = ?, updated_at = ? WHERE state = 'installing' AND updated_at < ?`, tx.Now, tx.Now, s.began)
	return err
}
