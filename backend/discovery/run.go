package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/callable"
	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/jcs"
	"helix/backend/openapi"
	"helix/backend/permission"
	"helix/backend/safehttp"
	"helix/backend/schema"
	"helix/backend/storage"
)

// RunParams run one operation of a tool.
type RunParams struct {
	ManifestID *uuid.UUID      `json:"manifestId,omitempty"`
	Name       string          `json:"name,omitempty"` // of the tool, instead of manifestId
	Operation  string          `json:"operation"`      // its name in the tool, or its method and path
	Params     json.RawMessage `json:"params,omitempty"`
	TimeoutMs  int64           `json:"timeoutMs,omitempty"`
	DryRun     bool            `json:"dryRun,omitempty"`         // only build the request
	Key        string          `json:"idempotencyKey,omitempty"` // sent if the operation takes one
	MaxPages   int             `json:"maxPages,omitempty"`       // 1 (the default) to 20: how many pages of a list to get
}

// RunResult is the result of a run.
type RunResult struct {
	Success     bool            `json:"success"`
	Output      json.RawMessage `json:"output"` // status, ok, headers and body
	Error       string          `json:"error,omitempty"`
	ErrorClass  string          `json:"errorClass,omitempty"`
	ExecutionID *uuid.UUID      `json:"executionId,omitempty"` // absent: a dry run
	Status      string          `json:"status"`
	DurationMs  int64           `json:"durationMs"`
	Warnings    []string        `json:"warnings"`
	// Pages are the outputs of the pages after the first; each is a run of its own in the log.
	Pages    []json.RawMessage `json:"pages,omitempty"`
	NextPage json.RawMessage   `json:"nextPage,omitempty"` // params of the next page
	Request  *RequestView      `json:"request,omitempty"`  // of a dry run
}

// RequestView is a request as shown to people: credentials are masked.
type RequestView struct {
	Method string              `json:"method"`
	URL    string              `json:"url"`
	Header map[string][]string `json:"header"`
	Body   string              `json:"body,omitempty"`
}

// loaded is the kept part of a tool's description, ready for calls.
type loaded struct {
	manifest Manifest // that has the hash
	doc      *openapi.Document
	plans    map[string]*openapi.Plan // by the name of the operation
	wants    []permission.Want
	document json.RawMessage // that an approval shows
	bytes    int64
}

type loadedKey struct {
	id   uuid.UUID
	hash [32]byte
}

// open returns the operations of a tool. The stored definition must have the stored hash.
func (s *Service) open(_ context.Context, t *Tool) (*loaded, error) {
	key := loadedKey{t.ID, t.hash}
	if l, ok := s.loaded.Get(key); ok && reflect.DeepEqual(&l.manifest, &t.manifest) {
		return l, nil
	}
	if err := t.checkIntact(); err != nil {
		return nil, err
	}
	raw, err := s.blob(t.manifest.Execution.OpenAPI)
	if err != nil {
		return nil, err
	}
	d, err := openapi.Parse(raw, t.SourceLocation)
	if err != nil {
		return nil, err
	}
	l := &loaded{manifest: t.manifest, doc: d, plans: map[string]*openapi.Plan{}, bytes: int64(len(raw)) * 10}
	for _, c := range t.manifest.Capabilities {
		if l.plans[c.Name], err = d.Plan(c.Operation); err != nil {
			return nil, err
		}
	}
	if l.wants, err = t.manifest.wants(); err != nil {
		return nil, err
	}
	if l.document, err = t.manifest.document(); err != nil {
		return nil, err
	}
	s.loaded.Put(key, l)
	return l, nil
}

// Run runs one operation of a tool and returns when it has ended. A status of 400 or above is a
// result without success. With dryRun it builds the request and sends nothing.
func (s *Service) Run(ctx context.Context, p RunParams) (RunResult, error) {
	if (p.ManifestID == nil) == (p.Name == "") || p.TimeoutMs < 0 || len(p.Key) > 128 || p.MaxPages < 0 || p.MaxPages > maxPages {
		return RunResult{}, fault.Invalidf("Provide either manifestId or name, a time limit above 0, a key of at most 128 bytes, and at most %d pages.", maxPages)
	}
	var t *Tool
	err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if p.ManifestID != nil {
			t, err = loadTool(tx, *p.ManifestID)
		} else if t, err = toolNamed(tx, p.Name); err == nil && t == nil {
			err = errNoTool()
		}
		return err
	})
	if err != nil {
		return RunResult{}, err
	}
	name := p.Operation
	if i := slices.IndexFunc(t.manifest.Capabilities, func(c Capability) bool { return c.Operation == p.Operation }); i >= 0 {
		name = t.manifest.Capabilities[i].Name
	}
	r := callable.Request{Input: p.Params, Key: p.Key, Timeout: duration.Of(min(p.TimeoutMs, 600_000), time.Millisecond), Caller: callable.Caller{Attended: true}}
	if p.DryRun {
		return s.dryRun(ctx, t, name, r)
	}
	out, err := s.run(ctx, t, name, r)
	for size := len(out.Output); err == nil && len(out.Pages)+1 < p.MaxPages && out.NextPage != nil && size < openapi.MaxReturned; {
		r.Input, r.Key = out.NextPage, ""
		page, perr := s.run(ctx, t, name, r)
		if perr != nil {
			page.Error = fault.As(perr).Message
		}
		if !page.Success { // what was read is kept, and nextPage tries again
			out.Warnings = append(out.Warnings, fmt.Sprintf("Couldn't get page %d: %s", len(out.Pages)+2, page.Error))
			break
		}
		size += len(page.Output)
		out.Pages, out.NextPage = append(out.Pages, page.Output), page.NextPage
		out.DurationMs, out.Warnings = out.DurationMs+page.DurationMs, append(out.Warnings, page.Warnings...)
	}
	return out, err
}

// maxPages is how many pages one call may get. It stops earlier when their outputs exceed openapi.MaxReturned.
const maxPages = 20

// job is a run in progress.
type job struct {
	id      uuid.UUID
	tool    *Tool
	op      Capability
	l       *loaded
	plan    *openapi.Plan
	input   json.RawMessage
	call    *callable.Request
	request *openapi.Request
	began   time.Time
	dry     bool // nothing is sent
	// recorded means that the log has the run. The row and the audit entry of the first request share a commit.
	recorded bool
	scheme   string // whose token of OAuth is in the request; "": none
	token    string
	notes    []string // warnings about the result
}

// prepare carries out every check that needs neither a permission nor the network.
func (s *Service) prepare(ctx context.Context, t *Tool, operation string, r *callable.Request) (*job, error) {
	j := &job{id: storage.NewID(), tool: t, call: r, began: time.Now(), input: r.Input}
	if len(j.input) == 0 {
		j.input = json.RawMessage(`{}`)
	}
	if r.Hash != "" && r.Hash != t.DefinitionHash {
		return j, callable.Changed(callable.Info{Name: t.Name})
	}
	var ok bool
	if j.op, ok = t.manifest.capability(operation); !ok {
		return j, fault.NotFoundf("The tool %s has no operation %.100q.", t.Name, operation).WithDetails(callable.Refusal{Reason: callable.ReasonGone})
	}
	if t.Status != StatusActive && !t.verifying {
		f := fault.Deniedf("The tool %s is disabled. Switch it on first.", t.Name).WithDetails(callable.Refusal{Reason: callable.ReasonDisabled})
		if t.Status != StatusDisabled {
			f = fault.Deniedf("The tool %s waits for approval. Review it in Approvals first.", t.Name).WithDetails(callable.Refusal{Reason: permission.ReasonInactive})
		}
		if t.Status == StatusApproved {
			f = fault.Deniedf("The tool %s isn't verified yet. Verify it first.", t.Name).WithDetails(callable.Refusal{Reason: permission.ReasonInactive})
		}
		if t.Status == StatusRevoked {
			f = fault.Deniedf("The tool %s is revoked. Import it again to use it.", t.Name).WithDetails(callable.Refusal{Reason: permission.ReasonInactive})
		}
		return j, f
	}
	if t.InstallState != installReady && !t.verifying {
		return j, fault.Deniedf("The tool %s isn't ready on this device. Verify it first.", t.Name).WithDetails(callable.Refusal{Reason: permission.ReasonInactive})
	}
	var err error
	if j.l, err = s.open(ctx, t); err != nil {
		return j, err
	}
	j.plan = j.l.plans[j.op.Name]
	list, err := j.plan.Check(ctx, j.input)
	if err != nil {
		return j, refusedInput(err, nil)
	}
	if len(list) > 0 {
		return j, refusedInput(fault.Invalidf("The parameters aren't valid: params%s: %s.", list[0].Path, list[0].Message), list)
	}
	server := t.manifest.Execution.Server
	own, err := ownServer(j.l.doc, j.plan)
	if err != nil {
		return j, err
	}
	if own != "" {
		server = own
	}
	if j.request, err = j.plan.Build(j.input, openapi.BuildOptions{Server: server, Blob: s.blobOf(ctx)}); err != nil {
		return j, refusedInput(err, nil)
	}
	if j.l.doc.Protocol != "" { // it makes its own requests, to the same server
		j.request.URL = server
	}
	if r.Key != "" && j.plan.TakesHeader(idempotencyKey) && j.request.Header.Get(idempotencyKey) == "" {
		j.request.Header.Set(idempotencyKey, url.QueryEscape(r.Key))
	}
	return j, nil
}

// idempotencyKey is the usual header for a key that makes repetitions of a request take effect once.
const idempotencyKey = "Idempotency-Key"

func refusedInput(err error, list []schema.Finding) error {
	f := *fault.As(err)
	if f.Kind == fault.Invalid {
		f.Details = callable.Refusal{Reason: callable.ReasonInput, Problems: list}
	}
	return &f
}

// blobOf returns what reads the stored files of the user. Only results of the user's own runs can be sent.
func (s *Service) blobOf(ctx context.Context) func(string) ([]byte, error) {
	return func(sum string) ([]byte, error) {
		var n int
		err := s.db.Read(ctx, func(tx *storage.Tx) error {
			return tx.QueryRow(`SELECT count(*) FROM tool_execution_log WHERE user_id = ? AND output_blob = ?`, identity.UserID(ctx), "sha256:"+sum).Scan(&n)
		})
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, fault.NotFoundf("No file of yours has this SHA-256.")
		}
		return s.blob(sum)
	}
}

// authenticate adds the credentials for the host of the request.
func (s *Service) authenticate(ctx context.Context, j *job) error {
	host, err := hostOf(j.request.URL)
	if err != nil {
		return err
	}
	return j.l.doc.Authenticate(j.request, j.plan.Operation, func(x openapi.Scheme) (openapi.Credential, bool, error) {
		return s.credential(ctx, j, x, host)
	})
}

func (s *Service) dryRun(ctx context.Context, t *Tool, operation string, r callable.Request) (RunResult, error) {
	j, err := s.prepare(ctx, t, operation, &r)
	if err != nil {
		return RunResult{}, err
	}
	out := RunResult{Success: true, Output: json.RawMessage("null"), Status: "success", Warnings: orEmpty(j.plan.Notes())}
	j.dry = true
	if j.l.doc.Protocol != "" {
		if _, err := s.converse(ctx, j); !errors.Is(err, errDry) {
			return RunResult{}, err
		}
		out.Warnings = append(out.Warnings, "The operation may send more than the request shown here, which is the first.")
	}
	if err := s.authenticate(ctx, j); err != nil {
		out.Warnings = append(out.Warnings, fault.As(err).Message)
	}
	h, u := j.request.Masked()
	out.Request = &RequestView{Method: j.request.Method, URL: u, Header: h, Body: clipText(string(j.request.Body), 4096)}
	return out, nil
}

// run is the only way to a request: every caller comes through here.
func (s *Service) run(ctx context.Context, t *Tool, operation string, r callable.Request) (RunResult, error) {
	j, err := s.prepare(ctx, t, operation, &r)
	if err != nil {
		if fault.Is(err, fault.Denied) {
			s.logRefused(ctx, j, operation, err)
		}
		return RunResult{}, err
	}
	if err := ctx.Err(); err != nil {
		return RunResult{}, fault.New(fault.Canceled, "The run was canceled before it started.").WithCause(err)
	}
	limit := duration.Of(t.manifest.Execution.TimeoutSeconds, time.Second)
	if r.Timeout > 0 {
		limit = min(limit, r.Timeout)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	leave, err := s.enter(t, j.id, cancel)
	if err != nil {
		return RunResult{}, err
	}
	defer leave()
	if err := s.authenticate(ctx, j); err != nil {
		s.logRefused(ctx, j, operation, err)
		return RunResult{}, err
	}
	limited, stop := context.WithTimeout(ctx, limit)
	defer stop()
	send := s.send
	if j.l.doc.Protocol != "" {
		send = s.converse
	}
	resp, err := send(limited, j)
	if err == nil && resp.Status == http.StatusUnauthorized && j.token != "" { // it may have expired earlier than it said
		if _, rerr := s.token(limited, secretOf(t.ID, j.scheme), j.token); rerr != nil {
			s.log.Info("renew a sign-in", "tool", t.Name, "err", rerr) // the answer of the API is the result
		} else if err = s.authenticate(limited, j); err == nil {
			resp, err = s.send(limited, j)
		}
	}
	if err != nil {
		return RunResult{}, s.fail(ctx, limited, j, limit, err)
	}
	return s.finish(ctx, j, resp)
}

// enter counts a run against the limits. leave ends it.
func (s *Service) enter(t *Tool, run uuid.UUID, cancel context.CancelCauseFunc) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.running[t.ID]) >= perTool {
		return nil, fault.Limitf("%d runs of %s are in progress. Wait for one to end.", perTool, t.Name)
	}
	if s.users[t.user] >= perUser {
		return nil, fault.Limitf("%d runs of tools from API descriptions are in progress. Wait for one to end.", perUser)
	}
	if s.running[t.ID] == nil {
		s.running[t.ID] = map[uuid.UUID]context.CancelCauseFunc{}
	}
	s.running[t.ID][run] = cancel
	s.users[t.user]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.users[t.user]--; s.users[t.user] == 0 {
			delete(s.users, t.user)
		}
		if delete(s.running[t.ID], run); len(s.running[t.ID]) == 0 {
			delete(s.running, t.ID)
		}
	}, nil
}

// endRuns ends the runs of a tool.
func (s *Service) endRuns(tool uuid.UUID, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cancel := range s.running[tool] {
		cancel(fault.Deniedf("%s", why))
	}
}

// CancelParams name a run.
type CancelParams struct {
	ExecutionID uuid.UUID `json:"executionId"`
}

// Cancel ends a run. A run that has ended is NotFound.
func (s *Service) Cancel(ctx context.Context, p CancelParams) (struct{}, error) {
	tool := uuid.Nil
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT tool_id FROM tool_execution_log WHERE id = ? AND user_id = ?`, p.ExecutionID, identity.UserID(ctx)).Scan(&tool)
	})
	if err != nil {
		return struct{}{}, fault.NotFoundf("Run not found.").WithCause(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	cancel := s.running[tool][p.ExecutionID]
	if cancel == nil {
		return struct{}{}, fault.NotFoundf("The run has already ended.")
	}
	cancel(fault.New(fault.Canceled, "The run was canceled."))
	return struct{}{}, nil
}

// jobKey is the context key of the job whose request is being sent.
type jobKey struct{}

// allow implements netgate.Allow: it decides whether the tool may send a request to an address.
func (s *Service) allow(ctx context.Context, c *callable.Request, u *url.URL, _ bool, revoked context.CancelCauseFunc) (func(), error) {
	j, ok := ctx.Value(jobKey{}).(*job)
	if !ok {
		return nil, fault.Deniedf("Unexpected address.")
	}
	w, err := wantOf(u.String())
	if err != nil {
		return nil, callable.RefusedAlways(err)
	}
	r := callable.Reach{
		Name: j.tool.Name, Subject: subject(j.tool.ID, j.tool.hash), Cap: w.Capability, Resource: w.Resource, Tier: tierOf(j.op.Tier),
		Action: audit.NetworkCall, Details: map[string]any{"host": u.Host, "operation": j.op.Operation, "execution": j.id},
	}
	if !j.recorded {
		r.Begin = s.insertRunning(ctx, j)
	}
	pass, err := s.gate.Pass(ctx, c, r)
	if err != nil {
		return nil, err
	}
	j.recorded = true
	held, stop := pass.Context(ctx)
	unwatch := context.AfterFunc(held, func() { revoked(context.Cause(held)) })
	return func() { unwatch(); stop(); pass.End() }, nil
}

const maxRetries = 2

// send sends the request, and again if the server asks for it or if the operation may be repeated.
func (s *Service) send(ctx context.Context, j *job) (*safehttp.Response, error) {
	ctx = context.WithValue(ctx, jobKey{}, j)
	for attempt := 0; ; attempt++ {
		if err := s.turn(ctx, j); err != nil {
			return nil, err
		}
		resp, err := s.calls.Do(ctx, j.call, j.request.HTTP())
		if err != nil || attempt == maxRetries {
			return resp, err
		}
		again, after := retry(resp, j.op.Idempotent, attempt)
		if !again {
			return resp, nil
		}
		if until, ok := ctx.Deadline(); ok && time.Now().Add(after).After(until) {
			return resp, nil // it would be too late
		}
		if err := s.wait(ctx, after); err != nil {
			return nil, err
		}
	}
}

// retry reports whether a request may be repeated after a response, and when.
func retry(resp *safehttp.Response, idempotent bool, attempt int) (bool, time.Duration) {
	asked := time.Duration(-1)
	if text := resp.Header.Get("Retry-After"); text != "" {
		if n, err := strconv.ParseInt(text, 10, 32); err == nil && n >= 0 {
			asked = duration.Of(n, time.Second)
		} else if at, err := http.ParseTime(text); err == nil {
			asked = max(0, time.Until(at))
		}
	}
	backoff := time.Duration(rand.Float64() * float64((250*time.Millisecond)<<attempt))
	switch resp.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return asked >= 0, max(asked, backoff)
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return idempotent, max(asked, backoff)
	}
	return false, 0
}

// turn waits until the tool may send another request.
func (s *Service) turn(ctx context.Context, j *job) error {
	d := s.bucket(j.tool.ID).take(time.Now())
	if d > 0 { // so that it can be seen and canceled
		if err := s.begin(ctx, j); err != nil {
			return err
		}
	}
	return s.wait(ctx, d)
}

func (s *Service) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Requests of one tool: burst at once, then rate each second.
const (
	rate  = 5
	burst = 10
)

// bucket is a token bucket.
type bucket struct {
	tokens float64
	at     time.Time
}

func (s *Service) bucket(tool uuid.UUID) *lockedBucket {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.buckets[tool] == nil {
		s.buckets[tool] = &bucket{tokens: burst, at: time.Now()}
	}
	return &lockedBucket{s, s.buckets[tool]}
}

type lockedBucket struct {
	s *Service
	b *bucket
}

// take takes a token and returns how long to wait for it.
func (l *lockedBucket) take(now time.Time) time.Duration {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.b.tokens = min(burst, l.b.tokens+now.Sub(l.b.at).Seconds()*rate) - 1
	l.b.at = now
	if l.b.tokens >= 0 {
		return 0
	}
	return time.Duration(-l.b.tokens / rate * float64(time.Second))
}

// finish turns a response into the result, and records it.
func (s *Service) finish(ctx context.Context, j *job, resp *safehttp.Response) (RunResult, error) {
	r := j.plan.Read(ctx, j.input, resp)
	blob := ""
	if r.File != nil {
		ref, err := s.db.Blobs().PutBytes(context.WithoutCancel(ctx), r.File)
		if err != nil {
			return RunResult{}, s.fail(ctx, ctx, j, 0, err)
		}
		r.Blob, blob = ref.String(), "sha256:"+ref.String()
	}
	raw, err := jcs.Marshal(r)
	if err != nil {
		return RunResult{}, s.fail(ctx, ctx, j, 0, err)
	}
	if clean := s.o.Scrub(ctx, string(raw)); json.Valid([]byte(clean)) {
		raw = json.RawMessage(clean)
	}
	out := RunResult{Success: r.OK, Output: raw, ExecutionID: &j.id, Status: "success", DurationMs: time.Since(j.began).Milliseconds(), Warnings: orEmpty(append(r.Warnings, j.notes...)), NextPage: r.NextPage}
	if !r.OK {
		out.Status, out.ErrorClass = "failure", "http_status"
		out.Error = "The server answered " + strconv.Itoa(r.Status) + " " + http.StatusText(r.Status) + "."
	}
	e := end{status: out.Status, class: out.ErrorClass, message: out.Error, output: raw, blob: blob, http: r.Status, sent: len(j.request.Body), received: len(resp.Body)}
	return out, s.end(ctx, j, e)
}

// fail records a run that ended without a response and returns its error.
func (s *Service) fail(ctx, limited context.Context, j *job, limit time.Duration, err error) error {
	f := *fault.As(err)
	if cause := (*fault.Error)(nil); errors.As(context.Cause(ctx), &cause) { // canceled, disabled or revoked
		f = *cause
	} else if ctx.Err() == nil && errors.Is(limited.Err(), context.DeadlineExceeded) {
		f = *fault.New(fault.Timeout, "%s took longer than %s.", j.op.Name, limit).WithCause(err)
	}
	e := end{status: "failure", class: string(f.Kind), message: f.Message, sent: len(j.request.Body)}
	switch f.Kind {
	case fault.Timeout:
		e.status = "timeout"
	case fault.Canceled:
		e.status = "cancelled"
	}
	if errors.Is(err, safehttp.ErrAddress) {
		e.class = "address"
	}
	if lerr := s.end(ctx, j, e); lerr != nil {
		s.log.Error("record a run", "run", j.id, "error", lerr)
	}
	return &f
}
