package tools

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/permission"
	"helix/backend/sandbox"
	"helix/backend/storage"
	"helix/backend/wasmtools"
)

// ExecuteParams runs a stored tool by its id, or Code as a draft. With ToolID the code, schema,
// capabilities and limits are those stored, and Code, Draft and Metadata must be empty.
type ExecuteParams struct {
	ToolID         *uuid.UUID      `json:"toolId,omitempty"`
	Version        string          `json:"version,omitempty"` // default: the current one
	Code           string          `json:"code,omitempty"`
	Language       Language        `json:"language,omitempty"` // of Code; default javascript
	Params         json.RawMessage `json:"params,omitempty"`   // default {}
	Metadata       *RunMetadata    `json:"metadata,omitempty"`
	Draft          *Draft          `json:"draft,omitempty"`
	IdempotencyKey string          `json:"idempotencyKey,omitempty"` // the same key and call run once and return the same result
	TimeoutMs      int64           `json:"timeoutMs,omitempty"`      // lowers the tool's time limit for this run
	Interactive    bool            `json:"interactive,omitempty"`    // wait up to 120 s for an approval instead of failing
}

// RunMetadata is the metadata that a draft can read (skillName, skillVersion, skillAuthor).
type RunMetadata struct {
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	Author  string `json:"author,omitempty"`
}

// Draft contains the other fields of an unsaved definition.
type Draft struct {
	Parameters     json.RawMessage `json:"parameters,omitempty"`
	Capabilities   []string        `json:"capabilities,omitempty"`
	SandboxProfile Profile         `json:"sandboxProfile,omitempty"`
	Limits         *Limits         `json:"limits,omitempty"`
}

// ExecuteResult is the result of a run. A tool that failed is a result with Success false, not an
// error of the call; an error means that the tool did not start.
type ExecuteResult struct {
	Success           bool            `json:"success"`
	Output            json.RawMessage `json:"output"` // null if the tool returned nothing or failed
	Error             string          `json:"error,omitempty"`
	ErrorClass        string          `json:"errorClass,omitempty"` // thrown, timeout, cpu, memory, output, host_denied, canceled, …
	ErrorStack        string          `json:"errorStack,omitempty"` // positions refer to the tool's source
	ErrorDetails      json.RawMessage `json:"errorDetails,omitempty"`
	ExecutionTimeMs   float64         `json:"executionTimeMs"`
	AuditLog          []AuditEntry    `json:"auditLog"`
	ExecutionID       uuid.UUID       `json:"executionId"`
	CPUTimeMs         float64         `json:"cpuTimeMs"`
	MemoryUsedMb      float64         `json:"memoryUsedMb"`
	Logs              []LogLine       `json:"logs"`
	PendingApprovalID *uuid.UUID      `json:"pendingApprovalId,omitempty"`
	Warnings          []string        `json:"warnings,omitempty"` // such as that the run could not be recorded
	Draft             bool            `json:"draft,omitempty"`    // unsaved code: not included in usage
}

// AuditEntry is the short form of an entry of the audit log.
type AuditEntry struct {
	Timestamp time.Time       `json:"timestamp"`
	Ts        int64           `json:"ts"`     // in milliseconds since 1970
	Action    string          `json:"action"` // start, permission_check, resource_access, network_call, log, complete or error
	Details   json.RawMessage `json:"details"`
}

// CancelParams identifies a run.
type CancelParams struct {
	ExecutionID uuid.UUID `json:"executionId"`
}

// CancelResult reports whether there was such a run to cancel.
type CancelResult struct {
	Canceled bool `json:"canceled"`
}

// Caller is on whose behalf a tool runs if it is not the user directly.
type Caller struct {
	Kind      string                // agent, skill, schedule, voice, tool; "" is the user
	Authority *permission.Authority // of the caller; the tool gets no more. nil: the user
	RunID     uuid.UUID             // the caller's run, stored as the parent
	Why       string                // shown in an approval as a quotation of the caller
	// Definition is the hash of the definition that the caller expects, in 64 hex digits. A run of
	// any other definition is refused before it starts. "": the current one.
	Definition string
	outer      *execution      // the run that called helix.tool
	begun      func(uuid.UUID) // called once the start is recorded
}

// Execute runs a stored tool, or code as a draft, for the user.
func (s *Service) Execute(ctx context.Context, p ExecuteParams) (ExecuteResult, error) {
	return s.ExecuteFor(ctx, Caller{}, p)
}

// ExecuteFor runs a tool on behalf of a skill, a schedule, an agent or another part of Helix. The
// checks are made in a fixed order, and no code of the tool runs before all have passed: the tool
// exists, is enabled and approved, its parameters are valid, its profile allows what it requests,
// and every capability that can be named in advance is granted.
func (s *Service) ExecuteFor(ctx context.Context, c Caller, p ExecuteParams) (ExecuteResult, error) {
	if err := checkCall(&p); err != nil {
		return ExecuteResult{}, err
	}
	if p.IdempotencyKey == "" {
		return s.run(ctx, c, p)
	}
	return s.once(ctx, p, func() (ExecuteResult, error) { return s.run(ctx, c, p) })
}

// checkCall rejects calls that contain both a stored tool and code.
func checkCall(p *ExecuteParams) error {
	switch {
	case p.ToolID == nil && strings.TrimSpace(p.Code) == "":
		return fault.Invalidf("Provide toolId or code.")
	case p.ToolID != nil && (p.Code != "" || p.Draft != nil || p.Metadata != nil || p.Language != ""):
		return fault.Invalidf("With toolId, everything comes from the stored tool: leave out code, language, draft and metadata.")
	case p.ToolID == nil && p.Version != "":
		return fault.Invalidf("A draft doesn't have versions.")
	case p.TimeoutMs < 0:
		return fault.Invalidf("timeoutMs can't be negative.")
	case len(p.IdempotencyKey) > 128:
		return fault.Invalidf("An idempotency key can have at most 128 bytes.")
	}
	if err := lifecycle.CheckEnum("language", p.Language); err != nil {
		return err
	}
	if len(p.Params) > 4<<20 {
		return fault.Invalidf("The parameters are larger than 4 MiB.")
	}
	return nil
}

type execution struct {
	s         *Service
	id        uuid.UUID
	user      uuid.UUID
	tool      *Tool                // of a draft only the definition and the names are set
	skill     *wasmtools.WasmSkill // set for a run of a WASM tool; tool then has the common fields
	version   string
	current   string // the current version, even if an older one runs
	draft     bool
	tier      string // where it runs, if known in advance; only for a WASM tool or an unsaved file
	isolation string
	reasons   []string
	force     string          // the tier chosen by a person
	answer    func(uuid.UUID) // answers the run's questions on behalf of the person who started it
	caller    Caller
	kind      string    // of the caller, as stored
	token     uuid.UUID // created token of a caller that is not a run
	params    json.RawMessage
	stored    json.RawMessage // params as stored in the usage row
	hidden    []string        // values masked in the row
	wants     []permission.Want
	ask       bool            // a person can be asked
	rerun     json.RawMessage // payload to start the same run again
	auth      *permission.Authority
	cancel    context.CancelCauseFunc
	runCtx    context.Context // ends with the run; stored for Cancel and the run's helpers
	started   time.Time
	limits    sandbox.Limits
	host      *host
	events    *reporter
	trail     trail
}

// Denial is the detail of the error when a run was refused before it started.
type Denial struct {
	Reason             string      `json:"reason"` // disabled, profile, inactive, definition_changed, needs_approval, denied_by_user, …
	Capability         string      `json:"capability,omitempty"`
	Resource           string      `json:"resource,omitempty"`
	PendingApprovalID  *uuid.UUID  `json:"pendingApprovalId,omitempty"`
	PendingApprovalIDs []uuid.UUID `json:"pendingApprovalIds,omitempty"` // all open questions, if there are several
	ExecutionID        *uuid.UUID  `json:"executionId,omitempty"`
	Action             string      `json:"action,omitempty"` // the method that resolves it
}

func (s *Service) run(ctx context.Context, c Caller, p ExecuteParams) (ExecuteResult, error) {
	e, err := s.prepare(ctx, c, p)
	if err != nil {
		return ExecuteResult{}, err
	}
	var out ExecuteResult
	err = e.run(ctx, func() error { return e.checkParams(ctx, p.Params) }, func() error {
		o, err := e.perform(ctx, e.compileTool)
		if o != nil {
			out = e.toolResult(o)
		}
		return err
	})
	return out, err
}

// run makes the checks of a stored definition in order, then executes it. check validates its parameters.
func (e *execution) run(ctx context.Context, check, perform func() error) (err error) {
	defer func() { e.events.abandon(err) }()
	if err := e.admit(ctx); err != nil { // enabled and approved
		return err
	}
	if err := check(); err != nil {
		return err
	}
	return e.carryOut(ctx, perform)
}

// carryOut waits for a slot, determines the authority of the run and performs it.
func (e *execution) carryOut(ctx context.Context, perform func() error) error {
	release, err := e.s.enter(ctx, e)
	if err != nil {
		return err
	}
	defer release()
	if err := e.authorize(ctx); err != nil {
		return e.refused(ctx, err)
	}
	defer e.s.perm.EndRun(context.WithoutCancel(ctx), e.id) //nolint:errcheck // grants of the run also expire
	return perform()
}

// prepare finds the tool and creates the execution, without any effect.
func (s *Service) prepare(ctx context.Context, c Caller, p ExecuteParams) (*execution, error) {
	if s.box == nil {
		return nil, fault.Unavailablef("The sandbox isn't available, so no tool can run. Settings › Sandbox shows why.")
	}
	e := s.newExecution(ctx, c, p.Interactive)
	if p.ToolID == nil {
		e.draft = true
		if err := e.makeDraft(ctx, p); err != nil {
			return nil, err
		}
	} else if err := e.load(ctx, *p.ToolID, p.Version); err != nil {
		return nil, err
	}
	e.wants = permission.ParseWants(e.tool.Capabilities)
	base, _ := sandbox.Profile(string(e.tool.SandboxProfile))
	e.limits = base.Lower(e.tool.Limits.sandbox()).Lower(sandbox.Limits{Wall: duration.Of(p.TimeoutMs, time.Millisecond)})
	if c.Kind == "" {
		payload := p
		payload.Interactive = false
		e.rerun = lifecycle.Text(payload)
	}
	return e, nil
}

// newExecution returns an execution that is not yet of any tool.
func (s *Service) newExecution(ctx context.Context, c Caller, ask bool) *execution {
	e := &execution{s: s, id: storage.NewID(), user: identity.UserID(ctx), caller: c, kind: c.Kind, ask: ask}
	e.events, e.host = &reporter{e: e}, newHost(e)
	if e.kind == "" {
		e.kind = "user"
		id, _ := identity.From(ctx)
		e.token = id.Token
		if id.Client == identity.ClientTerminal {
			e.kind = "cli"
		}
	}
	if c.Kind != "" { // only the user is asked during a run
		e.ask = false
	}
	if id, _ := identity.From(ctx); !id.MayApprove() {
		e.ask = false
	}
	return e
}

func (l *Limits) sandbox() sandbox.Limits {
	if l == nil {
		return sandbox.Limits{}
	}
	return sandbox.Limits{
		Wall: duration.Of(l.WallMs, time.Millisecond), CPU: duration.Of(l.CPUMs, time.Millisecond),
		MemoryBytes: l.MemoryMb << 20, OutputBytes: l.OutputBytes, HostCalls: l.HostCalls,
	}
}

// load sets the definition of a stored tool.
func (e *execution) load(ctx context.Context, id uuid.UUID, version string) error {
	return e.s.db.Read(ctx, func(tx *storage.Tx) error {
		t, err := visibleTool(tx, id)
		if err != nil {
			return err
		}
		if !t.Mine {
			return fault.Deniedf("%q belongs to someone else. Clone it first, then run your copy.", t.Name).
				WithDetails(Denial{Reason: "foreign", Action: "tools.clone"})
		}
		if t.Signature, err = lifecycle.Trust(tx, e.s.db, t.owner, t.sig, t.sig.Verify(t.hash, t.Code)); err != nil {
			return err
		}
		e.current = t.Version
		if version != "" && version != t.Version {
			v, err := loadVersion(tx, t.ID, version)
			if err != nil {
				return err
			}
			t.setDefinition(v.def)
			t.Version, t.hash, t.DefinitionHash = v.Version, v.hash, v.DefinitionHash
		}
		e.tool, e.version = t, t.Version
		return nil
	})
}

// makeDraft validates unsaved code and registers it with permission for the duration of the run.
func (e *execution) makeDraft(ctx context.Context, p ExecuteParams) error {
	d := definition{Language: p.Language, Code: p.Code}
	if p.Draft != nil {
		d.Parameters, d.Capabilities, d.SandboxProfile, d.Limits = p.Draft.Parameters, p.Draft.Capabilities, p.Draft.SandboxProfile, p.Draft.Limits
	}
	ex := e.s.checker().examine(ctx, d)
	if !ex.result.Valid {
		f := fault.As(saveError(ex.result))
		f.Message = strings.Replace(f.Message, "The tool was not saved", "The code cannot run", 1)
		return f
	}
	name, version, author := "Unsaved tool", "draft", ""
	if m := p.Metadata; m != nil {
		for _, t := range []string{m.Name, m.Version, m.Author} {
			if err := lifecycle.CheckText("metadata", t, maxAuthor); err != nil {
				return err
			}
		}
		if m.Name != "" {
			name = m.Name
		}
		if m.Version != "" {
			version = m.Version
		}
		author = m.Author
	}
	e.tool = &Tool{Name: name, Version: version, Author: author, owner: e.user, hash: ex.hash, DefinitionHash: hashText(ex.hash), IsEnabled: true, Mine: true, Origin: OriginLocal}
	e.tool.setDefinition(ex.def)
	e.version = version
	info := e.tool.subjectInfo(true)
	info.Draft = true
	e.s.drafts.Put(e.user.String()+e.subject().ID, info)
	return nil
}

// noun returns the word for what runs in messages.
func (e *execution) noun() string {
	if e.skill != nil {
		return "skill"
	}
	return "tool"
}

// admit checks that what runs is enabled and that its definition is approved.
func (e *execution) admit(ctx context.Context) error {
	if err := e.checkDefinition(); err != nil {
		return err
	}
	if !e.tool.IsEnabled {
		action := "tools.set_enabled"
		if e.skill != nil {
			action = "skills.update_wasm"
		}
		return fault.Deniedf("The %s %q is disabled. Enable it to run it.", e.noun(), e.tool.Name).
			WithDetails(Denial{Reason: "disabled", Action: action})
	}
	d, err := e.s.perm.Decide(e.withSubject(ctx), e.request("", "", permission.ReadOnly))
	if err != nil || d.Effect == permission.Allow {
		return err
	}
	den := Denial{Reason: d.Reason, PendingApprovalID: idOrNil(d.PendingID)}
	msg := "may not run now."
	switch d.Reason {
	case permission.ReasonDefinitionChanged:
		den.Action = "approvals.decide"
		switch {
		case e.skill != nil || e.tool.Origin == OriginLocal:
			msg = "has changed since it was approved. Review the change in Approvals, then run it again."
		case e.tool.sig == nil:
			msg = "was imported and is not signed. Trust this version in Approvals before its first run."
		default:
			msg = "was imported and its signer is not trusted here. Trust the signer or this version before its first run."
		}
	case permission.ReasonCallerLacks:
		return fault.Deniedf("The caller doesn't have permission to run %q.", e.tool.Name).WithDetails(den)
	}
	return fault.Deniedf("The %s %q %s", e.noun(), e.tool.Name, msg).WithDetails(den)
}

// checkDefinition returns an error if the caller expects another definition.
func (e *execution) checkDefinition() error {
	if e.caller.Definition == "" || e.caller.Definition == e.tool.DefinitionHash {
		return nil
	}
	return fault.Deniedf("The %s %q has changed since its caller started.", e.noun(), e.tool.Name).
		WithDetails(Denial{Reason: permission.ReasonDefinitionChanged, Action: "permissions.diff"})
}

func idOrNil(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}

// checkParams validates the parameters and sets defaults. A rejection is recorded in the audit log
// but not in usage, because nothing ran.
func (e *execution) checkParams(ctx context.Context, params json.RawMessage) error {
	sch, err := e.s.schemas.Compile(e.tool.Parameters)
	if err != nil {
		return fault.Invalidf("The tool's schema can't be used: %s", err)
	}
	e.params, err = apply(ctx, sch, params)
	if err != nil {
		details, _ := fault.As(err).Details.(ParamErrors)
		places := []map[string]string{}
		for _, p := range details.Errors {
			places = append(places, map[string]string{"path": p.Path, "keyword": p.Keyword})
		}
		if aerr := e.s.audit.Record(ctx, e.entry(audit.Error, audit.Failed, map[string]any{"reason": "parameters", "errors": places})); aerr != nil {
			return errors.Join(err, aerr)
		}
		return err
	}
	e.stored, e.hidden = sch.RedactJSON(e.params)
	return nil
}

// digest identifies data without revealing it.
func digest(b []byte) string { return hashText(sha256.Sum256(b)) }
