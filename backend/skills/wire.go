package skills

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"helix/backend/skills/definition"
	"helix/backend/skills/machine"
)

// Status is the state of a run.
type Status = machine.Status

// Meta is the metadata of a skill for lists and pickers.
type Meta struct {
	SkillID        uuid.UUID         `json:"skillId"`
	Name           string            `json:"name"` // unique among the user's skills, ignoring case
	Description    string            `json:"description"`
	Version        string            `json:"version"`
	VersionID      uuid.UUID         `json:"versionId"` // of the current definition
	DefinitionHash string            `json:"definitionHash"`
	Tags           []string          `json:"tags"`
	Icon           string            `json:"icon"`
	IsEnabled      bool              `json:"isEnabled"`
	Valid          bool              `json:"valid"` // the definition can run; false for drafts
	Visibility     string            `json:"visibility"`
	Mine           bool              `json:"mine"`
	Steps          []definition.Step `json:"steps"`
	InputSchema    json.RawMessage   `json:"inputSchema,omitempty"`
	OutputMapping  json.RawMessage   `json:"outputMapping,omitempty"`
	Notification   json.RawMessage   `json:"notification,omitempty"`
	// OverallTimeoutMs is the time limit of a run, excluding waits.
	OverallTimeoutMs int64      `json:"overallTimeoutMs"`
	StepCount        int        `json:"stepCount"` // including those of nested bodies
	ExecutionCount   int64      `json:"executionCount"`
	LastExecuted     *time.Time `json:"lastExecuted"`
	LastStatus       Status     `json:"lastStatus,omitempty"` // of the last run
	LastExecutionID  *uuid.UUID `json:"lastExecutionId,omitempty"`
	CloneSourceID    *uuid.UUID `json:"cloneSourceId,omitempty"`
	CreatedAt        time.Time  `json:"createdAt"`
	UpdatedAt        time.Time  `json:"updatedAt"`
	DeletedAt        *time.Time `json:"deletedAt,omitempty"`
}

// SkillParams identifies a skill.
type SkillParams struct {
	SkillID uuid.UUID `json:"skillId"`
}

// ValidateParams contains a definition in any of the accepted forms.
type ValidateParams struct {
	Skill json.RawMessage `json:"skill"`
}

// ValidateResult contains all problems found.
type ValidateResult struct {
	Valid      bool                 `json:"valid"`
	Errors     []definition.Problem `json:"errors"`
	Warnings   []definition.Problem `json:"warnings"`
	Normalized json.RawMessage      `json:"normalized,omitempty"` // the canonical form
}

// SaveParams creates or changes a skill. A definition with errors is stored as a draft that
// cannot be enabled.
type SaveParams struct {
	Skill json.RawMessage `json:"skill"` // any of the accepted forms; with skillId to change an existing skill
	// ExpectedVersion is the version that the edit is based on. If it is not the current one, the
	// error is a conflict. Empty: no check.
	ExpectedVersion string `json:"expectedVersion,omitempty"`
	Note            string `json:"note,omitempty"` // of the new version
}

// ListParams filters the user's skills.
type ListParams struct {
	Enabled *bool  `json:"enabled,omitempty"`
	Query   string `json:"query,omitempty"` // substring of the name, the description or a tag
	Tag     string `json:"tag,omitempty"`
	Deleted bool   `json:"deleted,omitempty"` // list the deleted skills that can be restored instead
	Limit   int    `json:"limit,omitempty"`   // 1..100, default 50
	Offset  int    `json:"offset,omitempty"`
}

// ListResult is one page, newest first.
type ListResult struct {
	Skills []Meta `json:"skills"`
	Total  int    `json:"total"`
	Limit  int    `json:"limit"`
	Offset int    `json:"offset"`
}

// SearchPublicParams searches the skills that their owners made public.
type SearchPublicParams struct {
	Query string   `json:"query,omitempty"`
	Tags  []string `json:"tags,omitempty"`
	Limit int      `json:"limit,omitempty"` // 1..100, default 20
}

// SearchPublicResult contains the matches, most used first.
type SearchPublicResult struct {
	Skills []Meta  `json:"skills"`
	Total  int     `json:"total"`  // number of matching skills of this device
	Shared []Share `json:"shared"` // what other people share on the hub, newest first
	Hub    bool    `json:"hub"`    // false: no hub is connected
}

// DeleteResult contains the time of deletion. The skill can be restored for 30 days.
type DeleteResult struct {
	DeletedAt time.Time `json:"deletedAt"`
}

// Version is one saved definition.
type Version struct {
	VersionID      uuid.UUID       `json:"versionId"`
	SkillID        uuid.UUID       `json:"skillId"`
	Version        string          `json:"version"`
	DefinitionHash string          `json:"definitionHash"`
	Note           string          `json:"note"`
	Origin         string          `json:"origin"` // edit, import, rollback, sync or agent
	Current        bool            `json:"current"`
	Body           json.RawMessage `json:"body,omitempty"` // the definition; omitted in lists
	CreatedAt      time.Time       `json:"createdAt"`
}

// VersionsResult lists versions, newest first.
type VersionsResult struct {
	Versions []Version `json:"versions"`
}

// VersionParams identifies a version.
type VersionParams struct {
	VersionID uuid.UUID `json:"versionId"`
}

// DiffParams identifies two versions.
type DiffParams struct {
	From uuid.UUID `json:"from"`
	To   uuid.UUID `json:"to"`
}

// DiffResult is the difference between two definitions.
type DiffResult struct {
	Steps  StepsDiff     `json:"steps"`
	Fields []FieldChange `json:"fields"` // of the skill itself
	Rights RightsDiff    `json:"rights"`
}

// StepsDiff lists the changes to steps, by id.
type StepsDiff struct {
	Added   []StepPlace   `json:"added"`
	Removed []StepPlace   `json:"removed"`
	Moved   []StepMove    `json:"moved"`
	Changed []FieldChange `json:"changed"`
}

// StepPlace is a step and its location.
type StepPlace struct {
	StepID string          `json:"stepId"`
	Path   string          `json:"path"` // such as steps[2].cases[0].steps[1]
	Step   json.RawMessage `json:"step"`
}

// StepMove is a step that was moved.
type StepMove struct {
	StepID string `json:"stepId"`
	From   string `json:"from"`
	To     string `json:"to"`
}

// FieldChange is one field that differs; an absent value is omitted.
type FieldChange struct {
	StepID string          `json:"stepId,omitempty"`
	Path   string          `json:"path"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// RightsDiff compares the capabilities that the two definitions need.
type RightsDiff struct {
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
}

// RollbackParams makes an old definition the current one, as a new version.
type RollbackParams struct {
	SkillID   uuid.UUID `json:"skillId"`
	VersionID uuid.UUID `json:"versionId"`
}

// ExportParams identifies a skill to share as a file.
type ExportParams struct {
	SkillID      uuid.UUID `json:"skillId"`
	IncludeTools bool      `json:"includeTools,omitempty"` // include the tools that it calls
}

// ExportResult contains the share file.
type ExportResult struct {
	File     json.RawMessage `json:"file"` // canonical JSON
	Filename string          `json:"filename"`
}

// ImportParams imports a share file.
type ImportParams struct {
	File       json.RawMessage `json:"file,omitempty"`
	URL        string          `json:"url,omitempty"`        // a link to a shared skill, instead of a file
	OnConflict string          `json:"onConflict,omitempty"` // if the name is taken: rename (default), newVersion or skip
	DryRun     bool            `json:"dryRun,omitempty"`     // only report what would happen
}

// ImportResult is the result of an import. The skill is disabled; enabling it accepts its permissions.
type ImportResult struct {
	SkillID  *uuid.UUID           `json:"skillId,omitempty"` // absent for a dry run and if the import was skipped
	Name     string               `json:"name"`
	Action   string               `json:"action"` // created, version or skipped
	Errors   []definition.Problem `json:"errors"`
	Warnings []string             `json:"warnings"`
	Missing  []Dependency         `json:"missing"` // what it calls and this installation does not have
	Signer   string               `json:"signer"`  // "unsigned", or the fingerprint of the key
	Trusted  bool                 `json:"trusted"`
	Rights   RightsPreview        `json:"rights"`
}

// Dependency is something that a skill calls.
type Dependency struct {
	ToolType       definition.Kind `json:"toolType"`
	Name           string          `json:"name"`
	DefinitionHash string          `json:"definitionHash,omitempty"`
}

// PreviewRightsParams identifies or contains a skill.
type PreviewRightsParams struct {
	SkillID    *uuid.UUID      `json:"skillId,omitempty"`
	Skill      json.RawMessage `json:"skill,omitempty"`
	Unattended bool            `json:"unattended,omitempty"` // nobody is present to answer questions
}

// RightsPreview is what a run would need, determined before it runs.
type RightsPreview struct {
	Steps   []StepRights `json:"steps"`
	Union   []string     `json:"union"`   // everything needed, sorted
	Verdict string       `json:"verdict"` // ready, asks or denied
	Reason  string       `json:"reason,omitempty"`
}

// StepRights is what one step needs.
type StepRights struct {
	StepPath string   `json:"stepPath"`
	ToolName string   `json:"toolName"`
	ToolHash string   `json:"toolHash"`
	Needs    []string `json:"needs"`
	Granted  []string `json:"granted"`
	Missing  []string `json:"missing"`
	Tier     string   `json:"tier"`
	Denied   string   `json:"denied,omitempty"` // why it is refused regardless of grants
}

// CatalogParams filters what steps can call.
type CatalogParams struct {
	Query string `json:"query,omitempty"` // substring of the name or description
}

// CatalogResult lists what steps can call on this installation.
type CatalogResult struct {
	Entries []CatalogEntry `json:"entries"`
}

// CatalogEntry is one callable for steps.
type CatalogEntry struct {
	ToolType     definition.Kind `json:"toolType"`
	ToolID       string          `json:"toolId,omitempty"`
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Tier         string          `json:"tier"`
	Idempotent   bool            `json:"idempotent"`
	Capabilities []string        `json:"capabilities"`
}

// Template is a skill that can be used as a template.
type Template struct {
	Key         string          `json:"key"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Icon        string          `json:"icon"`
	Shows       []string        `json:"shows"`  // demonstrated features: chain, condition, map, branch, approval, nested, wait, builtin
	Tools       []string        `json:"tools"`  // tools created with it
	Skills      []string        `json:"skills"` // skills of other templates that it calls, created with it
	StepCount   int             `json:"stepCount"`
	SampleInput json.RawMessage `json:"sampleInput"`
}

// TemplatesResult lists the templates that Helix ships.
type TemplatesResult struct {
	Templates []Template `json:"templates"`
}

// FromTemplateParams identifies a template.
type FromTemplateParams struct {
	Key  string `json:"key"`
	Name string `json:"name,omitempty"` // of the new skill; default: that of the template
}

// ExecuteParams runs a saved skill by its id, or an unsaved definition.
type ExecuteParams struct {
	SkillID   *uuid.UUID      `json:"skillId,omitempty"`
	Skill     json.RawMessage `json:"skill,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`   // default {}
	Version   string          `json:"version,omitempty"` // of a saved skill; default: the current one
	Async     bool            `json:"async,omitempty"`   // return immediately; the run continues
	WaitMs    int64           `json:"waitMs,omitempty"`  // how long to wait for the end, default 120000; the run continues after that
	RequestID string          `json:"requestId,omitempty"`
	// Unattended means that nobody can answer a question now: a step that needs an approval fails as
	// denied, and the approval is left in the list.
	Unattended bool `json:"unattended,omitempty"`
}

// ExecuteResult is the result or the current status of a run. A failed run is a result with Success
// false, not an error of the call.
type ExecuteResult struct {
	Success          bool                       `json:"success"`
	SkillID          *uuid.UUID                 `json:"skillId"`
	UserID           uuid.UUID                  `json:"userId"`
	ExecutionID      uuid.UUID                  `json:"executionId"`
	Status           Status                     `json:"status"`
	WaitReason       string                     `json:"waitReason,omitempty"` // approval, unknown_outcome, permission, timer or quarantined
	StepResults      []StepResult               `json:"stepResults"`
	FinalOutput      json.RawMessage            `json:"finalOutput"`
	ExecutionContext map[string]json.RawMessage `json:"executionContext"` // input, and the output of each completed top-level step
	ExecutionTimeMs  float64                    `json:"executionTimeMs"`
	StepsCompleted   int                        `json:"stepsCompleted"`
	TotalSteps       int                        `json:"totalSteps"`
	StepsFailed      int                        `json:"stepsFailed"`
	StepsSkipped     int                        `json:"stepsSkipped"`
	Input            json.RawMessage            `json:"input"`
	Error            *machine.Failure           `json:"error,omitempty"`
	Notification     *Notice                    `json:"notification,omitempty"` // shown by the skill at its end
	Warnings         []string                   `json:"warnings,omitempty"`
}

// Notice is a notification shown by a skill.
type Notice struct {
	Title string `json:"title"`
	Body  string `json:"body"`
	Level string `json:"level"` // info, success, warning or error
}

// StepResult is the result or the current status of one step.
type StepResult struct {
	StepID          string           `json:"stepId"`
	StepPath        string           `json:"stepPath"`
	Iteration       string           `json:"iteration,omitempty"` // indices of the enclosing maps, separated by dots
	ToolName        string           `json:"toolName"`
	ToolType        definition.Kind  `json:"toolType"`
	Status          Status           `json:"status"`
	Success         bool             `json:"success"`
	Skipped         bool             `json:"skipped,omitempty"`
	Reason          string           `json:"reason,omitempty"` // condition, branch, error or reused
	Output          json.RawMessage  `json:"output,omitempty"`
	OutputMissing   string           `json:"outputMissing,omitempty"` // why the stored output can't be read; output is then absent
	Error           *machine.Failure `json:"error,omitempty"`
	Unknown         bool             `json:"unknown,omitempty"` // the outcome is unknown
	ExecutionTimeMs float64          `json:"executionTimeMs"`
	RetriesUsed     int              `json:"retriesUsed"`
	Attempts        int              `json:"attempts"`
	Source          string           `json:"source,omitempty"`  // of a dry run: mock, recorded, real or schema
	WouldDo         *WouldDo         `json:"wouldDo,omitempty"` // of a dry run
	StartedAt       *time.Time       `json:"startedAt,omitempty"`
	FinishedAt      *time.Time       `json:"finishedAt,omitempty"`
}

// WouldDo is what a step of a dry run would have called.
type WouldDo struct {
	Tier   string          `json:"tier"`
	Rights []string        `json:"rights"`
	Input  json.RawMessage `json:"input"`
}

// RunParams identifies a run.
type RunParams struct {
	ExecutionID uuid.UUID `json:"executionId"`
}

// Wait is a question of a run to a person.
type Wait struct {
	StepPath   string              `json:"stepPath"`
	Iteration  string              `json:"iteration,omitempty"`
	Request    machine.RequestData `json:"request"`
	Until      *time.Time          `json:"until,omitempty"` // when the wait times out
	AskedAt    time.Time           `json:"askedAt"`
	Input      json.RawMessage     `json:"input,omitempty"` // what was sent, if the outcome is unknown
	ApprovalID *uuid.UUID          `json:"approvalId,omitempty"`
}

// Execution is a run, as shown in the history and in its timeline.
type Execution struct {
	ExecuteResult
	SkillName         string           `json:"skillName"`
	Version           string           `json:"version"`
	VersionID         *uuid.UUID       `json:"versionId,omitempty"`
	DefinitionHash    string           `json:"definitionHash"`
	Mode              string           `json:"mode"`            // live, dry or replay
	Trigger           string           `json:"trigger"`         // user, rpc, cli, voice, schedule, agent or skill
	Skill             *definition.Body `json:"skill,omitempty"` // the definition that ran; omitted in lists
	Waits             []Wait           `json:"waits"`
	ParentExecutionID *uuid.UUID       `json:"parentExecutionId,omitempty"`
	ParentStepPath    string           `json:"parentStepPath,omitempty"`
	RestartedFrom     *uuid.UUID       `json:"restartedFrom,omitempty"`
	Pinned            bool             `json:"pinned"`
	LastSeq           int64            `json:"lastSeq"`
	CreatedAt         time.Time        `json:"createdAt"`
	StartedAt         *time.Time       `json:"startedAt"`
	FinishedAt        *time.Time       `json:"finishedAt"`
	DeadlineAt        *time.Time       `json:"deadlineAt"`
}

// StatusParams identifies a run, or is empty to list the installed skills.
type StatusParams struct {
	ExecutionID *uuid.UUID `json:"executionId,omitempty"`
}

// StatusResult is a run, or the installed skills.
type StatusResult struct {
	Execution *Execution `json:"execution,omitempty"`
	Skills    []Meta     `json:"skills,omitempty"`
}

// HistoryParams filters runs.
type HistoryParams struct {
	SkillID *uuid.UUID `json:"skillId,omitempty"`
	Status  Status     `json:"status,omitempty"`
	Trigger string     `json:"trigger,omitempty"`
	From    *time.Time `json:"from,omitempty"` // started at or after
	To      *time.Time `json:"to,omitempty"`   // started before
	Cursor  string     `json:"cursor,omitempty"`
	Limit   int        `json:"limit,omitempty"` // 1..100, default 50
}

// HistoryResult is one page of runs, newest first. Steps, outputs and definitions are omitted.
type HistoryResult struct {
	Executions []Execution `json:"executions"`
	NextCursor string      `json:"nextCursor,omitempty"`
	Bytes      int64       `json:"bytes"` // size of the whole history
}

// EventsParams requests the events of a run after a sequence number.
type EventsParams struct {
	ExecutionID uuid.UUID `json:"executionId"`
	AfterSeq    int64     `json:"afterSeq,omitempty"`
	Limit       int       `json:"limit,omitempty"` // 1..1000, default 500
}

// EventsResult holds events in order.
type EventsResult struct {
	Events  []RunEvent `json:"events"`
	LastSeq int64      `json:"lastSeq"` // of the run, not only of the page
}

// RunEvent is one event of a run, also the event skills.run_event. Seq has no gaps.
type RunEvent struct {
	ExecutionID uuid.UUID       `json:"executionId"`
	Seq         int64           `json:"seq"`
	Type        string          `json:"type"`
	StepPath    string          `json:"stepPath,omitempty"`
	Iteration   string          `json:"iteration,omitempty"`
	Attempt     int             `json:"attempt,omitempty"`
	At          time.Time       `json:"at"`
	Data        json.RawMessage `json:"data"`
}

// Changed is the event skills.changed.
type Changed struct {
	SkillID uuid.UUID `json:"skillId"`
	Version string    `json:"version"`
	Change  string    `json:"change"` // created, updated, deleted, restored, enabled, disabled, used
}

// CancelParams cancels a run.
type CancelParams struct {
	ExecutionID uuid.UUID `json:"executionId"`
	Reason      string    `json:"reason,omitempty"`
}

// CancelResult is the status of the run afterwards.
type CancelResult struct {
	Status Status `json:"status"`
}

// AnswerParams answers a question of a run. Decision is approve or decline for an approval; done,
// retry or fail for an unknown outcome; retry or fail for a missing capability. An empty stepPath
// selects the only question of a run. The question of a quarantined run has an empty stepPath;
// retry resumes the run, fail ends it.
type AnswerParams struct {
	ExecutionID uuid.UUID       `json:"executionId"`
	StepPath    string          `json:"stepPath"`
	Iteration   string          `json:"iteration,omitempty"`
	Decision    string          `json:"decision"`
	Data        json.RawMessage `json:"data,omitempty"`   // of an approval with a form
	Output      json.RawMessage `json:"output,omitempty"` // with done: the output of the step
}

// RestartParams runs a skill again from a step, with the results of the steps before it.
type RestartParams struct {
	ExecutionID uuid.UUID       `json:"executionId"`
	FromStepID  string          `json:"fromStepId"`          // a top-level step
	VersionID   *uuid.UUID      `json:"versionId,omitempty"` // default: the version that ran
	Input       json.RawMessage `json:"input,omitempty"`     // default: the same input
}

// RestartResult identifies the new run.
type RestartResult struct {
	ExecutionID uuid.UUID `json:"executionId"`
	Warnings    []string  `json:"warnings"`
}

// Mock is the result of a step in a dry run; one field is set. Sequence provides the results of
// consecutive calls; the last one repeats.
type Mock struct {
	Output   json.RawMessage  `json:"output,omitempty"`
	Error    *machine.Failure `json:"error,omitempty"`
	Sequence []Mock           `json:"sequence,omitempty"`
}

// DryRunParams runs a skill with the same engine but without effects.
type DryRunParams struct {
	SkillID        *uuid.UUID      `json:"skillId,omitempty"`
	Skill          json.RawMessage `json:"skill,omitempty"`
	VersionID      *uuid.UUID      `json:"versionId,omitempty"`
	Input          json.RawMessage `json:"input,omitempty"`
	ExecutionID    *uuid.UUID      `json:"executionId,omitempty"` // the run whose recorded outcomes are used
	Mocks          map[string]Mock `json:"mocks,omitempty"`       // by step path
	AllowReadOnly  bool            `json:"allowReadOnly,omitempty"`
	FillFromSchema bool            `json:"fillFromSchema,omitempty"`
}

// ReplayResult reports whether applying the recorded outcomes to the engine produces the same
// events, byte for byte.
type ReplayResult struct {
	Identical       bool                `json:"identical"`
	Events          int64               `json:"events"`
	FirstDifference *machine.Difference `json:"firstDifference,omitempty"`
}

// EvaluateParams evaluates an expression on a document.
type EvaluateParams struct {
	Document    json.RawMessage `json:"document,omitempty"`
	ExecutionID *uuid.UUID      `json:"executionId,omitempty"` // the run document of that run
	Expression  json.RawMessage `json:"expression"`            // a string, or a template
	As          string          `json:"as"`                    // path, template or condition
}

// EvaluateResult is the value of the expression.
type EvaluateResult struct {
	Value   json.RawMessage  `json:"value"` // null if nothing matches
	Matches []Match          `json:"matches"`
	Error   *machine.Failure `json:"error,omitempty"`
}

// Match is one value that a path found.
type Match struct {
	Path  string          `json:"path"` // normalized
	Value json.RawMessage `json:"value"`
}

// DocumentResult is the run document of a run, as a help for mapping.
type DocumentResult struct {
	Document json.RawMessage `json:"document"`
}

// PinParams excludes a run from pruning, or includes it again.
type PinParams struct {
	ExecutionID uuid.UUID `json:"executionId"`
	Pinned      bool      `json:"pinned"`
}

// PurgeParams deletes runs that have ended.
type PurgeParams struct {
	SkillID *uuid.UUID `json:"skillId,omitempty"` // default: of all skills
	Before  *time.Time `json:"before,omitempty"`
}

// PurgeResult counts the deleted runs.
type PurgeResult struct {
	Removed int `json:"removed"`
}
