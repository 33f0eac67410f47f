package agent

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"helix/backend/providers"
)

// Budget bounds a turn or a session. Zero fields bound nothing.
type Budget struct {
	MaxTurns      int              `json:"maxTurns,omitempty"`      // steps of a turn: calls of the model
	MaxTokens     int64            `json:"maxTokens,omitempty"`     // prompt and answer together
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

// The modes of a session: what its tools may do without a question.
const (
	ModeAsk  = "ask"  // default: everything that has an effect is asked
	ModeRead = "read" // only tools that read
	ModeWork = "work" // files of the workspace may be written without a question
)

// The queue modes: what becomes of an input that arrives during a turn.
const (
	QueueFollowup  = "followup"  // default: the next turn
	QueueSteer     = "steer"     // put in after the tools that run
	QueueCollect   = "collect"   // joined with the other inputs that wait
	QueueInterrupt = "interrupt" // cancels the turn, then runs
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
	Here          bool               `json:"here"`              // it runs on this device; elsewhere it can be read
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

// Turn is one input until its final answer.
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
	Position   int              `json:"position,omitempty"` // in the queue, from 1
	Approvals  []uuid.UUID      `json:"approvals"`          // questions in Approvals that it waits for
	Error      *TurnError       `json:"error,omitempty"`
	CreatedAt  time.Time        `json:"createdAt"`
	StartedAt  *time.Time       `json:"startedAt,omitempty"`
	FinishedAt *time.Time       `json:"finishedAt,omitempty"`
}

// TurnError is why a turn failed.
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

// Part is a piece of a message; Kind says which fields count.
type Part struct {
	Kind string `json:"kind"`
	Text string `json:"text,omitempty"` // of text, reasoning, results (at most 4 KiB) and notices

	// Of tool calls and results. The status of a call is running, waiting, done, failed, denied,
	// skipped or unknown, and is on the call.
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

	// Of images, files and sources.
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
	Seq        int64            `json:"seq"` // place in the log of the session
	TurnID     uuid.UUID        `json:"turnId"`
	Role       string           `json:"role"`
	Parts      []Part           `json:"parts"`
	Origin     *Origin          `json:"origin,omitempty"`
	Model      string           `json:"model,omitempty"`
	CostMicros providers.Micros `json:"costMicros,omitempty"`
	Hidden     bool             `json:"hidden,omitempty"` // replaced by a retry
	At         time.Time        `json:"at"`
}

// CreateParams are the settings of a new session.
type CreateParams struct {
	Title     string             `json:"title,omitempty"`
	AgentName string             `json:"agentName,omitempty"` // default: helix
	Model     providers.ModelRef `json:"model,omitempty"`
	Mode      string             `json:"mode,omitempty"`
	QueueMode string             `json:"queueMode,omitempty"`
	Budget    *Budget            `json:"budget,omitempty"`
	Remember  *bool              `json:"remember,omitempty"` // default true
	// ProjectDir is a folder whose skill documents are used, if the person trusts it.
	ProjectDir string `json:"projectDir,omitempty"`
}

// SessionParams name a session.
type SessionParams struct {
	SessionID uuid.UUID `json:"sessionId"`
}

// SessionResult holds a session.
type SessionResult struct {
	Session Session `json:"session"`
}

// ListParams choose sessions.
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

// Partial is what an answer says so far.
type Partial struct {
	TurnID  uuid.UUID `json:"turnId"`
	Attempt int       `json:"attempt"`
	Text    string    `json:"text"`
}

// QueuedInput is an input that waits for its turn.
type QueuedInput struct {
	TurnID    uuid.UUID `json:"turnId"`
	Text      string    `json:"text"`
	QueueMode string    `json:"queueMode"`
	Origin    Origin    `json:"origin"`
	Files     []string  `json:"files"` // names of its attachments
	At        time.Time `json:"at"`
}

// GetResult is a session and what happens in it.
type GetResult struct {
	Session    Session       `json:"session"`
	ActiveTurn *Turn         `json:"activeTurn,omitempty"`
	Queue      []QueuedInput `json:"queue"`
	Partial    *Partial      `json:"partial,omitempty"`
	LastSeq    int64         `json:"lastSeq"`
}

// MessagesParams choose messages: before a place, newest first to be read from the end, or after.
type MessagesParams struct {
	SessionID uuid.UUID `json:"sessionId"`
	Before    int64     `json:"before,omitempty"`
	After     int64     `json:"after,omitempty"`
	Limit     int       `json:"limit,omitempty"` // 1 to 200, default 100
}

// MessagesResult holds messages in the order of the session.
type MessagesResult struct {
	Messages []Message `json:"messages"`
	More     bool      `json:"more"` // there are others beyond
}

// SendParams are an input. The same turnId again returns the first.
type SendParams struct {
	SessionID uuid.UUID          `json:"sessionId"`
	Text      string             `json:"text"`
	TurnID    *uuid.UUID         `json:"turnId,omitempty"`
	QueueMode string             `json:"queueMode,omitempty"`
	Model     providers.ModelRef `json:"model,omitempty"`
	Budget    *Budget            `json:"budget,omitempty"`
	// Attachments are at most 4 files of chat.attach, 10 MB each.
	Attachments []AttachmentRef `json:"attachments,omitempty"`
}

// SendResult says how the turn stands.
type SendResult struct {
	TurnID   uuid.UUID `json:"turnId"`
	State    string    `json:"state"` // queued or running
	Position int       `json:"position,omitempty"`
}

// TurnParams name a turn of a session; without one, the active turn is meant.
type TurnParams struct {
	SessionID uuid.UUID  `json:"sessionId"`
	TurnID    *uuid.UUID `json:"turnId,omitempty"`
}

// StateResult says how a turn stands.
type StateResult struct {
	State string `json:"state"`
}

// CountResult counts turns.
type CountResult struct {
	Count int `json:"count"`
}

// WaitParams name a turn and how long to wait for its end.
type WaitParams struct {
	TurnID uuid.UUID `json:"turnId"`
	WaitMs int64     `json:"waitMs,omitempty"` // at most 120000
}

// TurnResult holds a turn.
type TurnResult struct {
	Turn Turn `json:"turn"`
}

// RetryParams name a turn to answer again.
type RetryParams struct {
	TurnID uuid.UUID          `json:"turnId"`
	Model  providers.ModelRef `json:"model,omitempty"`
	// MoreTurns and MoreCostMicros are added to the limits that stopped the turn.
	MoreTurns      int              `json:"moreTurns,omitempty"`
	MoreCostMicros providers.Micros `json:"moreCostMicros,omitempty"`
}

// RenameParams give a session a title.
type RenameParams struct {
	SessionID uuid.UUID `json:"sessionId"`
	Title     string    `json:"title"`
}

// PinParams pin a session.
type PinParams struct {
	SessionID uuid.UUID `json:"sessionId"`
	Pinned    bool      `json:"pinned"`
}

// ModeParams set the mode of a session.
type ModeParams struct {
	SessionID uuid.UUID `json:"sessionId"`
	Mode      string    `json:"mode"`
}

// QueueModeParams set the queue mode of a session.
type QueueModeParams struct {
	SessionID uuid.UUID `json:"sessionId"`
	QueueMode string    `json:"queueMode"`
}

// SearchParams look for words in messages.
type SearchParams struct {
	Query     string     `json:"query"`
	SessionID *uuid.UUID `json:"sessionId,omitempty"`
	Limit     int        `json:"limit,omitempty"` // 1 to 100, default 20
}

// Hit is a message that has the words. Highlights are byte ranges of the snippet.
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

// StatusResult says whether the agent can work.
type StatusResult struct {
	Ready   bool                 `json:"ready"` // the role chat has a model
	Roles   []providers.RoleView `json:"roles"`
	Running []Turn               `json:"running"`
	Queued  int                  `json:"queued"`
	Lanes   []Lane               `json:"lanes"`
	Budgets []BudgetView         `json:"budgets"`
	Idle    bool                 `json:"idle"`
}

// Lane is a group of turns that share places.
type Lane struct {
	Name    string `json:"name"` // chat or background
	Running int    `json:"running"`
	Limit   int    `json:"limit"`
}

// ToolsParams name a session whose tools are listed; none: those of a new one.
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
	State       string `json:"state"` // ready, or why a call would be refused
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

// BudgetView is a limit and what has been spent of it.
type BudgetView struct {
	Scope         string           `json:"scope"`
	Key           string           `json:"key,omitempty"`
	MaxCostMicros providers.Micros `json:"maxCostMicros"` // 0: none
	MaxTokens     int64            `json:"maxTokens,omitempty"`
	WarnAt        float64          `json:"warnAt"` // part of the limit
	SpentMicros   providers.Micros `json:"spentMicros"`
	SpentTokens   int64            `json:"spentTokens"`
	Default       bool             `json:"default"` // nobody has set it
}

// BudgetsResult lists the limits.
type BudgetsResult struct {
	Limits []BudgetView `json:"limits"`
}

// SetBudgetParams set a limit; without an amount it is removed.
type SetBudgetParams struct {
	Scope         string            `json:"scope"`
	Key           string            `json:"key,omitempty"`
	MaxCostMicros *providers.Micros `json:"maxCostMicros,omitempty"`
	MaxTokens     *int64            `json:"maxTokens,omitempty"`
	WarnAt        *float64          `json:"warnAt,omitempty"` // default 0.8
}

// LedgerParams choose calls of models.
type LedgerParams struct {
	From    *time.Time `json:"from,omitempty"`
	GroupBy string     `json:"groupBy,omitempty"` // call (default), day, model, purpose, provider or session
	Limit   int        `json:"limit,omitempty"`   // 1 to 1000, default 100
}

// LedgerRow is one call, or the sum of some.
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

// ReplayParams name a session and where to stop; 0: at its end.
type ReplayParams struct {
	SessionID uuid.UUID `json:"sessionId"`
	UntilSeq  int64     `json:"untilSeq,omitempty"`
}

// ReplayResult says whether the log gives the requests that were sent.
type ReplayResult struct {
	Identical       bool        `json:"identical"`
	Requests        int         `json:"requests"`
	FirstDifference *Difference `json:"firstDifference,omitempty"`
}

// Difference is where a replay leaves what was recorded.
type Difference struct {
	Seq      int64  `json:"seq"`
	What     string `json:"what"`
	Expected string `json:"expected"`
	Actual   string `json:"actual"`
}
