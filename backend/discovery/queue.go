package discovery

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// The states of a request.
const (
	requestPending   = "pending"
	requestSearching = "searching"
	requestFound     = "found"
	requestFailed    = "failed"
	requestRejected  = "rejected"
)

// Limits of the queue.
const (
	maxOpen     = 200 // requests of a user
	maxAttempts = 3
	lease       = time.Minute
	candidates  = 10
)

// RequestParams describe something that no tool can do yet.
type RequestParams struct {
	CapabilityDescription string     `json:"capabilityDescription"`
	RequestedBy           string     `json:"requestedBy,omitempty"` // user (default), planner, agent or skill
	SearchQuery           string     `json:"searchQuery,omitempty"` // default: the description
	RunID                 *uuid.UUID `json:"runId,omitempty"`
}

// RequestResult names a request.
type RequestResult struct {
	RequestID uuid.UUID `json:"requestId"`
	Status    string    `json:"status"`
}

// Request is a request for a capability. Its texts may come from outside.
type Request struct {
	RequestID             uuid.UUID   `json:"requestId"`
	CapabilityDescription string      `json:"capabilityDescription"`
	RequestedBy           string      `json:"requestedBy"`
	SearchQuery           string      `json:"searchQuery"`
	Status                string      `json:"status"` // pending, searching, found, failed or rejected
	Candidates            []Candidate `json:"candidates"`
	Selected              string      `json:"selected,omitempty"` // the candidate that was accepted
	ManifestID            *uuid.UUID  `json:"manifestId,omitempty"`
	Error                 string      `json:"error,omitempty"`
	CreatedAt             time.Time   `json:"createdAt"`
	FinishedAt            *time.Time  `json:"finishedAt,omitempty"`
}

// RequestChanged is the event discovery.request_changed.
type RequestChanged struct {
	RequestID uuid.UUID `json:"requestId"`
	Status    string    `json:"status"`
}

const requestColumns = `id, capability_description, requested_by, search_query, status, discovered_apis, selected_api, tool_manifest_id, error_message, created_at, finished_at`

func scanRequest(row storage.Row) (r Request, err error) {
	var manifest uuid.NullUUID
	err = row.Scan(&r.RequestID, &r.CapabilityDescription, &r.RequestedBy, &r.SearchQuery, &r.Status, storage.JSON(&r.Candidates), &r.Selected, &manifest, &r.Error, storage.Time(&r.CreatedAt), storage.TimePtr(&r.FinishedAt))
	if manifest.Valid {
		r.ManifestID = &manifest.UUID
	}
	return r, err
}

// Request adds a request for a capability to the queue; one for the same is not added twice. Nothing is
// imported until a person accepts a candidate.
func (s *Service) Request(ctx context.Context, p RequestParams) (out RequestResult, err error) {
	p.CapabilityDescription = clipText(strings.TrimSpace(p.CapabilityDescription), 2000)
	if p.RequestedBy == "" {
		p.RequestedBy = "user"
	}
	if p.SearchQuery == "" {
		p.SearchQuery = p.CapabilityDescription[:min(len(p.CapabilityDescription), 480)]
	}
	words := wordsOf(p.SearchQuery)
	switch {
	case len(words) == 0 || len(p.SearchQuery) > 500:
		return out, fault.InvalidField("capabilityDescription", fault.CodeRange, "Describe what is missing in a few words.")
	case !slices.Contains([]string{"user", "planner", "agent", "skill"}, p.RequestedBy):
		return out, fault.InvalidField("requestedBy", fault.CodeUnknownValue, "requestedBy must be user, planner, agent or skill.")
	}
	key := sha256.Sum256([]byte(strings.Join(words, " ")))
	user := identity.UserID(ctx)
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		err := tx.QueryRow(`SELECT id, status FROM tool_discovery_queue WHERE user_id = ? AND dedupe_key = ? AND finished_at IS NULL`, user, key).Scan(&out.RequestID, &out.Status)
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		var open int
		if err := tx.QueryRow(`SELECT count(*) FROM tool_discovery_queue WHERE user_id = ? AND finished_at IS NULL`, user).Scan(&open); err != nil {
			return err
		}
		if open >= maxOpen {
			return fault.Limitf("%d requests are open. Accept or reject some first.", maxOpen)
		}
		out = RequestResult{storage.NewID(), requestPending}
		if _, err := tx.Exec(`INSERT INTO tool_discovery_queue (id, user_id, capability_description, requested_by, search_query, status, dedupe_key, run_id, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)`,
			out.RequestID, user, p.CapabilityDescription, p.RequestedBy, p.SearchQuery, requestPending, key, p.RunID, tx.Now); err != nil {
			return err
		}
		s.announce(tx, user, RequestChanged(out))
		tx.AfterCommit(s.wakeWorker)
		return audit.Append(tx, audit.Entry{Action: "discovery.requested", SubjectKind: string(Kind), SubjectID: out.RequestID.String(), Details: map[string]any{"requestedBy": p.RequestedBy}})
	})
	return out, err
}

func (s *Service) wakeWorker() {
	select {
	case s.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// WorkQueue looks for candidates of the requests until ctx ends. What a former process left behind is done again. When
// there is nothing to do, lists on the web and samples that were read or tried long ago are read or tried again.
func (s *Service) WorkQueue(ctx context.Context) error {
	t := time.NewTicker(lease)
	defer t.Stop()
	for {
		for {
			more, err := s.workOne(ctx)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				s.log.Error("work on a request for a capability", "err", err)
			}
			if !more || err != nil {
				break
			}
		}
		s.refreshLists(ctx)
		if err := s.verifyOld(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("verify a tool again", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-t.C:
		}
	}
}

// workOne looks for candidates of the oldest request that nobody works on. more is false if there was none.
func (s *Service) workOne(ctx context.Context) (more bool, err error) {
	var r Request
	var user uuid.UUID
	var attempts int
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		err := tx.QueryRow(`SELECT id, user_id, search_query, attempts FROM tool_discovery_queue WHERE status IN ('pending', 'searching') AND (status = 'pending' OR lease_until < ?) ORDER BY created_at LIMIT 1`, tx.Now).
			Scan(&r.RequestID, &user, &r.SearchQuery, &attempts)
		if err != nil {
			return err
		}
		if _, err = tx.Exec(`UPDATE tool_discovery_queue SET status = ?, lease_until = ?, attempts = attempts + 1, updated_at = ? WHERE id = ?`, requestSearching, tx.Now.Add(lease), tx.Now, r.RequestID); err == nil {
			s.announce(tx, user, RequestChanged{r.RequestID, requestSearching})
		}
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	as := s.inBackground(ctx, user)
	found, err := s.Search(as, SearchParams{Query: r.SearchQuery, Limit: candidates})
	status, text := requestFound, ""
	switch {
	case err != nil && attempts+1 < maxAttempts:
		return true, err // again when the lease has ended
	case err != nil:
		status, text = requestFailed, fault.As(err).Message
	case len(found.Results) == 0:
		status, text = requestFailed, "No API of the directory fits. Import a description of one."
	}
	return true, s.db.Write(as, func(tx *storage.Tx) error {
		finished := any(nil)
		if status == requestFailed {
			finished = tx.Now
		}
		n, err := tx.Exec(`UPDATE tool_discovery_queue SET status = ?, discovered_apis = ?, error_message = ?, lease_until = NULL, finished_at = ?, updated_at = ? WHERE id = ? AND status = ?`,
			status, rawJSON(orEmpty(found.Results)), text, finished, tx.Now, r.RequestID, requestSearching)
		if err != nil {
			return err
		}
		if k, err := n.RowsAffected(); err != nil || k == 0 { // it was rejected meanwhile
			return err
		}
		s.announce(tx, user, RequestChanged{r.RequestID, status})
		return nil
	})
}

// inBackground returns the context of work for a user that nobody started.
func (s *Service) inBackground(ctx context.Context, user uuid.UUID) context.Context {
	return identity.With(ctx, identity.Identity{User: user, Scopes: identity.Read.Closed(), Client: identity.ClientProgram, Label: "discovery", Pipe: "background"})
}

// QueueParams filter requests.
type QueueParams struct {
	Status string `json:"status,omitempty"`
	Limit  int    `json:"limit,omitempty"` // 1..100, default 50
	Offset int    `json:"offset,omitempty"`
}

// QueueResult is one page of requests, the latest first.
type QueueResult struct {
	Requests []Request `json:"requests"`
	Total    int       `json:"total"`
}

// Queue lists the requests for capabilities.
func (s *Service) Queue(ctx context.Context, p QueueParams) (QueueResult, error) {
	out := QueueResult{Requests: []Request{}}
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 100); err != nil {
		return out, err
	}
	const where = ` FROM tool_discovery_queue WHERE user_id = ?1 AND (?2 = '' OR status = ?2)`
	return out, s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		user := identity.UserID(ctx)
		if err := tx.QueryRow(`SELECT count(*)`+where, user, p.Status).Scan(&out.Total); err != nil {
			return err
		}
		out.Requests, err = storage.Collect(tx.Select(`SELECT `+requestColumns+where+` ORDER BY created_at DESC, id DESC LIMIT ?3 OFFSET ?4`, user, p.Status, p.Limit, p.Offset), scanRequest)
		return err
	})
}

// RequestIDParams name a request.
type RequestIDParams struct {
	RequestID uuid.UUID `json:"requestId"`
}

// QueueGet returns a request with its candidates.
func (s *Service) QueueGet(ctx context.Context, p RequestIDParams) (r Request, err error) {
	return storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (Request, error) { return loadRequest(tx, p.RequestID) })
}

func loadRequest(tx *storage.Tx, id uuid.UUID) (Request, error) {
	r, err := scanRequest(tx.QueryRow(`SELECT `+requestColumns+` FROM tool_discovery_queue WHERE id = ? AND user_id = ?`, id, identity.UserID(tx.Context())))
	if errors.Is(err, sql.ErrNoRows) {
		return r, fault.NotFoundf("Request not found.")
	}
	return r, err
}

// AcceptParams choose a candidate of a request.
type AcceptParams struct {
	RequestID  uuid.UUID         `json:"requestId"`
	Ref        string            `json:"ref"`                  // of the candidate
	Operations []string          `json:"operations,omitempty"` // keys; default: all, if there are few
	Name       string            `json:"name,omitempty"`       // of the tool; default: that of the candidate
	Server     string            `json:"server,omitempty"`     // as in discovery.import_openapi
	Variables  map[string]string `json:"serverVariables,omitempty"`
}

// AcceptResult is the tool that was made, or that was there already. It waits for approval.
type AcceptResult struct {
	ManifestID uuid.UUID `json:"manifestId"`
	Status     string    `json:"status"`
}

// fewOperations is how many operations an accepted candidate may have without a choice.
const fewOperations = 20

// Accept imports the candidate that a person chose. Like every import, it gives no permission.
func (s *Service) Accept(ctx context.Context, p AcceptParams) (AcceptResult, error) {
	r, err := s.QueueGet(ctx, RequestIDParams{p.RequestID})
	if err != nil {
		return AcceptResult{}, err
	}
	if r.Status != requestFound || r.FinishedAt != nil {
		return AcceptResult{}, fault.Conflictf("This request has no open candidates.")
	}
	if !slices.ContainsFunc(r.Candidates, func(c Candidate) bool { return c.Ref == p.Ref }) {
		return AcceptResult{}, fault.InvalidField("ref", fault.CodeUnknownValue, "%.100q is no candidate of this request.", p.Ref)
	}
	out, err := s.take(ctx, p)
	if err != nil {
		return AcceptResult{}, err
	}
	return out, s.db.Write(ctx, func(tx *storage.Tx) error {
		if _, err := tx.Exec(`UPDATE tool_discovery_queue SET selected_api = ?, tool_manifest_id = ?, finished_at = ?, updated_at = ? WHERE id = ? AND user_id = ?`, p.Ref, out.ManifestID, tx.Now, tx.Now, p.RequestID, identity.UserID(ctx)); err != nil {
			return err
		}
		s.announce(tx, identity.UserID(ctx), RequestChanged{p.RequestID, requestFound})
		return nil
	})
}

// take imports a candidate.
func (s *Service) take(ctx context.Context, p AcceptParams) (AcceptResult, error) {
	source, name, _ := strings.Cut(p.Ref, ":")
	if source == sourceImported {
		id, err := uuid.Parse(name)
		if err != nil {
			return AcceptResult{}, errNoTool()
		}
		t, err := s.load(ctx, id)
		if err != nil {
			return AcceptResult{}, err
		}
		return AcceptResult{t.ID, t.Status}, nil
	}
	var e entry
	var err error
	if source == sourceDirectory {
		if e, _, err = s.inCatalog(ctx, p.Ref); err == nil && e.Manifest {
			made, err := s.ImportManifest(ctx, ImportManifestParams{URL: p.Ref, DryRun: new(false), as: p.Name})
			if err != nil {
				return AcceptResult{}, err
			}
			return AcceptResult{*made.ManifestID, made.Status}, nil
		}
		e.Name = slug(e.Name)
	} else {
		e, err = entryNamed(name)
	}
	if err != nil {
		return AcceptResult{}, err
	}
	x, err := s.InspectOpenAPI(ctx, InspectParams{URL: p.Ref})
	if err != nil {
		return AcceptResult{}, err
	}
	keys := p.Operations
	if len(keys) == 0 {
		if x.Counts.Operations > fewOperations {
			return AcceptResult{}, fault.InvalidField("operations", fault.CodeMissing, "%s has %d operations. Choose those that the tool should have.", e.Title, x.Counts.Operations)
		}
		ops, err := s.Operations(ctx, OperationsParams{SpecID: x.SpecID, Limit: 100})
		if err != nil {
			return AcceptResult{}, err
		}
		for _, o := range ops.Operations {
			keys = append(keys, o.Key)
		}
	}
	if p.Name == "" {
		p.Name = e.Name
	}
	made, err := s.ImportOpenAPI(ctx, ImportOpenAPIParams{SpecID: x.SpecID, Operations: keys, Name: p.Name, Server: p.Server, Variables: p.Variables})
	if err != nil {
		return AcceptResult{}, err
	}
	return AcceptResult{*made.ManifestID, made.Status}, nil
}

// RejectParams end a request.
type RejectParams struct {
	RequestID uuid.UUID `json:"requestId"`
	Reason    string    `json:"reason,omitempty"`
}

// Reject ends a request without a tool.
func (s *Service) Reject(ctx context.Context, p RejectParams) (RequestResult, error) {
	return RequestResult{p.RequestID, requestRejected}, s.db.Write(ctx, func(tx *storage.Tx) error {
		r, err := loadRequest(tx, p.RequestID)
		if err != nil {
			return err
		}
		if r.FinishedAt != nil {
			return fault.Conflictf("This request has already ended.")
		}
		if _, err := tx.Exec(`UPDATE tool_discovery_queue SET status = ?, error_message = ?, lease_until = NULL, finished_at = ?, updated_at = ? WHERE id = ?`, requestRejected, clipText(p.Reason, 500), tx.Now, tx.Now, p.RequestID); err != nil {
			return err
		}
		s.announce(tx, identity.UserID(ctx), RequestChanged{p.RequestID, requestRejected})
		return nil
	})
}
