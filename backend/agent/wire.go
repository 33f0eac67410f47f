package agent

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"helix/backend/providers"
)

// Budget bounds a turn or a session. A zero field sets no limit.
type Budget struct {
	MaxTurns      int              `json:"maxTurns,omitempty"`      // steps of a turn: calls of the model
	MaxTokens     int64            `json:"maxTokens,omitempty"`     // prompts and answers together
	MaxCostMicros providers.Micros `json:"maxCostMicros,omitempty"` // millionths of a dollar
	MaxWallMs     int64            `json:"maxWallMs,omitempty"`
}

// The kinds of sessions.
const (
	KindChat      = "chat"
	KindChannel   = "channel"
	KindScheduled = "scheduled"
	KindSubagent  = "subagent"
	KindRun       = "run" // a call by a skill or by name
	KindEval      = "eval"
)

// The modes of a session: what its tools may do without approval.
const (
	ModeAsk  = "ask"  // default: every effect needs approval
	ModeRead = "read" // only tools that read
	ModeWork = "work" // workspace files may be written without approval
)

// The queue modes: how an input that arrives during a turn is handled.
const (
	QueueFollowup  = "followup"  // default: runs as the next turn
	QueueSteer     = "steer"     // added to the turn after the running tools
	QueueCollect   = "collect"   // joined with the other waiting inputs
	QueueInterrupt = "interrupt" // cancels the turn, then runs next
)

// Session is one conversation.
type Session struct {
	ID            uuid.UUID          `json:"id"`
	Kind          string             `json:"kind"`
	Title         string             `json:"title"`
	AgentName     string             `json:"agentName"`
	Mode          string             `json:"mode"`
	QueueMode     string             `json:"queueMode"`
	Model         providers.ModelRef `json:"model,omitempty"` // "": the role chat
	ProjectDir    string             `json:"projectDir,omitempty"`
	Budget        Budget             `json:"budget"`
	Remember      bool               `json:"remember"`
	Pinned        bool               `json:"pinned"`
	State         string             `json:"state"` // idle, queued, running or waiting
	MessageCount  int                `json:"messageCount"`
	CostMicros    providers.Micros   `json:"costMicros"`
	Parent        *uuid.UUID         `json:"parentSessionId,omitempty"`
	ForkedFrom    *uuid.UUID         `json:"forkedFrom,omitempty"`
	Here          bool               `json:"here"`              // it runs on this device; on others it is read-only
	Deleted       bool               `json:"deleted,omitempty"` // it is in the trash
	LastMessageAt *time.Time         `json:"lastMessageAt,omitempty"`
	ArchivedAt    *time.Time         `json:"archivedAt,omitempty"`
	CreatedAt     time.Time          `json:"createdAt"`
	UpdatedAt     time.Time          `json:"updatedAt"`
}

// The states of a turn.
const (
	Queued    = "queued"
	Running   = "running"
	Waiting   = "waiting"
	Completed = "completed"
	Canceled  = "cancelled"
	Failed    = "failed"
)

// The stop reasons of a turn.
const (
	StopAnswer     = "answer"
	StopMaxTurns   = "max_turns"
	StopBudget     = "budget"
	StopLoop       = "loop"
	StopTimeout    = "timeout"
	StopDenied     = "denied"
	StopLength     = "length"
	StopRefusal    = "refusal"
	StopError      = "error"
	StopCanceled   = "cancelled"
	StopSuperseded = "superseded"
)

// Turn is the work on one input, up to the final answer.
type Turn struct {
	TurnID     uuid.UUID        `json:"turnId"`
	SessionID  uuid.UUID        `json:"sessionId"`
	State      string           `json:"state"`
	Phase      string           `json:"phase,omitempty"`      // streaming, toolExecution or yielding
	WaitReason string           `json:"waitReason,omitempty"` // approval, unknown_outcome or rate
	StopReason string           `json:"stopReason,omitempty"`
	Steps      int              `json:"steps"`
	Usage      providers.Usage  `json:"usage"`
	CostMicros providers.Micros `json:"costMicros"`
	Provider   string           `json:"provider,omitempty"`
	Model      string           `json:"model,omitempty"`
	Position   int              `json:"position,omitempty"` // position in the queue, from 1
	Approvals  []uuid.UUID      `json:"approvals"`          // ids of the approvals that it waits for
	Error      *TurnError       `json:"error,omitempty"`
	CreatedAt  time.Time        `json:"createdAt"`
	StartedAt  *time.Time       `json:"startedAt,omitempty"`
	FinishedAt *time.Time       `json:"finishedAt,omitempty"`
}

// TurnError describes why a turn failed.
type TurnError struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// The kinds of parts of a message.
const (
	PartText       = "text"
	PartReasoning  = "reasoning"
	PartToolCall   = "toolCall"
	PartToolResult = "toolResult"
	PartImage      = "image"
	PartFile       = "file"
	PartSource     = "source"
	PartNotice     = "notice"
)

// Part is a piece of a message; Kind determines which fields are set.
type Part struct {
	Kind string `json:"kind"`
	Text string `json:"text,omitempty"` // for text, reasoning, results (at most 4 KiB) and notices

	// For tool calls and results. The status of a call is running, waiting, done, failed, denied,
	// skipped or unknown, and is set on the call.
	CallID     string          `json:"callId,omitempty"`
	Tool       string          `json:"tool,omitempty"`
	Title      string          `json:"title,omitempty"`
	Tier       string          `json:"tier,omitempty"` // read_only, side_effecting or privileged
	Args       json.RawMessage `json:"args,omitempty"`
	Status     string          `json:"status,omitempty"`
	TookMs     int64           `json:"tookMs,omitempty"`
	ApprovalID *uuid.UUID      `json:"approvalId,omitempty"`
	Untrusted  bool            `json:"untrusted,omitempty"`
	UndoToken  string          `json:"undoToken,omitempty"`
	Error      bool            `json:"error,omitempty"`

	// For images, files and sources.
	Blob  string `json:"blob,omitempty"`
	Name  string `json:"name,omitempty"`
	Mime  string `json:"mime,omitempty"`
	Bytes int64  `json:"bytes,omitempty"`
	URL   string `json:"url,omitempty"`
}

// Origin says who wrote an input.
type Origin struct {
	Kind  string `json:"kind"` // user, channel, schedule, subagent, skill or import
	Label string `json:"label,omitempty"`
}

// Message is one entry of a transcript. Role is user, assistant, tool or system.
type Message struct {
	ID         uuid.UUID        `json:"id"`
	SessionID  uuid.UUID        `json:"sessionId"`
	Seq        int64            `json:"seq"` // sequence number in the log of the session
	TurnID     uuid.UUID        `json:"turnId"`
	Role       string           `json:"role"`
	Parts      []Part           `json:"parts"`
	Origin     *Origin          `json:"origin,omitempty"`
	Model      string           `json:"model,omitempty"`
	CostMicros providers.Micros `json:"costMicros,omitempty"`
	Hidden     bool             `json:"hidden,omitempty"` // replaced by a retry
	At         time.Time        `json:"at"`
}

// CreateParams holds the settings of a new session.
type CreateParams struct {
	Title     string             `json:"title,omitempty"`
	AgentName string             `json:"agentName,omitempty"` // default: helix
	Model     providers.ModelRef `json:"model,omitempty"`
	Mode      string             `json:"mode,omitempty"`
	QueueMode string             `json:"queueMode,omitempty"`
	Budget    *Budget            `json:"budget,omitempty"`
	Remember  *bool              `json:"remember,omitempty"` // default true
	// ProjectDir is a folder whose skill documents are used if the person trusts it.
	ProjectDir string `json:"projectDir,omitempty"`
}

// SessionParams names a session.
type SessionParams struct {
	SessionID uuid.UUID `json:"sessionId"`
}

// SessionResult holds a session.
type SessionResult struct {
	Session Session `json:"session"`
}

// ListParams selects sessions.
type ListParams struct {
	Query            string `json:"query,omitempty"` // part of the title
	Kind             string `json:"kind,omitempty"`
	AgentName        string `json:"agentName,omitempty"`
	IncludeArchived  bool   `json:"includeArchived,omitempty"`
	IncludeSubagents bool   `json:"includeSubagents,omitempty"`
	Trash            bool   `json:"trash,omitempty"`
	Limit            int    `json:"limit,omitempty"` // 1 to 100, default 50
	Offset           int    `json:"offset,omitempty"`
}

// ListResult holds sessions, pinned ones first, then by the newest message.
type ListResult struct {
	Sessions []Session `json:"sessions"`
	Total    int       `json:"total"`
}

// Partial is an answer as received so far.
type Partial struct {
	TurnID  uuid.UUID `json:"turnId"`
	Attempt int       `json:"attempt"`
	Text    string    `json:"text"`
}

// QueuedInput is an input whose turn has not started.
type QueuedInput struct {
	TurnID    uuid.UUID `json:"turnId"`
	Text      string    `json:"text"`
	QueueMode string    `json:"queueMode"`
	Origin    Origin    `json:"origin"`
	Files     []string  `json:"files"` // names of its attachments
	At        time.Time `json:"at"`
}

// GetResult is a session and its current activity.
type GetResult struct {
	Session    Session       `json:"session"`
	ActiveTurn *Turn         `json:"activeTurn,omitempty"`
	Queue      []QueuedInput `json:"queue"`
	Partial    *Partial      `json:"partial,omitempty"`
	LastSeq    int64         `json:"lastSeq"`
}

// MessagesParams selects messages: those before a sequence number, read backward from there, or those
// after one.
type MessagesParams struct {
	SessionID uuid.UUID `json:"sessionId"`
	Before    int64     `json:"before,omitempty"`
	After     int64     `json:"after,omitempty"`
	Limit     int       `json:"limit,omitempty"` // 1 to 200, default 100
}

// MessagesResult holds messages in the order of the session.
type MessagesResult struct {
	Messages []Message `json:"messages"`
	More     bool      `json:"more"` // there are more messages in this direction
}

// SendParams is an input. Sending the same turnId again returns the result of the first call.
type SendParams struct {
	SessionID uuid.UUID          `json:"sessionId"`
	Text      string             `json:"text"`
	TurnID    *uuid.UUID         `json:"turnId,omitempty"`
	QueueMode string             `json:"queueMode,omitempty"`
	Model     providers.ModelRef `json:"model,omitempty"`
	Budget    *Budget            `json:"budget,omitempty"`
	// Attachments are at most 4 files from chat.attach, 10 MB each.
	Attachments []AttachmentRef `json:"attachments,omitempty"`
}

// SendResult is the state of the turn after sending.
type SendResult struct {
	TurnID   uuid.UUID `json:"turnId"`
	State    string    `json:"state"` // queued or running
	Position int       `json:"position,omitempty"`
}

// TurnParams names a turn of a session; without one, the active turn.
type TurnParams struct {
	SessionID uuid.UUID  `json:"sessionId"`
	TurnID    *uuid.UUID `json:"turnId,omitempty"`
}

// StateResult is the state of a turn.
type StateResult struct {
	State string `json:"state"`
}

// CountResult is a number of turns.
type CountResult struct {
	Count int `json:"count"`
}

// WaitParams names a turn and the longest time to wait for it.
type WaitParams struct {
	TurnID uuid.UUID `json:"turnId"`
	WaitMs int64     `json:"waitMs,omitempty"` // at most 120000
}

// TurnResult holds a turn.
type TurnResult struct {
	Turn Turn `json:"turn"`
}

// RetryParams names a turn to answer again.
type RetryParams struct {
	TurnID uuid.UUID          `json:"turnId"`
	Model  providers.ModelRef `json:"model,omitempty"`
	// MoreTurns, MoreTokens and MoreCostMicros are added to the limits of the turn.
	MoreTurns      int              `json:"moreTurns,omitempty"`
	MoreTokens     int64            `json:"moreTokens,omitempty"`
	MoreCostMicros providers.Micros `json:"moreCostMicros,omitempty"`
}

// RenameParams sets the title of a session.
type RenameParams struct {
	SessionID uuid.UUID `json:"sessionId"`
	Title     string    `json:"title"`
}

// PinParams pins or unpins a session.
type PinParams struct {
	SessionID uuid.UUID `json:"sessionId"`
	Pinned    bool      `json:"pinned"`
}

// ModeParams sets the mode of a session.
type ModeParams struct {
	SessionID uuid.UUID `json:"sessionId"`
	Mode      string    `json:"mode"`
}

// QueueModeParams sets the queue mode of a session.
type QueueModeParams struct {
	SessionID uuid.UUID `json:"sessionId"`
	QueueMode string    `json:"queueMode"`
}

// SearchParams selects messages by words.
type SearchParams struct {
	Query     string     `json:"query"`
	SessionID *uuid.UUID `json:"sessionId,omitempty"`
	Limit     int        `json:"limit,omitempty"` // 1 to 100, default 20
}

// Hit is a message that contains the words. Highlights are byte ranges of the snippet.
type Hit struct {
	SessionID  uuid.UUID `json:"sessionId"`
	Title      string    `json:"title"`
	Seq        int64     `json:"seq"`
	Role       string    `json:"role"`
	Snippet    string    `json:"snippet"`
	Highlights [][2]int  `json:"highlights"`
	At         time.Time `json:"at"`
}

// SearchResult holds hits, best first.
type SearchResult struct {
	Hits []Hit `json:"hits"`
}

// StatusResult reports whether the agent can work.
type StatusResult struct {
	Ready   bool                 `json:"ready"` // the role chat has a model
	Roles   []providers.RoleView `json:"roles"`
	Running []Turn               `json:"running"`
	Queued  int                  `json:"queued"`
	Lanes   []Lane               `json:"lanes"`
	Budgets []BudgetView         `json:"budgets"`
	Idle    bool                 `json:"idle"`
}

// Lane is a group of turns with a limit on how many of them work at once.
type Lane struct {
	Name    string `json:"name"` // chat or background
	Running int    `json:"running"`
	Limit   int    `json:"limit"`
}

// ToolsParams names a session whose tools to list; without one, the tools of a new session.
type ToolsParams struct {
	SessionID *uuid.UUID `json:"sessionId,omitempty"`
}

// ToolView is a tool that the model may call.
type ToolView struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Origin      string `json:"origin"` // agent, builtin, tool, wasm or skill
	Tier        string `json:"tier"`
	Effect      string `json:"effect"` // none, local or external
	Egress      string `json:"egress"` // none, bounded or open
	Idempotent  bool   `json:"idempotent"`
	Tokens      int64  `json:"tokens"`
	Deferred    bool   `json:"deferred"`
	State       string `json:"state"` // ready, or the reason why a call would be refused
}

// ToolsResult lists tools by name.
type ToolsResult struct {
	Tools  []ToolView `json:"tools"`
	Tokens int64      `json:"tokens"`
	Window int        `json:"window"`
}

// The scopes of budgets.
const (
	ScopeDay      = "day"
	ScopeMonth    = "month"
	ScopeProvider = "provider"
	ScopeSession  = "session"
	ScopeAgent    = "agent"
)

// BudgetView is a limit and the amount spent against it.
type BudgetView struct {
	Scope         string           `json:"scope"`
	Key           string           `json:"key,omitempty"`
	MaxCostMicros providers.Micros `json:"maxCostMicros"` // 0: no limit
	MaxTokens     int64            `json:"maxTokens,omitempty"`
	WarnAt        float64          `json:"warnAt"` // fraction of the limit
	SpentMicros   providers.Micros `json:"spentMicros"`
	SpentTokens   int64            `json:"spentTokens"`
	Default       bool             `json:"default"` // not set by a person
}

// BudgetsResult lists the limits.
type BudgetsResult struct {
	Limits []BudgetView `json:"limits"`
}

// SetBudgetParams sets a limit; without an amount, the limit is removed.
type SetBudgetParams struct {
	Scope         string            `json:"scope"`
	Key           string            `json:"key,omitempty"`
	MaxCostMicros *providers.Micros `json:"maxCostMicros,omitempty"`
	MaxTokens     *int64            `json:"maxTokens,omitempty"`
	WarnAt        *float64          `json:"warnAt,omitempty"` // default 0.8
}

// LedgerParams selects model calls.
type LedgerParams struct {
	From    *time.Time `json:"from,omitempty"`
	GroupBy string     `json:"groupBy,omitempty"` // call (default), day, model, purpose, provider or session
	Limit   int        `json:"limit,omitempty"`   // 1 to 1000, default 100
}

// LedgerRow is one call, or the sum of a group of calls.
type LedgerRow struct {
	Key        string           `json:"key"`
	SessionID  *uuid.UUID       `json:"sessionId,omitempty"`
	TurnID     *uuid.UUID       `json:"turnId,omitempty"`
	Purpose    string           `json:"purpose,omitempty"`
	Provider   string           `json:"provider,omitempty"`
	Model      string           `json:"model,omitempty"`
	State      string           `json:"state,omitempty"`
	Calls      int              `json:"calls"`
	CostMicros providers.Micros `json:"costMicros"`
	Estimated  bool             `json:"estimated"`
	Input      int64            `json:"input"`
	Output     int64            `json:"output"`
	At         *time.Time       `json:"at,omitempty"`
}

// LedgerResult holds rows, newest first.
type LedgerResult struct {
	Rows []LedgerRow `json:"rows"`
}

// ReplayParams names a session and the sequence number to stop at; 0: the end.
type ReplayParams struct {
	SessionID uuid.UUID `json:"sessionId"`
	UntilSeq  int64     `json:"untilSeq,omitempty"`
}

// ReplayResult reports whether replaying the log produces the requests that were sent.
type ReplayResult struct {
	Identical       bool        `json:"identical"`
	Requests        int         `json:"requests"`
	FirstDifference *Difference `json:"firstDifference,omitempty"`
}

// Difference is a point at which a replay differs from the recording.
type Difference struct {
	Seq      int64  `json:"seq"`
	What     string `json:"what"`
	Expected string `json:"expected"`
	Actual   string `json:"actual"`
}
