// Generated from the method table of the backend by `make generate`. Do not edit.
/* eslint-disable */

/** AddSkillParams holds one of: the path of a folder, zip file or SKILL.md on this computer; a zip file; a text. */
export interface AgentAddSkillParams {
  path?: string;
  base64?: string;
  text?: string;
}

/** AssistantDelta is chat.assistant_delta: text to insert at a byte offset of the attempt's answer. */
export interface AgentAssistantDelta {
  sessionId: string;
  turnId: string;
  attempt: number;
  offset: number;
  delta: string;
}

/** AttachParams is a file, given by its content or by the token of an upload. */
export interface AgentAttachParams {
  name: string;
  base64?: string;
  /** the token of an upload or of a file dialog */
  path?: string;
}

/** AttachResult is a file that can be attached to an input. Its type is detected from its content. */
export interface AgentAttachResult {
  blob: string;
  name: string;
  mime: string;
  bytes: number;
}

/** AttachmentRef names a file from chat.attach or from an earlier message. */
export interface AgentAttachmentRef {
  blob: string;
  /** default: its name when it was attached */
  name?: string;
}

/** AttemptDiscarded is chat.attempt_discarded: discard the text of the attempt. */
export interface AgentAttemptDiscarded {
  sessionId: string;
  turnId: string;
  attempt: number;
}

/** Budget bounds a turn or a session. A zero field sets no limit. */
export interface AgentBudget {
  /** steps of a turn: calls of the model */
  maxTurns?: number;
  /** prompts and answers together */
  maxTokens?: number;
  /** millionths of a dollar */
  maxCostMicros?: number;
  maxWallMs?: number;
}

/** BudgetEvent is chat.budget. */
export interface AgentBudgetEvent {
  sessionId: string;
  scope: string;
  spentMicros: number;
  limitMicros: number;
  /** warn or stop */
  level: string;
}

/** BudgetView is a limit and the amount spent against it. */
export interface AgentBudgetView {
  scope: string;
  key?: string;
  /** 0: no limit */
  maxCostMicros: number;
  maxTokens?: number;
  /** fraction of the limit */
  warnAt: number;
  spentMicros: number;
  spentTokens: number;
  /** not set by a person */
  default: boolean;
}

/** BudgetsResult lists the limits. */
export interface AgentBudgetsResult {
  limits: AgentBudgetView[];
}

/** Changed is agent.changed: budgets, personas or skill documents changed. */
export interface AgentChanged {
  what: string;
}

/** CheckStep reports whether a step got the arguments of its recorded call. */
export interface AgentCheckStep {
  stepId: string;
  equal: boolean;
  /** set if the arguments differ */
  expected?: unknown;
  actual?: unknown;
}

/** ContextPart is one part of the next request. */
export interface AgentContextPart {
  /** tools, system, soul, skills, summary, history or volatile */
  kind: string;
  name: string;
  /** an estimate */
  tokens: number;
  /** the service may have cached it from the last request */
  cached: boolean;
  text?: string;
}

/** ContextResult describes the next request of a chat. */
export interface AgentContextResult {
  window: number;
  used: number;
  parts: AgentContextPart[];
  /** what is left out because it does not fit, in sentences */
  omitted: string[];
  /** texts of the prompt, highest precedence first */
  precedence: string[];
}

/** CostResult is the cost of a chat. */
export interface AgentCostResult {
  costMicros: number;
  /** the part for calls whose cost the service did not report */
  estimatedMicros: number;
  tokens: ProvidersUsage;
  calls: number;
  byModel: AgentCostRow[];
  byPurpose: AgentCostRow[];
  /** by id, the newest first */
  byTurn: AgentCostRow[];
  /** additional cost of subagents, by session */
  children: AgentCostRow[];
}

/** CostRow is the sum of a group of model calls. */
export interface AgentCostRow {
  key: string;
  calls: number;
  costMicros: number;
  /** prompts and answers */
  tokens: number;
}

/** CountResult is a number of turns. */
export interface AgentCountResult {
  count: number;
}

/** CreateParams holds the settings of a new session. */
export interface AgentCreateParams {
  title?: string;
  /** default: helix */
  agentName?: string;
  model?: string;
  mode?: string;
  queueMode?: string;
  budget?: AgentBudget;
  /** default true */
  remember?: boolean;
  /** ProjectDir is a folder whose skill documents are used if the person trusts it. */
  projectDir?: string;
}

/** Difference is a point at which a replay differs from the recording. */
export interface AgentDifference {
  seq: number;
  what: string;
  expected: string;
  actual: string;
}

/** DraftCheck compares the dry run with the recorded run. */
export interface AgentDraftCheck {
  /** every step got the arguments of the recorded call */
  identical: boolean;
  problem?: string;
  steps: AgentCheckStep[];
}

/** DraftSkill is a skill made from a run. */
export interface AgentDraftSkill {
  id: string;
  name: string;
  valid: boolean;
  problems: string[];
}

/** EventsParams selects events of a session's log. */
export interface AgentEventsParams {
  sessionId: string;
  afterSeq?: number;
  /** 1 to 1000, default 1000 */
  limit?: number;
}

/** EventsResult holds events in order. */
export interface AgentEventsResult {
  events: AgentLogEvent[];
  /** last sequence number of the log */
  lastSeq: number;
}

/** ExportParams names a chat and a format. */
export interface AgentExportParams {
  sessionId: string;
  /** md (default) to read; jsonl to import again */
  format?: string;
}

/** ExportResult names the file. */
export interface AgentExportResult {
  blob: string;
  name: string;
  size: number;
}

/** ForkParams names a chat and the end of the copy. */
export interface AgentForkParams {
  sessionId: string;
  /** the copy ends with the turn of this entry; 0: with the last finished turn */
  atSeq?: number;
}

/** GetResult is a session and its current activity. */
export interface AgentGetResult {
  session: AgentSession;
  activeTurn?: AgentTurn;
  queue: AgentQueuedInput[];
  partial?: AgentPartial;
  lastSeq: number;
}

/** Hit is a message that contains the words. Highlights are byte ranges of the snippet. */
export interface AgentHit {
  sessionId: string;
  title: string;
  seq: number;
  role: string;
  snippet: string;
  highlights: number[][];
  at: string;
}

/** ImportParams names the file of an export, by its blob or by the token of an upload. */
export interface AgentImportParams {
  blob?: string;
  path?: string;
}

/** Lane is a group of turns with a limit on how many of them work at once. */
export interface AgentLane {
  /** chat or background */
  name: string;
  running: number;
  limit: number;
}

/** LedgerParams selects model calls. */
export interface AgentLedgerParams {
  from?: string;
  /** call (default), day, model, purpose, provider or session */
  groupBy?: string;
  /** 1 to 1000, default 100 */
  limit?: number;
}

/** LedgerResult holds rows, newest first. */
export interface AgentLedgerResult {
  rows: AgentLedgerRow[];
}

/** LedgerRow is one call, or the sum of a group of calls. */
export interface AgentLedgerRow {
  key: string;
  sessionId?: string;
  turnId?: string;
  purpose?: string;
  provider?: string;
  model?: string;
  state?: string;
  calls: number;
  costMicros: number;
  estimated: boolean;
  input: number;
  output: number;
  at?: string;
}

/** ListParams selects sessions. */
export interface AgentListParams {
  /** part of the title */
  query?: string;
  kind?: string;
  agentName?: string;
  includeArchived?: boolean;
  includeSubagents?: boolean;
  trash?: boolean;
  /** 1 to 100, default 50 */
  limit?: number;
  offset?: number;
}

/** ListResult holds sessions, pinned ones first, then by the newest message. */
export interface AgentListResult {
  sessions: AgentSession[];
  total: number;
}

/** LogEvent is an entry of a session's log. Data is the payload as stored. */
export interface AgentLogEvent {
  seq: number;
  type: string;
  turnId?: string;
  at: string;
  data: unknown;
}

/** MappedValue is an argument that the skill takes from an input or an earlier step. */
export interface AgentMappedValue {
  argument: string;
  from: string;
}

/** MediaAttachment is chat.media_attachment: a file shown by the model. */
export interface AgentMediaAttachment {
  sessionId: string;
  turnId: string;
  seq: number;
  blob: string;
  name: string;
  mime: string;
  bytes: number;
  text?: string;
}

/** Message is one entry of a transcript. Role is user, assistant, tool or system. */
export interface AgentMessage {
  id: string;
  sessionId: string;
  /** sequence number in the log of the session */
  seq: number;
  turnId: string;
  role: string;
  parts: AgentPart[];
  origin?: AgentOrigin;
  model?: string;
  costMicros?: number;
  /** replaced by a retry */
  hidden?: boolean;
  at: string;
}

/** MessagesParams selects messages: those before a sequence number, read backward from there, or those after one. */
export interface AgentMessagesParams {
  sessionId: string;
  before?: number;
  after?: number;
  /** 1 to 200, default 100 */
  limit?: number;
}

/** MessagesResult holds messages in the order of the session. */
export interface AgentMessagesResult {
  messages: AgentMessage[];
  /** there are more messages in this direction */
  more: boolean;
}

/** ModeParams sets the mode of a session. */
export interface AgentModeParams {
  sessionId: string;
  mode: string;
}

/** NoticeEvent is chat.notice: a sentence for people, or a question that a turn waits for. */
export interface AgentNoticeEvent {
  sessionId: string;
  turnId: string;
  seq: number;
  /** approval, loop, budget, steps, summary or unusable */
  kind: string;
  text: string;
  approvalId?: string;
  callId?: string;
}

/** Origin says who wrote an input. */
export interface AgentOrigin {
  /** user, channel, schedule, subagent, skill or import */
  kind: string;
  label?: string;
}

/** Part is a piece of a message; Kind determines which fields are set. */
export interface AgentPart {
  kind: string;
  /** for text, reasoning, results (at most 4 KiB) and notices */
  text?: string;
  /** For tool calls and results. The status of a call is running, waiting, done, failed, denied, skipped or unknown, and is set on the call. */
  callId?: string;
  tool?: string;
  title?: string;
  /** read_only, side_effecting or privileged */
  tier?: string;
  args?: unknown;
  status?: string;
  tookMs?: number;
  approvalId?: string;
  untrusted?: boolean;
  undoToken?: string;
  error?: boolean;
  /** For images, files and sources. */
  blob?: string;
  name?: string;
  mime?: string;
  bytes?: number;
  url?: string;
}

/** Partial is an answer as received so far. */
export interface AgentPartial {
  turnId: string;
  attempt: number;
  text: string;
}

/** PersonaParams names an agent; "" names the texts that apply to all agents. */
export interface AgentPersonaParams {
  name: string;
}

/** PersonaResult is an agent with its texts. Edits apply from the next chat on. */
export interface AgentPersonaResult {
  name: string;
  settings: AgentPersonaSettings;
  /** of agent.toml */
  toml: string;
  /** of SYSTEM.md */
  system: string;
  /** of SOUL.md */
  soul: string;
  /** of the texts of its prompt, the highest precedence first */
  precedence: string[];
  problems: string[];
  hash: string;
}

/** PersonaSettings are the contents of an agent.toml. Fields that are zero keep the defaults. */
export interface AgentPersonaSettings {
  title?: string;
  /** names, a trailing * matches any ending; none: all */
  tools?: string[];
  role?: string;
  model?: string;
  /** ask or read */
  mode?: string;
  budget: { maxTurns?: number; maxTokens?: number; maxCostUsd?: number };
}

/** PersonaView is an agent in a list. */
export interface AgentPersonaView {
  name: string;
  title?: string;
  /** used when no agent is named */
  default?: boolean;
  /** turns */
  running: number;
  sessions: number;
  problems: string[];
}

/** PersonasResult lists agents by name, the default agent first. */
export interface AgentPersonasResult {
  personas: AgentPersonaView[];
}

/** PinParams pins or unpins a session. */
export interface AgentPinParams {
  sessionId: string;
  pinned: boolean;
}

/** QueueModeParams sets the queue mode of a session. */
export interface AgentQueueModeParams {
  sessionId: string;
  queueMode: string;
}

/** QueuedInput is an input whose turn has not started. */
export interface AgentQueuedInput {
  turnId: string;
  text: string;
  queueMode: string;
  origin: AgentOrigin;
  /** names of its attachments */
  files: string[];
  at: string;
}

/** ReasoningDelta is chat.reasoning_delta. */
export interface AgentReasoningDelta {
  sessionId: string;
  turnId: string;
  attempt: number;
  offset: number;
  delta: string;
}

/** RemoveSkillParams names a document to remove or to restore. */
export interface AgentRemoveSkillParams {
  id: string;
  restore?: boolean;
}

/** RenameParams sets the title of a session. */
export interface AgentRenameParams {
  sessionId: string;
  title: string;
}

/** ReplayParams names a session and the sequence number to stop at; 0: the end. */
export interface AgentReplayParams {
  sessionId: string;
  untilSeq?: number;
}

/** ReplayResult reports whether replaying the log produces the requests that were sent. */
export interface AgentReplayResult {
  identical: boolean;
  requests: number;
  firstDifference?: AgentDifference;
}

/** RetryParams names a turn to answer again. */
export interface AgentRetryParams {
  turnId: string;
  model?: string;
  /** MoreTurns, MoreTokens and MoreCostMicros are added to the limits of the turn. */
  moreTurns?: number;
  moreTokens?: number;
  moreCostMicros?: number;
}

/** SearchParams selects messages by words. */
export interface AgentSearchParams {
  query: string;
  sessionId?: string;
  /** 1 to 100, default 20 */
  limit?: number;
}

/** SearchResult holds hits, best first. */
export interface AgentSearchResult {
  hits: AgentHit[];
}

/** SendParams is an input. Sending the same turnId again returns the result of the first call. */
export interface AgentSendParams {
  sessionId: string;
  text: string;
  turnId?: string;
  queueMode?: string;
  model?: string;
  budget?: AgentBudget;
  /** Attachments are at most 4 files from chat.attach, 10 MB each. */
  attachments?: AgentAttachmentRef[];
}

/** SendResult is the state of the turn after sending. */
export interface AgentSendResult {
  turnId: string;
  /** queued or running */
  state: string;
  position?: number;
}

/** Session is one conversation. */
export interface AgentSession {
  id: string;
  kind: string;
  title: string;
  agentName: string;
  mode: string;
  queueMode: string;
  /** "": the role chat */
  model?: string;
  projectDir?: string;
  budget: AgentBudget;
  remember: boolean;
  pinned: boolean;
  /** idle, queued, running or waiting */
  state: string;
  messageCount: number;
  costMicros: number;
  parentSessionId?: string;
  forkedFrom?: string;
  /** it runs on this device; on others it is read-only */
  here: boolean;
  /** it is in the trash */
  deleted?: boolean;
  lastMessageAt?: string;
  archivedAt?: string;
  createdAt: string;
  updatedAt: string;
}

/** SessionChanged is chat.session_changed. */
export interface AgentSessionChanged {
  sessionId: string;
  session?: AgentSession;
}

/** SessionCreated is chat.session_created. */
export interface AgentSessionCreated {
  sessionId: string;
  session?: AgentSession;
}

/** SessionParams names a session. */
export interface AgentSessionParams {
  sessionId: string;
}

/** SessionResult holds a session. */
export interface AgentSessionResult {
  session: AgentSession;
}

/** SetBudgetParams sets a limit; without an amount, the limit is removed. */
export interface AgentSetBudgetParams {
  scope: string;
  key?: string;
  maxCostMicros?: number;
  maxTokens?: number;
  /** default 0.8 */
  warnAt?: number;
}

/** SetPersonaParams changes files of an agent; "" names the texts that apply to all agents. An absent text is left unchanged, an empty one removes its file. */
export interface AgentSetPersonaParams {
  name: string;
  toml?: string;
  system?: string;
  soul?: string;
  /** the agent with all its files */
  remove?: boolean;
}

/** SetSkillParams allows or disables a document, or sets whether a project's folder is trusted. */
export interface AgentSetSkillParams {
  id?: string;
  enabled?: boolean;
  /** to enable: hash of the version that the person has read */
  hash?: string;
  folder?: string;
  trusted?: boolean;
}

/** SkillDiagnostic is a problem of a document. A document with an error can't be used. */
export interface AgentSkillDiagnostic {
  /** error or warning */
  level: string;
  field?: string;
  message: string;
}

/** SkillDocument is a SKILL.md document and its approval. */
export interface AgentSkillDocument {
  id: string;
  /** project, user, shared or managed, nearest first */
  source: string;
  path: string;
  /** user, agent, import or project */
  origin: string;
  state: string;
  /** of its current text and files */
  hash: string;
  tokens: number;
  diagnostics: AgentSkillDiagnostic[];
  lastUsed?: string;
  name: string;
  description: string;
  license?: string;
  compatibility?: string;
  metadata?: Record<string, string>;
  /** tools that it asks for; they are not granted by this */
  allowedTools?: string[];
  /** auto, manual or always */
  activation: string;
  requires?: string[];
  env?: string[];
  priority: number;
}

/** SkillDocumentParams names a document. */
export interface AgentSkillDocumentParams {
  id: string;
}

/** SkillDocumentResult is a document with its text. Approved is the text that was allowed last. */
export interface AgentSkillDocumentResult {
  skill: AgentSkillDocument;
  /** of SKILL.md, and the hashes of its other files */
  text: string;
  files: string[];
  approved: string;
}

/** SkillFolder is a folder that is searched for documents. */
export interface AgentSkillFolder {
  path: string;
  source: string;
  trusted: boolean;
}

/** SkillsParams may name a project whose documents are listed too. */
export interface AgentSkillsParams {
  projectDir?: string;
}

/** SkillsResult lists documents, nearest first, and the searched folders, including every trusted project. */
export interface AgentSkillsResult {
  skills: AgentSkillDocument[];
  folders: AgentSkillFolder[];
  /** of the index in a prompt */
  tokens: number;
}

/** StateResult is the state of a turn. */
export interface AgentStateResult {
  state: string;
}

/** StatusResult reports whether the agent can work. */
export interface AgentStatusResult {
  /** the role chat has a model */
  ready: boolean;
  roles: ProvidersRoleView[];
  running: AgentTurn[];
  queued: number;
  lanes: AgentLane[];
  budgets: AgentBudgetView[];
  idle: boolean;
}

/** ToSkillParams names turns of one chat. */
export interface AgentToSkillParams {
  turnIds: string[];
  /** default: derived from the input */
  name?: string;
}

/** ToSkillResult is a disabled draft, with the sources of its values and the result of its dry run. */
export interface AgentToSkillResult {
  skill: AgentDraftSkill;
  /** calls in order, including those that did not become steps */
  trace: AgentTraceStep[];
  check: AgentDraftCheck;
}

/** ToolFinished is chat.tool_finished. */
export interface AgentToolFinished {
  sessionId: string;
  turnId: string;
  seq: number;
  callId: string;
  tool: string;
  status: string;
  tookMs: number;
}

/** ToolStarted is chat.tool_started. */
export interface AgentToolStarted {
  sessionId: string;
  turnId: string;
  seq: number;
  callId: string;
  tool: string;
  args: unknown;
}

/** ToolView is a tool that the model may call. */
export interface AgentToolView {
  name: string;
  title?: string;
  description?: string;
  /** agent, builtin, tool, wasm or skill */
  origin: string;
  tier: string;
  /** none, local or external */
  effect: string;
  /** none, bounded or open */
  egress: string;
  idempotent: boolean;
  tokens: number;
  deferred: boolean;
  /** ready, or the reason why a call would be refused */
  state: string;
}

/** ToolsParams names a session whose tools to list; without one, the tools of a new session. */
export interface AgentToolsParams {
  sessionId?: string;
}

/** ToolsResult lists tools by name. */
export interface AgentToolsResult {
  tools: AgentToolView[];
  tokens: number;
  window: number;
}

/** TraceStep is a call of the run and how it was converted. */
export interface AgentTraceStep {
  stepId?: string;
  callId: string;
  tool: string;
  mapped: AgentMappedValue[];
  /** arguments that the model composed, as paths */
  literal: string[];
  /** why it did not become a step */
  dropped?: string;
}

/** TreeNode is a subagent with the subagents that it started. */
export interface AgentTreeNode {
  sessionId: string;
  turnId: string;
  /** the turn that started it */
  parentTurnId: string;
  /** the call that started it */
  callId: string;
  goal: string;
  /** of its turn */
  state: string;
  stopReason?: string;
  steps: number;
  /** including its own subagents */
  costMicros: number;
  detached?: boolean;
  children: AgentTreeNode[];
}

/** TreeResult lists the subagents of a session, oldest first. */
export interface AgentTreeResult {
  nodes: AgentTreeNode[];
}

/** Turn is the work on one input, up to the final answer. */
export interface AgentTurn {
  turnId: string;
  sessionId: string;
  state: string;
  /** streaming, toolExecution or yielding */
  phase?: string;
  /** approval, unknown_outcome or rate */
  waitReason?: string;
  stopReason?: string;
  steps: number;
  usage: ProvidersUsage;
  costMicros: number;
  provider?: string;
  model?: string;
  /** position in the queue, from 1 */
  position?: number;
  /** ids of the approvals that it waits for */
  approvals: string[];
  error?: AgentTurnError;
  createdAt: string;
  startedAt?: string;
  finishedAt?: string;
}

/** TurnCanceled is chat.turn_cancelled. */
export interface AgentTurnCanceled {
  sessionId: string;
  turn: AgentTurn;
  response?: string;
}

/** TurnCompleted is chat.turn_completed. */
export interface AgentTurnCompleted {
  sessionId: string;
  turn: AgentTurn;
  response?: string;
}

/** TurnError describes why a turn failed. */
export interface AgentTurnError {
  kind: string;
  message: string;
}

/** TurnFailed is chat.turn_failed. */
export interface AgentTurnFailed {
  sessionId: string;
  turn: AgentTurn;
  response?: string;
}

/** TurnParams names a turn of a session; without one, the active turn. */
export interface AgentTurnParams {
  sessionId: string;
  turnId?: string;
}

/** TurnProgress is chat.turn_progress. */
export interface AgentTurnProgress {
  sessionId: string;
  turnId: string;
  /** provider_call, tool_execution, rolling_summary, tool_heartbeat or waiting_rate */
  kind: string;
  /** the tool, or the service whose rate limit is waited for; "" once that wait is over */
  message: string;
  /** the step, from 1 */
  turn: number;
  maxTurns: number;
}

/** TurnResult holds a turn. */
export interface AgentTurnResult {
  turn: AgentTurn;
}

/** TurnStarted is chat.turn_started. */
export interface AgentTurnStarted {
  sessionId: string;
  turnId: string;
  seq: number;
}

/** WaitParams names a turn and the longest time to wait for it. */
export interface AgentWaitParams {
  turnId: string;
  /** at most 120000 */
  waitMs?: number;
}

/** Span is a part of a recording. */
export interface AudioSpan {
  startMs: number;
  endMs: number;
}

/** AcceptParams names the problem of a Report that came from an alarm or from the head file. */
export interface AuditAcceptParams {
  problem: string;
}

/** AcceptResult names the newest accepted alarm. */
export interface AuditAcceptResult {
  seq: number;
}

/** Appended is published for each committed entry. */
export interface AuditAppended {
  seq: number;
  action: string;
  subject: AuditWireSubject;
  outcome: string;
}

/** DeviceKeyResult is the key that signs this device's part of the log. */
export interface AuditDeviceKeyResult {
  deviceId: string;
  /** Ed25519, 64 hexadecimal characters */
  publicKey: string;
}

/** EraseParams selects the details to erase. Exactly one field is set. */
export interface AuditEraseParams {
  subjectId?: string;
  before?: string;
}

/** EraseResult counts what was erased. */
export interface AuditEraseResult {
  erased: number;
}

/** ExportParams sets the destination and the content of an export. */
export interface AuditExportParams {
  /** absolute; must not exist */
  path: string;
  from?: string;
  to?: string;
}

/** ExportResult describes the written file. */
export interface AuditExportResult {
  path: string;
  entries: number;
  segments: number;
}

/** GetParams identifies an entry. */
export interface AuditGetParams {
  seq: number;
}

/** GetResult is an entry with its position in the chain. */
export interface AuditGetResult {
  prevHash: string;
  detailsHash: string;
  /** the details were erased */
  erased: boolean;
  previous?: number;
  following?: number;
  segment?: AuditSegment;
  seq: number;
  id: string;
  timestamp: string;
  /** milliseconds since 1970 */
  ts: number;
  action: string;
  actor: AuditWireActor;
  subject: AuditWireSubject;
  outcome: string;
  runId?: string;
  /** null if there are none or they were erased */
  details: unknown;
  /** hexadecimal */
  hash: string;
  /** included in a signed segment */
  signed: boolean;
}

/** ListParams filters entries. Times are inclusive. */
export interface AuditListParams {
  from?: string;
  to?: string;
  actions?: string[];
  subjectId?: string;
  runId?: string;
  outcome?: string;
  /** substring of an action, id or detail, ignoring case */
  text?: string;
  /** 1..100, default 50 */
  limit?: number;
  /** only entries with a smaller seq */
  before?: number;
}

/** ListResult is one page, newest first. */
export interface AuditListResult {
  entries: AuditLogEntry[];
  /** Next is the value of before for the next page. It may be set even if the page is not full or empty, because the search for a page is limited to 20 ms. */
  next?: number;
}

/** LogEntry is an entry as shown in Activity. */
export interface AuditLogEntry {
  seq: number;
  id: string;
  timestamp: string;
  /** milliseconds since 1970 */
  ts: number;
  action: string;
  actor: AuditWireActor;
  subject: AuditWireSubject;
  outcome: string;
  runId?: string;
  /** null if there are none or they were erased */
  details: unknown;
  /** hexadecimal */
  hash: string;
  /** included in a signed segment */
  signed: boolean;
}

/** Report is the result of a verification. Nothing is ever repaired. */
export interface AuditReport {
  ok: boolean;
  entries: number;
  segments: number;
  firstSeq: number;
  lastSeq: number;
  /** the last entry in a signed segment */
  signedThrough: number;
  /** number of entries after it */
  unsigned: number;
  /** entries whose details were erased */
  erased: number;
  /** entries up to here were pruned */
  prunedThrough: number;
  problem?: string;
  /** description of the problem */
  message?: string;
  /** found earlier, or about the head file; audit.accept acknowledges it */
  alarm?: boolean;
  firstBadSeq?: number;
  expected?: string;
  found?: string;
  checkedAt: string;
}

/** Segment is a signed part of the log. */
export interface AuditSegment {
  no: number;
  firstSeq: number;
  lastSeq: number;
  /** RFC 6962 tree head, hexadecimal */
  root: string;
  publicKey: string;
  signedAt: string;
}

/** VerifyParams limits a verification to the segments that overlap a period; absent: everything. */
export interface AuditVerifyParams {
  from?: string;
  to?: string;
}

/** WireActor is who performed the action. */
export interface AuditWireActor {
  kind: string;
  id: string;
  /** of a token: its name when it was created */
  name?: string;
  /** of a user: window, browser or terminal, if known */
  client?: string;
}

/** WireSubject is what the action was performed on, or what performed it on the user's behalf. */
export interface AuditWireSubject {
  kind: string;
  id: string;
  /** current name, if it still exists */
  name?: string;
}

/** AppState is the state of the program around the backend. */
export interface BackendAppState {
  talkMode: boolean;
  recording: boolean;
  backgroundPaused: boolean;
  /** linux, windows or darwin */
  platform: string;
  pinnedSkills: SkillsPinnedSkill[];
  visible: boolean;
  focused: boolean;
  /** TrayHost reports whether the tray icon is visible somewhere, so that the window may be hidden. */
  trayHost: boolean;
  /** Autostart is whether Helix starts with the computer, as the system has it. */
  autostart: boolean;
  hotkey: BackendHotkeyState;
  /** Notices is why the desktop shows no notifications; "": it does. */
  noticesReason?: string;
  /** Display is the window system: x11, wayland, windows or macos; none without a window. */
  display: string;
}

/** CancelSkillResult is the state of the run after the call. */
export interface BackendCancelSkillResult {
  status: string;
  /** it was running and is ending now, or was already canceled */
  canceled: boolean;
}

/** ExecuteSkillParams run a skill of either kind by its id, or a composite skill that is not saved. */
export interface BackendExecuteSkillParams {
  skillId?: string;
  skill?: unknown;
  /** default {} */
  input?: unknown;
  /** of a composite skill */
  version?: string;
  /** of a composite skill: return at once */
  async?: boolean;
  /** of a composite skill: how long to wait for the end, default 120000 */
  waitMs?: number;
  /** of a composite skill: the same id returns the same run */
  requestId?: string;
  /** of a WASM tool: lowers its time limit */
  timeoutMs?: number;
  /** of a WASM tool: wait up to 120 s for an approval */
  interactive?: boolean;
}

/** HotkeyState is the state of the hotkey. */
export interface BackendHotkeyState {
  keys: string;
  /** off, active or unavailable */
  state: string;
  /** taken, unsupported or invalid, if it is unavailable */
  code?: string;
  /** why it is unavailable */
  reason?: string;
}

/** PauseBackgroundParams set how long background work is paused, or resume it. */
export interface BackendPauseBackgroundParams {
  /** 1h, tomorrow or forever, which is until it is resumed; "": forever */
  for?: string;
  resume?: boolean;
}

/** SetAutostartParams switch autostart on or off. */
export interface BackendSetAutostartParams {
  enabled: boolean;
}

/** SetHotkeyParams set the keys of the hotkey. */
export interface BackendSetHotkeyParams {
  /** such as Ctrl+Shift+Space; "": none */
  keys: string;
}

/** NthDay is, for example, the second Monday of the month. */
export interface CadenceNthDay {
  nth: number;
  weekday: number;
}

/** Parts describes a cadence in a structured form, so that a client can translate it. Words describes it in English. Sunday is 0, January is 1. */
export interface CadenceParts {
  /** of an interval; the fields below are of a cron expression */
  everySecs?: number;
  /** of a single time */
  at?: string;
  /** times of day, 09:00 or 09:00:30; when empty, the three sets below */
  times?: string[];
  /** nil: at second 0 */
  seconds?: CadenceSet;
  minutes?: CadenceSet;
  /** nil: every hour */
  hours?: CadenceSet;
  /** every n-th day from the 1st */
  dayStep?: number;
  /** of the month */
  days?: number[];
  /** the working days nearest to these days of the month */
  nearestDays?: number[];
  lastDay?: boolean;
  weekdays?: number[];
  nthWeekdays?: CadenceNthDay[];
  /** the last such weekday of the month */
  lastWeekdays?: number[];
  /** a day must match both the days of the month and of the week; otherwise either */
  bothDays?: boolean;
  /** empty: every month */
  months?: number[];
  timezone?: string;
}

/** Set is the seconds, minutes or hours of a cron expression. If it has no fields it matches all values. */
export interface CadenceSet {
  /** every n-th value from 0 */
  step?: number;
  first?: number;
  last?: number;
  values?: number[];
}

/** CallParams identifies a callable and contains its input. */
export interface CallableCallParams {
  /** "": any */
  kind?: string;
  id?: string;
  /** alternative to id */
  name?: string;
  version?: string;
  /** reject any other definition */
  hash?: string;
  timeoutMs?: number;
  idempotencyKey?: string;
  /** Interactive lets a tool wait up to 120 s for the answer to a question. */
  interactive?: boolean;
  /** default {} */
  input?: unknown;
}

/** CallResult is the result of the call. */
export interface CallableCallResult {
  name: string;
  kind: string;
  id: string;
  /** nil: null */
  output: unknown;
  notes?: string[];
  untrusted?: boolean;
  usage: CallableUsage;
}

/** Effects describe what a call may do, like the annotations of MCP. */
export interface CallableEffects {
  /** changes nothing outside itself */
  readOnly: boolean;
  /** calls with the same key take effect once */
  idempotent: boolean;
  /** may delete or overwrite */
  destructive: boolean;
  /** has effects beyond this computer */
  openWorld: boolean;
}

/** Info describes a callable for callers, pickers, models and permission prompts. */
export interface CallableInfo {
  name: string;
  title?: string;
  description?: string;
  /** of its definition */
  hash?: string;
  /** "": it has no versions that can be pinned */
  version?: string;
  /** JSON Schema 2020-12 */
  input?: unknown;
  output?: unknown;
  effects: CallableEffects;
  capabilities?: string[];
  /** its results contain text from outside */
  untrusted?: boolean;
  /** why a call would be refused now; "": it would not be */
  blocked?: string;
  kind: string;
  id: string;
}

/** ListParams filters callables. */
export interface CallableListParams {
  kind?: string;
  /** substring of the name or the description */
  query?: string;
  /** Limit is the maximum number of results, 1 to 500. With a limit each callable is also checked as for a call, so that blocked is complete; without one, blocked contains only what is known without this check. */
  limit?: number;
}

/** ListResult contains callables sorted by kind and name. */
export interface CallableListResult {
  callables: CallableInfo[];
}

/** Usage is what a call cost. */
export interface CallableUsage {
  turns?: number;
  costMicros?: number;
}

/** Device is a microphone. */
export interface CaptureDevice {
  id: string;
  name: string;
  isDefault: boolean;
  /** in hertz; 0: unknown or any */
  sampleRate?: number;
  channels?: number;
  /** the sound system, such as PulseAudio */
  backend: string;
}

/** AddParams describe a new channel. */
export interface ChannelsAddParams {
  /** telegram or webhook */
  kind: string;
  name: string;
  config: ChannelsConfig;
  /** of a Telegram bot, from @BotFather */
  token?: string;
}

/** AddResult is a new channel. The secret is shown only once. */
export interface ChannelsAddResult {
  channel: ChannelsChannel;
  /** with which requests of a webhook are signed */
  secret?: string;
}

/** AllowParams describe an entry of the allow-list. */
export interface ChannelsAllowParams {
  id: string;
  /** the service's id, never a name */
  senderId: string;
  label?: string;
  contextIds?: string[];
  /** chat (default) or notify */
  role?: string;
}

/** Binding says which chat a conversation of a channel continues. */
export interface ChannelsBinding {
  contextId: string;
  sessionId: string;
  /** of the chat; "": it was deleted */
  title: string;
  lastAt: string;
}

/** Changed is published when the state of a channel changes. */
export interface ChannelsChanged {
  id: string;
  state: string;
}

/** Channel is a channel with its state. */
export interface ChannelsChannel {
  id: string;
  kind: string;
  name: string;
  config: ChannelsConfig;
  enabled: boolean;
  /** connected, disconnected, error or disabled */
  state: string;
  since?: string;
  /** name of the bot */
  account?: string;
  /** it runs on this device */
  here: boolean;
  /** where a webhook channel receives */
  hookUrl?: string;
  error?: string;
  lastIn?: string;
  lastOut?: string;
  /** messages that wait, in both directions */
  queued: number;
  rejected24h: number;
}

/** Config is what a channel connects to. Which fields apply depends on its kind. */
export interface ChannelsConfig {
  /** URL is where a webhook channel sends replies, or the Bot API server of a Telegram channel (empty: Telegram's own): https, or http to this computer. */
  url?: string;
}

/** ContextParams name a conversation of a channel. */
export interface ChannelsContextParams {
  id: string;
  contextId: string;
}

/** EnabledParams switch a channel on or off. */
export interface ChannelsEnabledParams {
  id: string;
  enabled: boolean;
}

/** IDParams name a channel. */
export interface ChannelsIDParams {
  id: string;
}

/** ListResult lists channels by name. */
export interface ChannelsListResult {
  channels: ChannelsChannel[];
}

/** Message is published when a message was received or sent. */
export interface ChannelsMessage {
  id: string;
  /** in or out */
  direction: string;
  contextId: string;
}

/** MessageParams name a message. */
export interface ChannelsMessageParams {
  messageId: string;
}

/** MessageResult is the state of a message. */
export interface ChannelsMessageResult {
  messageId: string;
  state: string;
}

/** PairResult is a pairing code. The person to be allowed sends "/pair CODE" to the channel. */
export interface ChannelsPairResult {
  code: string;
  expiresAt: string;
}

/** Patch holds the changes of a channel; what it does not have stays. */
export interface ChannelsPatch {
  name?: string;
  config?: ChannelsConfig;
  /** of a Telegram bot */
  token?: string;
  /** RemoveWebhook makes Telegram stop sending the bot's messages to a webhook that another program set. */
  removeWebhook?: boolean;
  /** RotateSecret makes a new signing secret. The former one stays valid until the next rotation. */
  rotateSecret?: boolean;
  /** TakeOver moves a channel from another device to this one. */
  takeOver?: boolean;
}

/** QueueParams select queued messages. */
export interface ChannelsQueueParams {
  id?: string;
  state?: string;
  /** 1 to 100, default 50 */
  limit?: number;
  offset?: number;
}

/** QueueResult lists messages, newest first. */
export interface ChannelsQueueResult {
  messages: ChannelsQueued[];
}

/** Queued is a message that was received or is to be sent. */
export interface ChannelsQueued {
  messageId: string;
  channelId: string;
  /** in or out */
  direction: string;
  contextId: string;
  state: string;
  attempts: number;
  error?: string;
  at: string;
}

/** Rejected is published when messages were refused. */
export interface ChannelsRejected {
  id: string;
  count: number;
}

/** RejectedParams select refused messages. */
export interface ChannelsRejectedParams {
  id?: string;
  from?: string;
  /** the timestamp of the last entry of the page before */
  before?: string;
  /** 1 to 100, default 50 */
  limit?: number;
}

/** RejectedResult lists refused messages, newest first. */
export interface ChannelsRejectedResult {
  entries: ChannelsRejection[];
}

/** Rejection counts refused messages of a sender. It has no text. Senders over the limit of rows are counted together, without ids. */
export interface ChannelsRejection {
  /** of the last one */
  timestamp: string;
  channel: string;
  channelId: string;
  senderId: string;
  context: string;
  /** not_allowed, context, rate, size, signature, replay or pairing */
  reason: string;
  count: number;
}

/** RemoveResult holds the token with which a removal can be undone. */
export interface ChannelsRemoveResult {
  undoToken: string;
}

/** Route says where the notifications of a topic go besides the window, which shows all of them. */
export interface ChannelsRoute {
  /** schedule, approval, job or system */
  topic: string;
  /** window, or channel:<id>:<contextId> */
  target: string;
  /** always; away: while no window had the focus for 5 minutes; or never */
  when: string;
}

/** RoutesResult has one route for each topic. */
export interface ChannelsRoutesResult {
  routes: ChannelsRoute[];
}

/** SendParams are a message to a conversation of a channel. */
export interface ChannelsSendParams {
  id: string;
  contextId: string;
  text: string;
  /** NotifyOnly sends a notification: it expires after 6 hours instead of 24, and makes room for replies. */
  notifyOnly?: boolean;
}

/** SendResult is a queued message. */
export interface ChannelsSendResult {
  messageId: string;
  state: string;
}

/** Sender is an entry of the allow-list. */
export interface ChannelsSender {
  senderId: string;
  label: string;
  /** groups in which the sender is allowed too */
  contextIds: string[];
  /** chat, or notify: it only receives */
  role: string;
  /** user or pairing */
  addedBy: string;
  addedAt: string;
  lastSeen?: string;
}

/** SenderParams name an entry of the allow-list. */
export interface ChannelsSenderParams {
  id: string;
  senderId: string;
}

/** SendersResult is an allow-list. Nobody else gets an answer. */
export interface ChannelsSendersResult {
  senders: ChannelsSender[];
}

/** SessionsResult lists the conversations of a channel. */
export interface ChannelsSessionsResult {
  bindings: ChannelsBinding[];
}

/** TestResult lists the steps up to the first that failed. */
export interface ChannelsTestResult {
  ok: boolean;
  steps: ChannelsTestStep[];
}

/** TestStep is a step of the test of a channel. */
export interface ChannelsTestStep {
  /** device, settings, connect or senders */
  step: string;
  ok: boolean;
  ms: number;
  /** what is wrong */
  error?: string;
  /** what to do about it */
  hint?: string;
}

/** UndoParams hold the token of a removal. */
export interface ChannelsUndoParams {
  undoToken: string;
}

/** UpdateParams change a channel. */
export interface ChannelsUpdateParams {
  id: string;
  patch: ChannelsPatch;
}

/** Applied is published when rows from other devices were stored. */
export interface CloudsyncApplied {
  rows: number;
}

/** ChangeParams is a Delta frame of the relay. */
export interface CloudsyncChangeParams {
  /** a synced table */
  entity_type: string;
  entity_id: string;
  /** an object of columns; omitted ones stay unchanged */
  data?: unknown;
  deleted?: boolean;
  /** VectorClock holds, for each device, the number of its changes to the item that the caller knows, with the caller's own raised by one. A number above 2^53-1 is a string. */
  vector_clock: unknown;
  /** an id that the program made; it belongs to its token */
  device_id: string;
}

/** ChangeResult is the Ack frame of the relay. */
export interface CloudsyncChangeResult {
  seq: string;
  /** applied, merged or duplicate */
  result: string;
}

/** ConflictInfo is one conflict. Mine is the value this device wrote or, if another device merged the two versions, the value of the merging device. */
export interface CloudsyncConflictInfo {
  id: string;
  tableName: string;
  rowId: string;
  /** of the row, or the beginning of its text */
  title: string;
  kind: string;
  strategy: string;
  /** Field is the column, or definition for all columns that the definition hash covers. */
  field: string;
  /** FieldType is text, json, number, boolean, time, definition (an object of columns) or deleted. */
  fieldType: string;
  base: unknown;
  mine: unknown;
  theirs: unknown;
  /** ItemText is what the edit kept; only if the other device deleted the item. */
  itemText?: string;
  /** MineDevice and TheirsDevice are the names of the devices that wrote the two values; empty if unknown. */
  mineDevice: string;
  theirsDevice: string;
  mineAt?: string | null;
  theirsAt?: string | null;
  /** Suggested is the side whose value the row has now: mine or theirs; empty if it has neither. */
  suggested: string;
  /** CanKeepBoth reports whether the choice both is available, which creates a second row. */
  canKeepBoth: boolean;
  status: string;
  resolution?: string;
  createdAt: string;
}

/** ConflictsChanged is published when conflicts were added or resolved. */
export type CloudsyncConflictsChanged = Record<string, never>;

/** ConflictsParams select conflicts. */
export interface CloudsyncConflictsParams {
  /** Status is open, resolved, auto or all; default open. In an auto conflict the later write won, and the other value was kept. */
  status?: string;
  tableName?: string;
  limit?: number;
  offset?: number;
}

/** ConflictsResult is one page of conflicts, newest first. */
export interface CloudsyncConflictsResult {
  conflicts: CloudsyncConflictInfo[];
  total: number;
}

/** CoordinateParams select what to exchange. */
export interface CloudsyncCoordinateParams {
  /** Action is now, push or pull; default now, which does both. */
  action?: string;
}

/** CoordinateResult reports what an exchange did. */
export interface CloudsyncCoordinateResult {
  status: string;
  cursor: string;
  durationMs: number;
  pushed: number;
  pulled: number;
  merged: number;
  conflicts: number;
  deadLetters: number;
}

/** DayStatistics is what one device exchanged on one day, in UTC. */
export interface CloudsyncDayStatistics {
  day: string;
  deviceId: string;
  name: string;
  pushed: number;
  pulled: number;
  merged: number;
  conflicts: number;
  deadLetters: number;
  bytesUp: number;
  bytesDown: number;
}

/** DeadLetterInfo is one item that could not be synced. */
export interface CloudsyncDeadLetterInfo {
  id: string;
  /** out: rejected by the hub; in: could not be stored on this device */
  direction: string;
  tableName: string;
  rowId: string;
  title: string;
  sqlState?: string;
  message: string;
  attempts: number;
  createdAt: string;
}

/** DeadLettersChanged is published when a dead letter was added, retried or discarded. */
export type CloudsyncDeadLettersChanged = Record<string, never>;

/** DeadLettersResult lists dead letters, oldest first. */
export interface CloudsyncDeadLettersResult {
  deadLetters: CloudsyncDeadLetterInfo[];
}

/** DeviceInfo is one device of the person. */
export interface CloudsyncDeviceInfo {
  id: string;
  name: string;
  platform: string;
  site: number;
  lastSeen?: string | null;
  /** AckedSeq is the position in the hub's feed up to which the device has stored entries, as a decimal string. Behind is the number of entries after it. */
  ackedSeq: unknown;
  behind: number;
  current: boolean;
  revokedAt?: string;
}

/** DevicePresence is the presence of a device. */
export interface CloudsyncDevicePresence {
  deviceId: string;
  name: string;
  platform: string;
  /** State is online, idle (no change on the device for ten minutes) or offline (no heartbeat for three minutes). */
  state: string;
  lastSeen: string;
}

/** DevicesResult lists devices, oldest first. */
export interface CloudsyncDevicesResult {
  devices: CloudsyncDeviceInfo[];
}

/** DiscardResult reports where the discarded item was written. */
export interface CloudsyncDiscardResult {
  /** path on the computer that runs Helix */
  path: string;
}

/** EnrollParams hold the link of an invitation, or a recovery code. */
export interface CloudsyncEnrollParams {
  code: string;
  name?: string;
}

/** HubInfo describes the hub. */
export interface CloudsyncHubInfo {
  host: string;
  schemaVersion: number;
  encrypted: boolean;
  /** Vectors reports whether the hub can store the embeddings of memories, and Embeddings whether this device sends them. */
  vectors: boolean;
  embeddings: string;
}

/** InviteParams describe the device to invite. */
export interface CloudsyncInviteParams {
  name?: string;
}

/** InviteResult is an invitation. Anyone who has the link before it expires can join as a device of this person. */
export interface CloudsyncInviteResult {
  link: string;
  expiresAt: string;
}

/** PresenceResult lists the devices that have sent a heartbeat. */
export interface CloudsyncPresenceResult {
  devices: CloudsyncDevicePresence[];
}

/** Progress is the progress of the first copy. */
export interface CloudsyncProgress {
  table: string;
  rows: number;
  of: number;
  bytesPerSecond: number;
  etaMs: number;
}

/** Project identifies a Supabase project and the account of a person in it. */
export interface CloudsyncProject {
  url: string;
  publishableKey: string;
  email: string;
}

/** RecoveryResult holds a recovery code. It is not stored, so it can be shown only once. */
export interface CloudsyncRecoveryResult {
  code: string;
}

/** RenameParams rename a device. */
export interface CloudsyncRenameParams {
  id: string;
  name: string;
}

/** ResolveParams decide one conflict, a list of them, or all open ones. With several, those to which the choice does not apply are skipped. */
export interface CloudsyncResolveParams {
  conflictId?: string;
  conflictIds?: string[];
  /** All selects all open conflicts; with TableName, those of a table. */
  all?: boolean;
  tableName?: string;
  /** Limit ends a call with All once it has resolved at least this many conflicts; 0 means no limit. */
  limit?: number;
  /** Choice is mine, theirs, both or merged. If one device deleted the row and the other edited it, mine and theirs are the deletion and the edit. With both, the row keeps mine and a second row gets theirs. Only one conflict can be merged. */
  choice: string;
  /** Value is the merged value; only for the choice merged. */
  value?: unknown;
}

/** ResolveResult describes what was written. */
export interface CloudsyncResolveResult {
  /** RowID is the row of the last resolved conflict. */
  rowId: string;
  /** NewRowID is the id of its second row; only for the choice both. */
  newRowId?: string;
  /** UndoToken undoes all resolutions of the call with sync.undo_resolve; valid for ten minutes. It is empty if none was resolved. */
  undoToken: string;
  resolved: number;
  skipped: number;
}

/** RetryParams name a dead letter. */
export interface CloudsyncRetryParams {
  id: string;
}

/** RevokeParams name a device. */
export interface CloudsyncRevokeParams {
  id: string;
}

/** RotateKeyResult reports the key for new data. */
export interface CloudsyncRotateKeyResult {
  keyVersion: number;
  /** Queued is the number of rows that the next exchanges encrypt again. */
  queued: number;
}

/** SelftestCheck is the result of one check of the self-test. */
export interface CloudsyncSelftestCheck {
  name: string;
  ok: boolean;
  /** why the check failed */
  reason?: string;
}

/** SelftestParams hold the administrator's connection string, with which temporary users are created for the test and removed afterwards. */
export interface CloudsyncSelftestParams {
  adminDsn: string;
}

/** SelftestResult reports whether the hub keeps its rules against clients that break them. */
export interface CloudsyncSelftestResult {
  passed: number;
  failed: number;
  checks: CloudsyncSelftestCheck[];
}

/** SetupParams identify the hub: a database to set up, or a project where somebody has done that, with the code that SignIn has sent. */
export interface CloudsyncSetupParams {
  /** AdminDSN is the connection string of a database user who may create roles. It is used once and never stored. */
  adminDsn?: string;
  /** Project and Code connect the first device of a person who has no access to the database itself. */
  project?: CloudsyncProject;
  code?: string;
  /** Encrypt reports whether sensitive columns are encrypted before they leave the device; default true. */
  encrypt?: boolean;
  /** Name is the name of this device that the others show; default the name of the computer. */
  name?: string;
}

/** SetupResult describes this device at the hub. */
export interface CloudsyncSetupResult {
  userId: string;
  deviceId: string;
  site: number;
  /** Migrations is the number of migrations that were applied. */
  migrations: number;
  encrypted: boolean;
  /** Vectors reports whether the hub can store the embeddings of memories. */
  vectors: boolean;
  /** RecoveryCode lets a device join when no other device is left. It is shown once, and only to the first device. It is empty if a firewall blocks the database; create one later. */
  recoveryCode?: string;
  /** Checks is the number of self-test checks that the hub passed. */
  checks: number;
  /** Updated reports that the database was this device's hub already, and that its schema was updated. */
  updated?: boolean;
}

/** StatisticsParams select the days. */
export interface CloudsyncStatisticsParams {
  /** Days is the number of days up to today; 1 to 366, default 30. */
  days?: number;
}

/** StatisticsResult lists days, newest first. */
export interface CloudsyncStatisticsResult {
  days: CloudsyncDayStatistics[];
}

/** StatusChanged is published when the state or the error changes. */
export interface CloudsyncStatusChanged {
  state: string;
  error?: string;
}

/** StatusResult is the state of sync. */
export interface CloudsyncStatusResult {
  state: string;
  /** Initial is the progress of the first copy while it is running. */
  initial?: CloudsyncProgress;
  isOnline: boolean;
  isSyncing: boolean;
  queueLength: number;
  failedCount: number;
  conflicts: number;
  lastSyncTime?: string | null;
  /** LastChange is when something was last sent or received. */
  lastChange?: string | null;
  /** Devices is the number of devices of this person that this device knows of. */
  devices: number;
  /** Cursor and Head are positions in the hub's feed, as decimal strings: what this device has stored, and the end. */
  cursor: string;
  head: string;
  clockOffsetMs: number;
  hub?: CloudsyncHubInfo;
  device?: string;
  site?: number;
  error?: string;
  problem?: string;
}

/** UndoResolveParams hold the token of a resolution. */
export interface CloudsyncUndoResolveParams {
  undoToken: string;
}

/** Changed is published when settings have changed. */
export interface ConfigChanged {
  keys: string[];
}

/** GetParams select settings. */
export interface ConfigGetParams {
  /** Keys to return; none means all. */
  keys?: string[];
}

/** GetResult contains values by key. */
export interface ConfigGetResult {
  values: Record<string, unknown>;
  /** Sources is where each value came from: default, file, .env, environment or flag. */
  sources: Record<string, string>;
}

/** SetParams change settings. */
export interface ConfigSetParams {
  /** Values by key; null resets to the default. */
  values: Record<string, unknown>;
}

/** SetResult describes the effect of a change. */
export interface ConfigSetResult {
  /** Applied lists the keys whose value changed, sorted. */
  applied: string[];
  /** Restart lists those of them that take effect after a restart. */
  restart: string[];
}

/** Chunk is a piece of output of a command. */
export interface ContainerChunk {
  /** from 1, without holes */
  seq: number;
  /** stdout or stderr */
  stream: string;
  data: string;
}

/** Image is an image on this computer. */
export interface ContainerImage {
  ref: string;
  /** sha256:… */
  id: string;
  /** of its repository; "": it was imported */
  digest: string;
  sizeBytes: number;
  createdAt: string;
}

/** Info describes the engine. */
export interface ContainerInfo {
  /** docker or podman */
  kind: string;
  version: string;
  apiVersion: string;
  endpoint: string;
  rootless: boolean;
  runtime: string;
  cgroup: string;
  storageDriver: string;
}

/** Limits of one run. A zero field means the default. */
export interface ContainerLimits {
  memoryBytes?: number;
  /** largest file that can be written */
  storageBytes?: number;
  outputBytes?: number;
  /** of standard error, the end is kept */
  logBytes?: number;
  /** of one core */
  cpuPercent?: number;
  pids?: number;
  /** open files of a process */
  noFile?: number;
}

/** Reason is one limitation, with what to do about it. */
export interface ContainerReason {
  code: string;
  message: string;
  hint: string;
}

/** Running is a run in progress. */
export interface ContainerRunning {
  runId: string;
  /** "": it is being created */
  containerId?: string;
  /** of the tool, or what else runs */
  name: string;
  /** a shell session */
  session?: boolean;
  image: string;
  phase: string;
  startedAt: string;
  deadline?: string;
}

/** Status is what is available on this computer. */
export interface ContainerStatus {
  /** absent: none was found */
  engine?: ContainerInfo;
  tiers: ContainerTier[];
  /** how containers reach granted hosts: socket, attach or none */
  egress: string;
  /** how stored data is limited: hard by the file system, or guard by measuring */
  quota: string;
  /** containers that wait for a run */
  pool: number;
  running: ContainerRunning[];
  checkedAt?: string;
}

/** Tier is one level of isolation. */
export interface ContainerTier {
  /** process, container or microvm */
  tier: string;
  available: boolean;
  reasons: ContainerReason[];
}

/** AddParams describe a tool. */
export interface ContainertoolsAddParams {
  name: string;
  description?: string;
  /** reference or id of an image on this computer */
  image: string;
  /** default: what the image starts */
  argv?: string[];
  input?: unknown;
  output?: unknown;
  limits?: ContainerLimits;
  /** 1..600, default 30 */
  timeoutSeconds?: number;
  /** such as api.example.com, *.example.com:8443 or localhost:3000 */
  hosts?: string[];
  /** quota of files that stay between runs, in /data; default: none */
  stateBytes?: number;
  /** used as {{secret:NAME}} in requests through HELIX_EGRESS_URL */
  secrets?: string[];
}

/** ApproveParams approve one definition of a tool. */
export interface ContainertoolsApproveParams {
  toolId: string;
  /** the one that was shown */
  definitionHash: string;
}

/** CancelResult says whether a pull was in progress. */
export interface ContainertoolsCancelResult {
  canceled: boolean;
}

/** Definition is what a tool runs. A change of any part needs another approval. */
export interface ContainertoolsDefinition {
  name: string;
  description: string;
  /** as it was named */
  image: string;
  /** what runs */
  imageId: string;
  /** in its repository; "": imported */
  digest: string;
  /** empty: what the image starts */
  argv: string[];
  /** JSON Schema of the parameters */
  input: unknown;
  /** JSON Schema of standard output; null: any text */
  output: unknown;
  limits: ContainerLimits;
  timeoutSeconds: number;
  /** that it may reach over TLS: name[:port], or localhost:port without it */
  hosts?: string[];
  /** quota of files in /data that stay between runs; 0: none */
  stateBytes?: number;
  /** names of secrets that Helix may fill into its requests */
  secrets?: string[];
}

/** EnableParams switch a tool on or off. */
export interface ContainertoolsEnableParams {
  toolId: string;
  enabled: boolean;
}

/** Image is an image on this computer. */
export interface ContainertoolsImage {
  /** names of tools */
  usedBy: string[];
  ref: string;
  /** sha256:… */
  id: string;
  /** of its repository; "": it was imported */
  digest: string;
  sizeBytes: number;
  createdAt: string;
}

/** ImageParams name an image. */
export interface ContainertoolsImageParams {
  ref: string;
}

/** ImagesResult lists images. */
export interface ContainertoolsImagesResult {
  images: ContainertoolsImage[];
}

/** ImportImageParams name what an image is made of. */
export interface ContainertoolsImportImageParams {
  /** a folder, a static program, or an image archive (.tar, .tar.gz) */
  path: string;
  name: string;
}

/** JobParams name a pull. */
export interface ContainertoolsJobParams {
  jobId: string;
}

/** KillResult says whether a run was in progress. */
export interface ContainertoolsKillResult {
  killed: boolean;
}

/** Pull is the job of getting an image from its registry. It is also the event container.pull. */
export interface ContainertoolsPull {
  jobId: string;
  ref: string;
  /** running, done, failed or canceled */
  status: string;
  /** bytes */
  done: number;
  /** bytes of the layers that are known so far; 0: none is */
  size: number;
  image?: ContainerImage;
  error?: string;
  startedAt: string;
}

/** PullParams name an image in a registry. */
export interface ContainertoolsPullParams {
  ref: string;
  /** sha256:…; any other image is refused */
  digest?: string;
}

/** PullResult is a job that has started. */
export interface ContainertoolsPullResult {
  jobId: string;
}

/** PullsResult lists pulls. */
export interface ContainertoolsPullsResult {
  pulls: ContainertoolsPull[];
}

/** RemovedResult is what was removed. */
export interface ContainertoolsRemovedResult {
  removed: string[];
}

/** RevokeResult is what was removed. */
export interface ContainertoolsRevokeResult {
  grants: number;
}

/** RunChanged is the event container.run: a run has entered a phase. */
export interface ContainertoolsRunChanged {
  runId: string;
  /** absent: an image was run without a tool */
  toolId?: string;
  /** of the tool or the image */
  name: string;
  /** create, start, ready, running, ended or removed */
  phase: string;
  /** in the last phase */
  usage?: ContainertoolsUsage;
}

/** RunIDParams name a run. */
export interface ContainertoolsRunIDParams {
  runId: string;
}

/** RunImageParams run a command in an image once. */
export interface ContainertoolsRunImageParams {
  /** reference or id of an image on this computer */
  image: string;
  /** default: what the image starts */
  argv?: string[];
  /** its standard input; default: nothing */
  params?: unknown;
  limits?: ContainerLimits;
  /** that it may reach, as for a tool */
  hosts?: string[];
  timeoutMs?: number;
}

/** RunParams run a tool. */
export interface ContainertoolsRunParams {
  toolId?: string;
  /** instead of toolId */
  name?: string;
  params?: unknown;
  timeoutMs?: number;
}

/** RunResult is the result of a run whose container was started. */
export interface ContainertoolsRunResult {
  success: boolean;
  /** standard output: its JSON, or its text */
  output: unknown;
  runId: string;
  /** success, failure, timeout or cancelled */
  status: string;
  errorClass?: string;
  error?: string;
  exitCode: number;
  /** the end of standard error */
  log: string;
  durationMs: number;
  usage: ContainertoolsUsage;
}

/** StatusChanged is the event container.status_changed: an engine was found or lost. */
export interface ContainertoolsStatusChanged {
  available: boolean;
}

/** Tool is a tool as stored. */
export interface ContainertoolsTool {
  toolId: string;
  name: string;
  status: string;
  definition: ContainertoolsDefinition;
  definitionHash: string;
  createdAt: string;
  updatedAt: string;
  approvedAt?: string;
}

/** ToolParams name a tool. */
export interface ContainertoolsToolParams {
  toolId: string;
}

/** ToolsResult lists tools. */
export interface ContainertoolsToolsResult {
  tools: ContainertoolsTool[];
}

/** Usage is what a run used. */
export interface ContainertoolsUsage {
  cpuMs: number;
  /** bytes */
  peakMemory: number;
  /** over the network */
  bytesOut: number;
  bytesIn: number;
}

/** Volume is where a tool keeps files between its runs. */
export interface ContainertoolsVolume {
  name: string;
  /** absent: its tool was revoked or no longer exists */
  toolId?: string;
  tool?: string;
  quotaBytes?: number;
  /** -1: the engine does not say */
  usedBytes: number;
  createdAt?: string;
  /** when a volume without a tool is removed */
  removeAt?: string;
  /** CopyOf is the tool whose stored data this is a copy of, which container.restore_state brings back. */
  copyOf?: string;
}

/** VolumeParams name a volume. */
export interface ContainertoolsVolumeParams {
  name: string;
}

/** VolumesResult lists volumes. */
export interface ContainertoolsVolumesResult {
  volumes: ContainertoolsVolume[];
}

/** Area is one part of a workspace. */
export interface CoretoolsArea {
  /** shared, tmp or vault */
  name: string;
  /** on this computer */
  path: string;
  bytes: number;
  files: number;
}

/** Status describes the content of a workspace. Deleted files that can still be restored are not counted. */
export interface CoretoolsStatus {
  /** on this computer */
  root: string;
  areas: CoretoolsArea[];
}

/** UndoParams identifies a change. */
export interface CoretoolsUndoParams {
  token: string;
}

/** Undone is a change that was undone. */
export interface CoretoolsUndone {
  path: string;
  /** Restored is set if the previous file was restored; otherwise the created file was deleted. */
  restored: boolean;
}

/** Body is the executable part of a skill. Each change to it creates a version. */
export interface DefinitionBody {
  /** JSON Schema 2020-12 */
  inputSchema?: unknown;
  /** template; absent: the last output */
  outputMapping?: unknown;
  notification?: DefinitionNotification;
  /** 0: 10 min */
  overallTimeoutMs?: number;
  steps: DefinitionStep[];
}

/** Case is one arm of a branch. */
export interface DefinitionCase {
  when: string;
  steps: DefinitionStep[];
}

/** Notification is shown at the end of a scheduled run if When holds. */
export interface DefinitionNotification {
  when?: string;
  title?: unknown;
  body?: unknown;
  level?: string;
}

/** Problem is an error or a warning about a definition. */
export interface DefinitionProblem {
  /** such as steps[2].condition; empty: the whole definition */
  path: string;
  code: string;
  message: string;
  stepId?: string;
}

/** Step is one step. ToolType determines which fields are used. */
export interface DefinitionStep {
  stepId: string;
  toolType: string;
  toolId?: string;
  toolName?: string;
  skillVersion?: string;
  description?: string;
  condition?: string;
  parameters?: Record<string, unknown>;
  inputMapping?: Record<string, unknown>;
  outputMapping?: unknown;
  errorHandling?: string;
  maxRetries?: number;
  onExhausted?: string;
  /** nil: the default; empty: none */
  retryOn?: string[];
  retryUnsafe?: boolean;
  onUnknown?: string;
  timeoutMs?: number;
  /** branch */
  cases?: DefinitionCase[];
  else?: DefinitionStep[];
  /** map */
  items?: string;
  steps?: DefinitionStep[];
  concurrency?: number;
  onItemError?: string;
  /** approval */
  title?: unknown;
  message?: unknown;
  show?: string[];
  form?: unknown;
  waitMs?: number;
  onTimeout?: string;
  /** transform */
  value?: unknown;
  /** where the canvas draws the step; no meaning otherwise */
  ui?: unknown;
}

/** AcceptParams choose a candidate of a request. */
export interface DiscoveryAcceptParams {
  requestId: string;
  /** of the candidate */
  ref: string;
  /** keys; default: all, if there are few */
  operations?: string[];
  /** of the tool; default: that of the candidate */
  name?: string;
  /** as in discovery.import_openapi */
  server?: string;
  serverVariables?: Record<string, string>;
}

/** AcceptResult is the tool that was made, or that was there already. It waits for approval. */
export interface DiscoveryAcceptResult {
  manifestId: string;
  status: string;
}

/** ApproveParams approve one definition of a tool. */
export interface DiscoveryApproveParams {
  manifestId: string;
  /** the one that was shown */
  definitionHash: string;
  note?: string;
}

/** AuthChanged is the event discovery.auth_changed: a credential was stored or removed. */
export interface DiscoveryAuthChanged {
  manifestId: string;
  scheme: string;
  /** missing, ready or error */
  state: string;
  /** why a sign-in failed; former credentials are kept */
  error?: string;
}

/** AuthParams store a credential. */
export interface DiscoveryAuthParams {
  manifestId: string;
  /** name in the description */
  scheme: string;
  /** Kind is apiKey, basic, bearer or clientCredentials; default: that of the scheme. A scheme of OAuth 2 takes a bearer token, or the client ID as user and its secret as value. */
  kind?: string;
  /** of basic, or client ID */
  user?: string;
  /** key, token or password */
  value: string;
}

/** AuthResult is the state of a credential. */
export interface DiscoveryAuthResult {
  state: string;
}

/** CancelParams name a run. */
export interface DiscoveryCancelParams {
  executionId: string;
}

/** Candidate is a tool or an API that may do what was asked for. One of the directory is unverified: it comes from its provider, and its description is read only when it is chosen. */
export interface DiscoveryCandidate {
  /** for discovery.accept */
  ref: string;
  /** catalog, imported or directory */
  source: string;
  /** it is a manifest, for discovery.import_manifest */
  manifest?: boolean;
  name: string;
  title: string;
  description: string;
  hosts: string[];
  auth: string;
  license?: string;
  /** of its description; absent: it comes with Helix */
  location?: string;
  score: number;
  /** the words that match, +meaning if it is close in meaning, and -auth, -license and -https for what lowers the score */
  why: string[];
}

/** Capability is one operation of a tool. Its parameters are in the kept part of the description. */
export interface DiscoveryCapability {
  name: string;
  description: string;
  /** method and path */
  operation: string;
  /** readOnly, sideEffecting or privileged */
  tier: string;
  idempotent: boolean;
  destructive: boolean;
}

/** Catalog is a folder with API descriptions and manifests, or a list of APIs on the web, that is searched too. */
export interface DiscoveryCatalog {
  catalogId: string;
  /** dir or list */
  kind: string;
  /** path or address */
  location: string;
  entries: number;
  /** when it was read */
  updatedAt?: string;
  /** why it couldn't be read the last time; what it had before is still searched */
  error?: string;
}

/** CatalogAddParams name a folder or the address of a list. */
export interface DiscoveryCatalogAddParams {
  /** a folder that the user chose */
  dir?: string;
  /** in the form of https://api.apis.guru/v2/list.json */
  listUrl?: string;
}

/** CatalogParams name a catalog. */
export interface DiscoveryCatalogParams {
  catalogId: string;
}

/** CatalogsResult lists the catalogs. */
export interface DiscoveryCatalogsResult {
  catalogs: DiscoveryCatalog[];
}

/** Changed is the event discovery.changed: a tool was imported, or its state changed. */
export interface DiscoveryChanged {
  manifestId: string;
  status: string;
}

/** ClearAuthParams name a credential. */
export interface DiscoveryClearAuthParams {
  manifestId: string;
  scheme: string;
}

/** Counts are numbers of operations. */
export interface DiscoveryCounts {
  operations: number;
  skipped: number;
  deprecated: number;
  readOnly: number;
}

/** Credential is the state of the credential of one scheme. Its value is never returned. */
export interface DiscoveryCredential {
  /** missing or ready */
  state: string;
  /** to which it is sent */
  hosts: string[];
  /** user name of basic, client ID of OAuth */
  account?: string;
  /** what is stored: apiKey, basic, bearer, oauth2 or clientCredentials */
  stored?: string;
  name: string;
  /** apiKey, basic, bearer or oauth2; "": it cannot be used */
  kind: string;
  /** of an API key: header, query or cookie */
  in?: string;
  /** of an API key: its name there */
  param?: string;
  description?: string;
  /** why it cannot be used */
  why?: string;
  flows?: OpenapiFlow[];
}

/** Diff is what changes between two definitions of a tool. */
export interface DiscoveryDiff {
  /** operations */
  added: string[];
  /** operations */
  removed: string[];
  /** operations, the server or hosts */
  changed: string[];
}

/** EnableParams switch a tool on or off. */
export interface DiscoveryEnableParams {
  manifestId: string;
  enabled: boolean;
}

/** Execution is a run in the log. */
export interface DiscoveryExecution {
  executionId: string;
  manifestId: string;
  tool: string;
  operation: string;
  status: string;
  errorClass?: string;
  errorMessage?: string;
  httpStatus?: number;
  startedAt: string;
  completedAt?: string;
  durationMs?: number;
  bytesOut: number;
  bytesIn: number;
  caller?: string;
  /** only of one run */
  params?: unknown;
  /** only of one run */
  output?: unknown;
  outputBlob?: string;
}

/** ExecutionChanged is the event discovery.execution: a run has started or ended. */
export interface DiscoveryExecutionChanged {
  executionId: string;
  manifestId: string;
  /** as in the log: running, success, failure, timeout or cancelled */
  state: string;
}

/** ExecutionSpec is how a tool runs. */
export interface DiscoveryExecutionSpec {
  /** http */
  type: string;
  /** SHA-256 of the kept part of the description */
  openapi: string;
  server: string;
  /** what carries out the operations: caldav, ics, jmap or smtp; absent: HTTP requests as described */
  protocol?: string;
  timeoutSeconds: number;
}

/** ExecutionsParams filter the log of runs. */
export interface DiscoveryExecutionsParams {
  manifestId?: string;
  status?: string;
  from?: string;
  /** startedAt of the last one seen */
  before?: string;
  /** 1..100, default 50 */
  limit?: number;
}

/** ExecutionsResult is one page of the log, newest first. */
export interface DiscoveryExecutionsResult {
  executions: DiscoveryExecution[];
}

/** Expectation is what the body of a result must be. Without any, the call must succeed. */
export interface DiscoveryExpectation {
  equals?: unknown;
  schema?: unknown;
  /** in the body as text */
  contains?: string;
}

/** ImportManifestParams name a manifest. */
export interface DiscoveryImportManifestParams {
  /** a file that the user chose */
  path?: string;
  /** the text itself */
  content?: string;
  url?: string;
  /** default true: only return what would be imported */
  dryRun?: boolean;
  /** OnConflict is what happens if a tool has the name: upgrade, rename or skip. Absent: a Conflict. */
  onConflict?: string;
}

/** ImportOpenAPIParams choose operations of an inspected description for a tool. */
export interface DiscoveryImportOpenAPIParams {
  specId: string;
  /** keys */
  operations?: string[];
  /** all operations with one of these tags, too */
  tags?: string[];
  /** default: from the title */
  name?: string;
  /** an address of the description, or another one; default: its first */
  server?: string;
  serverVariables?: Record<string, string>;
  /** OnConflict is what happens if a tool has the name: upgrade, rename or skip. Absent: a Conflict. */
  onConflict?: string;
  /** only return what would be imported */
  dryRun?: boolean;
}

/** ImportResult is a tool that was, or would be, imported. */
export interface DiscoveryImportResult {
  manifest: DiscoveryManifest;
  definitionHash: string;
  /** of a manifest: canonical, guide or schema */
  sourceShape?: string;
  warnings: string[];
  /** from the definition that it replaces */
  diff?: DiscoveryDiff;
  /** absent: nothing was stored */
  manifestId?: string;
  status?: string;
}

/** Inspection is what a description contains. Its texts come from outside. */
export interface DiscoveryInspection {
  /** SHA-256 of the description */
  specId: string;
  title: string;
  version: string;
  openapi: string;
  servers: OpenapiServer[];
  auth: OpenapiScheme[];
  tags: DiscoveryTagCount[];
  counts: DiscoveryCounts;
  /** of the declarations of all operations */
  tokens: number;
  warnings: OpenapiWarning[];
  /** operations that cannot be used */
  skipped: OpenapiWarning[];
}

/** JobChanged is the event discovery.job: an installation or verification got on. */
export interface DiscoveryJobChanged {
  jobId: string;
  manifestId: string;
  /** the operation that is tried, or done */
  step: string;
  done: number;
  total: number;
  /** why it failed */
  message?: string;
}

/** JobResult names background work, whose progress is announced by discovery.job. */
export interface DiscoveryJobResult {
  jobId: string;
}

/** ListParams filter tools. */
export interface DiscoveryListParams {
  /** absent: all but revoked */
  status?: string;
  query?: string;
  /** 1..100, default 50 */
  limit?: number;
  offset?: number;
}

/** ListResult is one page of tools, by name. */
export interface DiscoveryListResult {
  tools: DiscoveryTool[];
  total: number;
}

/** Manifest is the definition of a tool in canonical form: what is stored, hashed and shown. */
export interface DiscoveryManifest {
  manifestVersion: number;
  name: string;
  version: string;
  description: string;
  author?: string;
  homepage?: string;
  license?: string;
  capabilities: DiscoveryCapability[];
  execution: DiscoveryExecutionSpec;
  permissions: DiscoveryPermissions;
  samples?: DiscoverySample[];
}

/** Network lists the hosts that a tool may reach: a host with an optional port, or localhost with a port. */
export interface DiscoveryNetwork {
  hosts: string[];
}

/** OAuthStartParams start a sign-in with OAuth. */
export interface DiscoveryOAuthStartParams {
  manifestId: string;
  /** name in the description */
  scheme: string;
  /** that the provider of the API gave out for Helix */
  clientId: string;
  clientSecret?: string;
  /** default: all of the description */
  scopes?: string[];
}

/** OperationInfo is one operation of a description or of a tool. */
export interface DiscoveryOperationInfo {
  /** method and path */
  key: string;
  /** in the tool */
  name: string;
  method: string;
  path: string;
  summary: string;
  tags: string[];
  deprecated: boolean;
  tier: string;
  idempotent: boolean;
  destructive: boolean;
  /** names of schemes, any of which may be needed */
  auth: string[];
  tokens: number;
  paginated: boolean;
}

/** OperationsParams choose operations of a description or of a tool. */
export interface DiscoveryOperationsParams {
  specId?: string;
  manifestId?: string;
  /** words of the name, path or summary */
  query?: string;
  tag?: string;
  method?: string;
  /** 1..100, default 50 */
  limit?: number;
  offset?: number;
}

/** OperationsResult is one page of operations, by path. */
export interface DiscoveryOperationsResult {
  operations: DiscoveryOperationInfo[];
  total: number;
}

/** Permissions are what a tool asks for. */
export interface DiscoveryPermissions {
  network: DiscoveryNetwork;
}

/** QueueParams filter requests. */
export interface DiscoveryQueueParams {
  status?: string;
  /** 1..100, default 50 */
  limit?: number;
  offset?: number;
}

/** QueueResult is one page of requests, the latest first. */
export interface DiscoveryQueueResult {
  requests: DiscoveryRequest[];
  total: number;
}

/** RejectParams end a request. */
export interface DiscoveryRejectParams {
  requestId: string;
  reason?: string;
}

/** Request is a request for a capability. Its texts may come from outside. */
export interface DiscoveryRequest {
  requestId: string;
  capabilityDescription: string;
  requestedBy: string;
  searchQuery: string;
  /** pending, searching, found, failed or rejected */
  status: string;
  candidates: DiscoveryCandidate[];
  /** the candidate that was accepted */
  selected?: string;
  manifestId?: string;
  error?: string;
  createdAt: string;
  finishedAt?: string;
}

/** RequestChanged is the event discovery.request_changed. */
export interface DiscoveryRequestChanged {
  requestId: string;
  status: string;
}

/** RequestIDParams name a request. */
export interface DiscoveryRequestIDParams {
  requestId: string;
}

/** RequestParams describe something that no tool can do yet. */
export interface DiscoveryRequestParams {
  capabilityDescription: string;
  /** user (default), planner, agent or skill */
  requestedBy?: string;
  /** default: the description */
  searchQuery?: string;
  runId?: string;
}

/** RequestResult names a request. */
export interface DiscoveryRequestResult {
  requestId: string;
  status: string;
}

/** RequestView is a request as shown to people: credentials are masked. */
export interface DiscoveryRequestView {
  method: string;
  url: string;
  header: Record<string, string[]>;
  body?: string;
}

/** RevokeParams name a tool to revoke. */
export interface DiscoveryRevokeParams {
  manifestId: string;
  /** keep or destroy: what happens to stored state. Tools from API descriptions have none */
  state?: string;
}

/** RevokeResult is what was removed. */
export interface DiscoveryRevokeResult {
  removed: { grants: number; credentials: string[] };
}

/** RunParams run one operation of a tool. */
export interface DiscoveryRunParams {
  manifestId?: string;
  /** of the tool, instead of manifestId */
  name?: string;
  /** its name in the tool, or its method and path */
  operation: string;
  params?: unknown;
  timeoutMs?: number;
  /** only build the request */
  dryRun?: boolean;
  /** sent if the operation takes one */
  idempotencyKey?: string;
  /** 1 (the default) to 20: how many pages of a list to get */
  maxPages?: number;
}

/** RunResult is the result of a run. */
export interface DiscoveryRunResult {
  success: boolean;
  /** status, ok, headers and body */
  output: unknown;
  error?: string;
  errorClass?: string;
  /** absent: a dry run */
  executionId?: string;
  status: string;
  durationMs: number;
  warnings: string[];
  /** Pages are the outputs of the pages after the first; each is a run of its own in the log. */
  pages?: unknown[];
  /** params of the next page */
  nextPage?: unknown;
  /** of a dry run */
  request?: DiscoveryRequestView;
}

/** Sample is a call whose result is known, so that a tool can be tried before it is used. */
export interface DiscoverySample {
  capability: string;
  params?: unknown;
  expect: DiscoveryExpectation;
}

/** SampleResult is what a sample showed. */
export interface DiscoverySampleResult {
  capability: string;
  /** pass, fail or skipped */
  result: string;
  reason?: string;
}

/** SearchParams ask for tools and APIs that can do something. */
export interface DiscoverySearchParams {
  /** words, at most 500 bytes */
  query: string;
  /** catalog, imported or directory; default: all */
  sources?: string[];
  /** 1..50, default 10 */
  limit?: number;
}

/** SearchResult is a list of candidates, best first. */
export interface DiscoverySearchResult {
  results: DiscoveryCandidate[];
  skippedSources: DiscoverySkippedSource[];
}

/** SkippedSource is a catalog that couldn't be read for a search. */
export interface DiscoverySkippedSource {
  /** its location */
  source: string;
  reason: string;
}

/** Source is where a description comes from: exactly one of its fields. */
export interface DiscoverySource {
  /** a file that the user chose */
  path?: string;
  /** the text itself */
  content?: string;
  /** https, or a reference that discovery.search returned, such as catalog:open-meteo */
  url?: string;
}

/** StatusResult is the state of a tool. */
export interface DiscoveryStatusResult {
  status: string;
}

/** TagCount is a tag with the operations that have it. */
export interface DiscoveryTagCount {
  name: string;
  operations: number;
  tokens: number;
}

/** Tool is a tool as stored. */
export interface DiscoveryTool {
  manifestId: string;
  name: string;
  version: string;
  description: string;
  /** local or openapi_url */
  sourceType: string;
  sourceLocation: string;
  /** on this device */
  status: string;
  /** on this device: none, installing, ready or failed */
  installState: string;
  /** http */
  type: string;
  definitionHash: string;
  hosts: string[];
  operations: number;
  createdAt: string;
  updatedAt: string;
  approvedAt?: string;
  revokedAt?: string;
  lastRunAt?: string;
}

/** ToolParams name a tool. */
export interface DiscoveryToolParams {
  manifestId: string;
}

/** ToolResult is a tool with everything that a person needs to judge it. */
export interface DiscoveryToolResult {
  manifest: DiscoveryManifest;
  /** of every scheme that its operations use */
  credentials: DiscoveryCredential[];
  /** Verification is the last result of its samples on this device; absent: they were not tried. */
  verification?: DiscoveryVerification;
  manifestId: string;
  name: string;
  version: string;
  description: string;
  /** local or openapi_url */
  sourceType: string;
  sourceLocation: string;
  /** on this device */
  status: string;
  /** on this device: none, installing, ready or failed */
  installState: string;
  /** http */
  type: string;
  definitionHash: string;
  hosts: string[];
  operations: number;
  createdAt: string;
  updatedAt: string;
  approvedAt?: string;
  revokedAt?: string;
  lastRunAt?: string;
}

/** UpgradeParams name another definition of a tool: an API description or a manifest. */
export interface DiscoveryUpgradeParams {
  manifestId: string;
  /** a file that the user chose */
  path?: string;
  /** the text itself */
  content?: string;
  url?: string;
  /** only return what would change */
  dryRun?: boolean;
}

/** UpgradeResult is a tool with another definition, which waits for approval. */
export interface DiscoveryUpgradeResult {
  /** operations that are gone, and inputs that are accepted no longer */
  breaking: string[];
  manifest: DiscoveryManifest;
  definitionHash: string;
  /** of a manifest: canonical, guide or schema */
  sourceShape?: string;
  warnings: string[];
  /** from the definition that it replaces */
  diff?: DiscoveryDiff;
  /** absent: nothing was stored */
  manifestId?: string;
  status?: string;
}

/** Verification is what the samples of a tool showed on this device. */
export interface DiscoveryVerification {
  /** State is passed, failed, or not_verifiable: the tool has no samples that could be tried. */
  state: string;
  at: string;
  samples: DiscoverySampleResult[];
  error?: string;
}

/** VerifyParams name a tool whose samples are tried. */
export interface DiscoveryVerifyParams {
  manifestId: string;
  /** also try samples that change something */
  sideEffects?: boolean;
}

/** Info describes a scenario. */
export interface EvalInfo {
  name: string;
  description: string;
  inputs: number;
}

/** ListResult holds the scenarios included in the program. */
export interface EvalListResult {
  scenarios: EvalInfo[];
}

/** Live selects a real model. */
export interface EvalLive {
  role: string;
  /** MaxCostMicros bounds the cost of all scenarios together. */
  maxCostMicros: number;
}

/** Metrics are figures of one run of a scenario, for comparison with other runs. */
export interface EvalMetrics {
  steps: number;
  /** of tools */
  calls: number;
  inputTokens: number;
  outputTokens: number;
  costMicros: number;
  tookMs: number;
}

/** Outcome is the result of a scenario. */
export interface EvalOutcome {
  scenario: string;
  passed: boolean;
  problems: string[];
  metrics: EvalMetrics;
}

/** Result is the state of an evaluation and its results so far. */
export interface EvalResult {
  evalId: string;
  /** running, done or failed */
  state: string;
  total?: number;
  passed: number;
  /** Results are in the order of the scenarios. Baseline holds the latest earlier result of each scenario. */
  results: EvalOutcome[];
  baseline: EvalOutcome[];
  /** Worse describes, in sentences, what was better in the baseline. */
  worse: string[];
  error?: string;
}

/** ResultParams names an evaluation. WaitMs is the longest time to wait for its end, at most 120,000. */
export interface EvalResultParams {
  evalId: string;
  waitMs?: number;
}

/** RunParams selects scenarios. */
export interface EvalRunParams {
  /** Filter must occur in the name; empty: all. */
  filter?: string;
  /** Scenarios are other scenarios, as YAML; they replace those of the program. */
  scenarios?: string[];
  /** Live needs a role and a limit of money. Without it the scripts answer, and no service is called. */
  live?: EvalLive;
}

/** RunResult names an evaluation. */
export interface EvalRunResult {
  evalId: string;
  total: number;
}

/** ActivateParams are the arguments of a second start of the program. */
export interface GatewayActivateParams {
  /** may contain a helix:// link */
  args: string[];
}

/** BlobParams identify a blob. */
export interface GatewayBlobParams {
  /** 64 hex characters */
  sha256: string;
}

/** BlobURL is a URL that serves the blob without a token until it expires. */
export interface GatewayBlobURL {
  url: string;
  expiresAt: string;
}

/** ClientInfo is how a client identifies itself. It is a label for people and never verified. */
export interface GatewayClientInfo {
  /** the program, such as helix-cli */
  id?: string;
  /** of the program */
  version?: string;
  /** linux, darwin, windows, web */
  platform?: string;
  /** window, browser, cli, tui, script */
  mode?: string;
  displayName?: string;
  instanceId?: string;
}

/** ClientKind is the kind of client behind a session. */
export type GatewayClientKind = "program" | "window" | "browser" | "terminal" | "token";

/** ConnectAuth carries the secret that opens the session. */
export interface GatewayConnectAuth {
  /** 64 hex characters */
  token?: string;
}

/** ConnectParams open a session. Fields that this version does not know are ignored. */
export interface GatewayConnectParams {
  /** the oldest protocol version that the client supports */
  minProtocol: number;
  /** the newest */
  maxProtocol: number;
  client?: GatewayClientInfo;
  /** requested scopes; empty means read */
  scopes?: string[];
  /** not needed if the pipe is authenticated */
  auth?: GatewayConnectAuth;
  /** BCP 47 */
  locale?: string;
}

/** Degraded is one part of the program that does not fully work. */
export interface GatewayDegraded {
  area: string;
  reason: string;
  /** how to fix it */
  hint?: string;
}

/** EventsGap tells a client that was too slow which events were dropped. It may request them with events.resume while they are still stored, or reload what it shows. */
export interface GatewayEventsGap {
  fromSeq: number;
  toSeq: number;
}

/** EventsState is the position of the event stream. Seq counts per user from 1 within an epoch; a new epoch starts with each start of Helix. */
export interface GatewayEventsState {
  epoch: string;
  seq: number;
}

/** Features lists the methods and events available in this session. */
export interface GatewayFeatures {
  methods: string[];
  events: string[];
}

/** Hello is the response to connect. */
export interface GatewayHello {
  /** always hello-ok */
  type: string;
  protocol: number;
  server: GatewayServerInfo;
  user: GatewayUser;
  /** granted */
  scopes: string[];
  features: GatewayFeatures;
  policy: GatewayPolicy;
  /** for events.resume */
  epoch: string;
  /** of the newest event */
  seq: number;
}

/** MemoryUse is the memory that the process uses. */
export interface GatewayMemoryUse {
  rssBytes: number;
  heapBytes: number;
}

/** NewToken contains the secret of a new token, which is shown only once. */
export interface GatewayNewToken {
  id: string;
  token: string;
}

/** PageParams select a part of a list. */
export interface GatewayPageParams {
  /** 1 to 100; default 50 */
  limit?: number;
  /** number to skip */
  offset?: number;
}

/** Policy lists the limits for the client. */
export interface GatewayPolicy {
  /** bytes of a frame */
  maxPayload: number;
  /** of the outgoing queue */
  maxBufferedBytes: number;
  /** between pings */
  tickIntervalMs: number;
}

/** ResumeParams identify the last event that the client received. */
export interface GatewayResumeParams {
  epoch: string;
  /** 0: from the start of the epoch */
  afterSeq: number;
  topics?: string[];
}

/** ResumeResult reports what was replayed. If gap is true, nothing was: reload what you show. */
export interface GatewayResumeResult {
  epoch: string;
  seq: number;
  replayed: number;
  gap: boolean;
}

/** ServerInfo describes the program and the connection. */
export interface GatewayServerInfo {
  version: string;
  commit?: string;
  /** also the session's id */
  connId: string;
}

/** ServiceList lists the services of this build. */
export interface GatewayServiceList {
  services: GatewayServiceState[];
  total: number;
}

/** ServiceParams identify a service. */
export interface GatewayServiceParams {
  /** One of memory-synthesis, psychology-decay, skill-sandbox, voice-pipeline, sync-coordinator, skills, scheduler, agent and gateway, or * for all but the gateway. */
  name: string;
}

/** ServiceState is the current state of one service. */
export interface GatewayServiceState {
  name: string;
  /** running, stopping, stopped, failed */
  state: string;
  running: boolean;
  port?: number;
  /** of the backend, since services share its process */
  pid: number;
  since?: string;
  restarts: number;
  error?: string;
}

/** ServicesChanged reports that a service started, stopped or failed. */
export interface GatewayServicesChanged {
  name: string;
}

/** SessionInfo describes one open session. */
export interface GatewaySessionInfo {
  sessionId: string;
  user: GatewayUser;
  scopes: string[];
  /** as the client describes itself */
  client: GatewayClientInfo;
  /** as determined by the gateway */
  clientKind: GatewayClientKind;
  /** may do what only people may do */
  person: boolean;
  /** the created token behind it, directly or through a ticket */
  token?: GatewaySessionToken;
  /** bridge, websocket, http, memory */
  pipe: string;
  connectedAt: string;
  /** the calling session */
  current?: boolean;
}

/** SessionList lists the user's open sessions, oldest first. */
export interface GatewaySessionList {
  sessions: GatewaySessionInfo[];
  total: number;
}

/** SessionParams identify a session. */
export interface GatewaySessionParams {
  sessionId: string;
}

/** SessionToken identifies a created token. */
export interface GatewaySessionToken {
  id: string;
  name: string;
}

/** SessionsChanged reports that a session of the user was opened or closed. */
export type GatewaySessionsChanged = Record<string, never>;

/** SystemStatus is the state of the whole program. */
export interface GatewaySystemStatus {
  version: string;
  commit: string;
  goVersion: string;
  uptimeMs: number;
  pid: number;
  dataDir: string;
  schemaVersion: number;
  recovery: boolean;
  degraded: GatewayDegraded[];
  memory: GatewayMemoryUse;
  /** Background reports whether background work is paused, and why. */
  background: PauseState;
}

/** SystemStopping reports that Helix is about to end the session. */
export interface GatewaySystemStopping {
  /** running calls are canceled after this time */
  withinMs: number;
}

/** Ticket opens the web UI once. */
export interface GatewayTicket {
  /** the ticket is in the fragment, which is not sent to servers */
  url: string;
  expiresAt: string;
}

/** TicketParams describe the browser session that a ticket opens. */
export interface GatewayTicketParams {
  /** empty: read, write, approve */
  scopes?: string[];
  /** where the UI opens, such as /settings */
  path?: string;
}

/** TokenIDParams identify a token. */
export interface GatewayTokenIDParams {
  id: string;
}

/** TokenInfo describes a token without its secret. */
export interface GatewayTokenInfo {
  id: string;
  name: string;
  scopes: string[];
  createdAt: string;
  /** with a resolution of one minute */
  lastUsedAt?: string;
  expiresAt?: string;
  revokedAt?: string;
}

/** TokenList lists the user's tokens, newest first. */
export interface GatewayTokenList {
  tokens: GatewayTokenInfo[];
  total: number;
}

/** TokenListParams select which tokens to list. */
export interface GatewayTokenListParams {
  /** include revoked tokens */
  revoked?: boolean;
  /** 1 to 100; default 50 */
  limit?: number;
  /** number to skip */
  offset?: number;
}

/** TokenParams describe a new token. */
export interface GatewayTokenParams {
  /** what it is for */
  name: string;
  /** at least one */
  scopes: string[];
  expiresAt?: string;
}

/** TokensChanged reports that the user's list of tokens changed. */
export type GatewayTokensChanged = Record<string, never>;

/** TopicsParams select events by exact name, or by a prefix with a star such as memory.*. */
export interface GatewayTopicsParams {
  /** at most 64 per session */
  topics: string[];
}

/** User is the person whose data the gateway serves. */
export interface GatewayUser {
  id: string;
  displayName: string;
}

/** Access is who can open a share. */
export type LifecycleAccess = "link" | "public";

/** BundleSignature is a signature in a shared file: Ed25519 over the canonical JSON of {helix:"tool/1", definitionHash, name, version, author, signedAt}. It is stored as received, with the name and version that it was made for. */
export interface LifecycleBundleSignature {
  name: string;
  version: string;
  author: string;
  /** RFC 3339, exactly as signed */
  signedAt: string;
  /** base64 of 32 bytes, or PEM in the older format */
  publicKey: string;
  /** base64 */
  signature: string;
  legacy?: boolean;
}

/** OnConflict is what an import does with a definition whose name is taken. */
export type LifecycleOnConflict = "rename" | "replace" | "skip";

/** SignResult holds the signature made by this device. */
export interface LifecycleSignResult {
  signature: string;
  fingerprint: string;
}

/** SignatureInfo is the state of a definition's signature on this device. */
export interface LifecycleSignatureInfo {
  state: LifecycleSignatureState;
  /** SHA-256 of the public key, 64 hex digits */
  fingerprint?: string;
  /** base64, for tools.trust_signer */
  publicKey?: string;
  /** the user's name for this key, else the author in the signature */
  signer?: string;
  signedAt?: string;
}

/** SignatureState is the result of verifying a signature. */
export type LifecycleSignatureState = "valid_trusted" | "valid_unknown" | "valid_legacy" | "invalid" | "none";

/** Signer is a key that has signed tools. */
export interface LifecycleSigner {
  fingerprint: string;
  publicKey: string;
  name: string;
  trusted: boolean;
  thisDevice: boolean;
  addedAt: string;
}

/** Difference is the point where a replay deviates from a journal. */
export interface MachineDifference {
  seq: number;
  /** what the machine would record now */
  expected: unknown;
  /** what the journal contains */
  actual: unknown;
}

/** Failure is the reason of a failure. Kind is one of package fault's. */
export interface MachineFailure {
  kind: string;
  message: string;
  /** ApprovalID is the approval that would permit a refused call. */
  approvalId?: string;
}

/** RequestData is a question to a person. */
export interface MachineRequestData {
  /** one of the Wait constants */
  reason: string;
  title?: string;
  message?: string;
  show?: unknown;
  form?: unknown;
  /** 0: no limit */
  waitMs?: number;
  /** of a pending permission */
  approvalId?: string;
}

/** AddParams contain the entry of a new server. */
export interface McpAddParams {
  server: McpServer;
}

/** ApproveParams approve a server and tools of it. */
export interface McpApproveParams {
  name: string;
  /** DefinitionHash is that of mcp.server, so that only what was shown is approved. */
  definitionHash: string;
  /** Tools are the names of the tools that may be called from now on; * stands for all, readOnly for those that claim to only read. */
  tools?: string[];
  /** Tier of these tools; "": side_effecting, or read_only with trust read and the server's claim. */
  tier?: string;
}

/** ApproveResult lists the permissions that were granted. */
export interface McpApproveResult {
  grants: PermissionGrant[];
  /** what was approved */
  tools: string[];
}

/** AuthChanged is published when a sign-in has ended, or its tokens were removed. */
export interface McpAuthChanged {
  name: string;
  /** ready, error or none */
  state: string;
  error?: string;
}

/** AuthClearResult tells whether the authorization server was told. */
export interface McpAuthClearResult {
  state: string;
  /** the authorization server knows that the tokens are no longer used */
  revoked: boolean;
}

/** AuthStartParams start a sign-in at the authorization server of an MCP server. */
export interface McpAuthStartParams {
  name: string;
  /** ClientID is needed only if the authorization server doesn't let programs register. */
  clientId?: string;
  clientSecret?: string;
  /** default: those that the server asks for */
  scopes?: string[];
}

/** CallParams are a call of a tool. */
export interface McpCallParams {
  server: string;
  tool: string;
  /** default {} */
  arguments?: unknown;
  timeoutMs?: number;
  /** shown with the call */
  runId?: string;
}

/** CallResult is the result of a call. A failure that the tool itself reports has isError. */
export interface McpCallResult {
  success: boolean;
  output: McpPart[];
  structured?: unknown;
  isError: boolean;
  error?: string;
  errorClass?: string;
  durationMs: number;
  executionId: string;
  pendingApprovalId?: string;
}

/** Changed is published when the state of a server changes. */
export interface McpChanged {
  name: string;
  state: string;
}

/** ExportParams select servers. */
export interface McpExportParams {
  /** default all */
  names?: string[];
}

/** ExportResult is a configuration in the form that most programs read. */
export interface McpExportResult {
  content: string;
}

/** ExposeParams name a callable. */
export interface McpExposeParams {
  /** Kind is tool, skill, discovery or memory. */
  kind: string;
  /** or its name; for memory: memory.search */
  id: string;
  exposed: boolean;
}

/** Exposed is a callable that other programs may call. */
export interface McpExposed {
  kind: string;
  id: string;
  /** as other programs see it */
  name: string;
  title?: string;
  description?: string;
  inputSchema?: unknown;
  readOnly: boolean;
  exposedAt: string;
  /** Problem is why calls are refused now, such as that its definition changed since. */
  problem?: string;
}

/** ExposedCallParams are a call by another program. */
export interface McpExposedCallParams {
  /** as in mcp.exposed */
  name: string;
  arguments?: unknown;
  /** how the program calls itself */
  client?: string;
}

/** ExposedCallResult is the result in the form of MCP. */
export interface McpExposedCallResult {
  text: string;
  structured?: unknown;
  isError: boolean;
}

/** ExposedResult lists what other programs may call, and where. */
export interface McpExposedResult {
  /** over HTTP; helix mcp serve always works */
  enabled: boolean;
  /** with Enabled */
  url?: string;
  tools: McpExposed[];
}

/** Hints are what a server claims about a tool. They may raise its tier and never lower it. */
export interface McpHints {
  readOnlyHint: boolean;
  idempotentHint: boolean;
  /** nil: not stated */
  destructiveHint?: boolean;
  openWorldHint?: boolean;
}

/** ImportParams name one configuration: a known place, a file or its content. */
export interface McpImportParams {
  /** of mcp.sources */
  source?: string;
  path?: string;
  content?: string;
  /** default all */
  names?: string[];
  /** default true: only show what is found */
  dryRun?: boolean;
}

/** ImportResult lists what was found, and what was added. */
export interface McpImportResult {
  found: McpImported[];
  added: string[];
}

/** Imported is a server that a configuration of another program contains. */
export interface McpImported {
  name: string;
  /** nil: skipped */
  server?: McpServer;
  /** why it cannot be added under its name */
  conflict?: string;
  /** names of the secrets that its values are moved to */
  secrets: string[];
  /** secrets that must be filled in */
  missing: string[];
  /** why it cannot be added at all */
  skipped?: string;
}

/** LogAdded is published when a server's log has a new line. */
export interface McpLogAdded {
  name: string;
  seq: number;
}

/** LogLine is one line of a server's log. */
export interface McpLogLine {
  seq: number;
  at: string;
  /** stderr or rpc */
  stream: string;
  text: string;
}

/** LogsParams select lines of a server's log. */
export interface McpLogsParams {
  name: string;
  /** AfterSeq selects lines with a higher number; 0: the last lines. */
  afterSeq?: number;
  /** 1 to 2,000; default 200 */
  limit?: number;
}

/** LogsResult contains lines in order. */
export interface McpLogsResult {
  lines: McpLogLine[];
}

/** NameParams name a server. */
export interface McpNameParams {
  name: string;
}

/** Part is one part of a result. */
export interface McpPart {
  /** text, image, audio, resource or link */
  type: string;
  text?: string;
  mimeType?: string;
  uri?: string;
  name?: string;
  /** base64 */
  data?: string;
}

/** Progress is published when a server reports the progress of a call. */
export interface McpProgress {
  executionId: string;
  progress: number;
  total?: number;
  message?: string;
}

/** Prompt is a prompt that a server offers. Its texts are what the server says. */
export interface McpPrompt {
  name: string;
  title?: string;
  description?: string;
  arguments: McpPromptArgument[];
}

/** PromptArgument is an argument of a prompt. */
export interface McpPromptArgument {
  name: string;
  description?: string;
  required?: boolean;
}

/** PromptMessage is one message of a prompt. */
export interface McpPromptMessage {
  /** user or assistant */
  role: string;
  content: McpPart;
}

/** PromptParams name a prompt and contain its arguments. */
export interface McpPromptParams {
  name: string;
  prompt: string;
  arguments?: Record<string, string>;
}

/** PromptResult contains the messages of a prompt, which come from outside. */
export interface McpPromptResult {
  description?: string;
  messages: McpPromptMessage[];
  untrusted: boolean;
}

/** PromptsResult lists the prompts of a server. */
export interface McpPromptsResult {
  prompts: McpPrompt[];
}

/** RemoveResult has the token to undo the removal. */
export interface McpRemoveResult {
  undoToken: string;
}

/** Resource is a resource that a server offers. */
export interface McpResource {
  uri: string;
  name: string;
  title?: string;
  description?: string;
  mimeType?: string;
  size?: number;
}

/** ResourceParams name a resource. */
export interface McpResourceParams {
  name: string;
  uri: string;
}

/** ResourceResult is the content of a resource, which comes from outside. */
export interface McpResourceResult {
  contents: McpPart[];
  untrusted: boolean;
}

/** ResourcesResult lists the resources of a server. */
export interface McpResourcesResult {
  resources: McpResource[];
}

/** SaveResult is the saved server. Warnings name what may not be as intended. */
export interface McpSaveResult {
  server: McpServerResult;
  warnings: string[];
}

/** Selection selects tools of a server. An empty allow list allows all. */
export interface McpSelection {
  allow?: string[];
  deny?: string[];
}

/** Server describes how to start or reach an MCP server. ${VAR} and ${VAR:-default} in args, env, url and headers stand for stored secrets, else for variables of the environment; they are resolved when the server starts and stored as they are. */
export interface McpServer {
  /** Name is 1 to 32 of a-z 0-9 _ -, and starts with a letter or digit. */
  name: string;
  /** Transport is stdio, http or sse; default stdio with a command and http with a URL. */
  transport?: string;
  command?: string;
  args?: string[];
  env?: Record<string, string>;
  cwd?: string;
  url?: string;
  headers?: Record<string, string>;
  /** default true */
  enabled?: boolean;
  /** Trust is ask (default), read or none. */
  trust?: string;
  /** Tools selects tools by name; a pattern may end in *. */
  tools?: McpSelection;
  /** of a call; default 60,000 */
  timeoutMs?: number;
  /** default 30,000 */
  startTimeoutMs?: number;
  /** stop after this time without a call; default 10 */
  idleMinutes?: number;
  description?: string;
}

/** ServerResult is one server with its entry. */
export interface McpServerResult {
  server: McpServer;
  /** DefinitionHash covers the entry and the listed tools; mcp.approve_server takes it. */
  definitionHash: string;
  /** the entry itself is not approved */
  needsApproval: boolean;
  /** names in ${…} that the entry refers to */
  variables: string[];
  /** ready if the user has signed in with OAuth, else none */
  auth: string;
  name: string;
  transport: string;
  enabled: boolean;
  /** stopped, starting, ready, failed, needs_auth or suspended */
  state: string;
  /** its command line or URL */
  target: string;
  version?: string;
  protocol?: string;
  pid?: number;
  tools: number;
  /** tools that may be called */
  approved: number;
  /** tools that are new or changed */
  waiting: number;
  /** estimated cost of the approved tools in a model's context */
  tokens: number;
  lastError?: string;
  startedAt?: string;
  rssBytes?: number;
  source: string;
}

/** ServersParams filter servers. */
export interface McpServersParams {
  state?: string;
  /** 1 to 100; default 50 */
  limit?: number;
  offset?: number;
}

/** ServersResult is one page, sorted by name. */
export interface McpServersResult {
  servers: McpStatus[];
  total: number;
}

/** Source is a place where another program keeps its MCP servers. */
export interface McpSource {
  id: string;
  title: string;
  path: string;
  /** 0 with an error */
  servers: number;
  /** why the file cannot be read */
  error?: string;
}

/** SourcesResult lists the known places that exist on this computer. */
export interface McpSourcesResult {
  sources: McpSource[];
}

/** StateResult is the state of a server. */
export interface McpStateResult {
  state: string;
}

/** Status is a server with its state. */
export interface McpStatus {
  name: string;
  transport: string;
  enabled: boolean;
  /** stopped, starting, ready, failed, needs_auth or suspended */
  state: string;
  /** its command line or URL */
  target: string;
  version?: string;
  protocol?: string;
  pid?: number;
  tools: number;
  /** tools that may be called */
  approved: number;
  /** tools that are new or changed */
  waiting: number;
  /** estimated cost of the approved tools in a model's context */
  tokens: number;
  lastError?: string;
  startedAt?: string;
  rssBytes?: number;
  source: string;
}

/** TestResult lists the steps up to the first that failed. */
export interface McpTestResult {
  ok: boolean;
  steps: McpTestStep[];
}

/** TestStep is one step of a test. */
export interface McpTestStep {
  /** resolve, start, list or ping */
  step: string;
  ok: boolean;
  ms: number;
  error?: string;
}

/** Tool is a tool of an MCP server. */
export interface McpTool {
  /** server.tool */
  id: string;
  server: string;
  name: string;
  /** its name for models */
  function: string;
  title?: string;
  description?: string;
  inputSchema?: unknown;
  outputSchema?: unknown;
  tier: string;
  /** what the server claims */
  hints: McpHints;
  tokens: number;
  /** approved, new, changed, removed or denied */
  state: string;
  problem?: string;
  hash: string;
  /** Changes are the differences to the approved definition, for a changed tool. */
  changes?: PermissionDiffChange[];
}

/** ToolsChanged is published when a list shows other tools than the last. */
export interface McpToolsChanged {
  name: string;
  added: string[];
  changed: string[];
  removed: string[];
}

/** ToolsParams select tools. */
export interface McpToolsParams {
  /** of the server; "": all */
  name?: string;
  query?: string;
  /** 1 to 100; default 50 */
  limit?: number;
  offset?: number;
}

/** ToolsResult is one page, sorted by server and name. */
export interface McpToolsResult {
  tools: McpTool[];
  total: number;
}

/** UndoParams contain the token of a removal. */
export interface McpUndoParams {
  undoToken: string;
}

/** UpdateParams change members of an entry. The name cannot be changed. */
export interface McpUpdateParams {
  name: string;
  /** Patch is a JSON merge patch (RFC 7396) of the entry. */
  patch: unknown;
}

/** AddBatchItem is the result for one item. */
export interface MemoryAddBatchItem {
  error?: MemoryItemError;
  /** absent if recalled text was not stored again */
  item?: MemoryItem;
  deduplicated: boolean;
}

/** AddBatchParams is the request of memory.add_batch: 1 to 1,000 items. */
export interface MemoryAddBatchParams {
  items: MemoryAddParams[];
}

/** AddBatchResult has one entry per item, in order. */
export interface MemoryAddBatchResult {
  items: MemoryAddBatchItem[];
}

/** AddParams is the request of memory.add. */
export interface MemoryAddParams {
  /** 1 byte to 64 KiB */
  content: string;
  /** default episodic */
  type?: string;
  /** 1 to 7; absent: none */
  layer?: number;
  tags?: string[];
  occurredAt?: string;
  salienceTier?: string;
  /** determine the tier if salienceTier is absent */
  signals?: MemorySignals;
  pinned?: boolean;
  /** default manual */
  source?: string;
  sourceRef?: string;
  metadata?: unknown;
  /** default true */
  dedupe?: boolean;
  untrusted?: boolean;
  /** of the agent that stores it */
  session?: string;
  /** -1 to 1; absent: not known */
  emotionalValence?: number;
}

/** AddResult is the result of memory.add. */
export interface MemoryAddResult {
  /** absent if recalled text was not stored again */
  item?: MemoryItem;
  deduplicated: boolean;
}

/** Changed is the event memory.changed. Op is add, update, delete, restore, purge, import or documents. IDs has at most 100 ids; Many is set if there are more. */
export interface MemoryChanged {
  ids: string[];
  op: string;
  many?: boolean;
}

/** Chunk is a part of a document. */
export interface MemoryChunk {
  id: string;
  seq: number;
  heading?: string;
  text: string;
  /** in the document; in UTF-16 code units if Helix split it */
  startOffset?: number;
  endOffset?: number;
}

/** Conversation is a conversation without its turns. */
export interface MemoryConversation {
  id: string;
  source: string;
  externalId: string;
  title: string;
  participants: string[];
  tags: string[];
  untrusted: boolean;
  turns: number;
  startedAt?: string;
  endedAt?: string;
  createdAt: string;
  deletedAt?: string;
}

/** ConversationIDParams names a conversation. */
export interface MemoryConversationIDParams {
  id: string;
}

/** ConversationParams is the request of memory.conversation. */
export interface MemoryConversationParams {
  id: string;
  /** selects the page with this turn in its middle */
  aroundSeq?: number;
  /** 1 to 200; 0 is 50 */
  limit?: number;
  offset?: number;
}

/** ConversationResult is a conversation with some of its turns, in order. */
export interface MemoryConversationResult {
  conversation: MemoryConversation;
  turns: MemoryTurn[];
  total: number;
  offset: number;
}

/** ConversationsResult is the result of memory.conversations, latest first. */
export interface MemoryConversationsResult {
  conversations: MemoryConversation[];
  total: number;
}

/** CountResult holds the number of affected rows and a token to undo the action. */
export interface MemoryCountResult {
  count: number;
  undoToken?: string;
}

/** DateRange is a first and a last time. */
export interface MemoryDateRange {
  from: string;
  to: string;
}

/** Document is one document without its text. */
export interface MemoryDocument {
  id: string;
  source: string;
  sourceUri: string;
  title: string;
  mime: string;
  tags: string[];
  untrusted: boolean;
  chunks: number;
  occurredAt?: string;
  createdAt: string;
  updatedAt: string;
  deletedAt?: string;
}

/** DocumentParams names a document. */
export interface MemoryDocumentParams {
  documentId: string;
}

/** DocumentView is a document with some of its parts, in order. */
export interface MemoryDocumentView {
  document: MemoryDocument;
  chunks: MemoryChunk[];
  total: number;
  offset: number;
}

/** DocumentViewParams is the request of memory.document. */
export interface MemoryDocumentViewParams {
  id: string;
  aroundSeq?: number;
  /** chunks, 1 to 200; 0 is 50 */
  limit?: number;
  offset?: number;
}

/** DocumentsResult is the result of memory.list_documents, most recently changed first. */
export interface MemoryDocumentsResult {
  documents: MemoryDocument[];
  total: number;
}

/** EmbeddingProgress is the event memory.embedding_progress, at most 4 per second. */
export interface MemoryEmbeddingProgress {
  ready: number;
  queued: number;
  ratePerSec: number;
}

/** EmbeddingStatus is the state of semantic search. */
export interface MemoryEmbeddingStatus {
  modelId: string;
  dims: number;
  ready: number;
  queued: number;
  stale: number;
  failed: number;
  ratePerSec: number;
  etaSeconds: number;
  paused: boolean;
  available: boolean;
  /** why it is unavailable */
  reason?: string;
  /** the model being prepared; the counts are for it */
  buildingModel?: string;
  /** that memory.reembed can switch to */
  models: string[];
}

/** ExportParams is the request of memory.export. */
export interface MemoryExportParams {
  /** jsonl (default), markdown */
  format?: string;
  filters?: SearchFilters;
}

/** ExportResult names the blob that contains the export. */
export interface MemoryExportResult {
  blobId: string;
  size: number;
  items: number;
  path?: string;
}

/** GetParams is the request of memory.get. ID may also have the form note-<uuid>. */
export interface MemoryGetParams {
  id: string;
  /** the person opened it, which reinforces it */
  touch?: boolean;
}

/** HistoryParams is the request of memory.history. */
export interface MemoryHistoryParams {
  id: string;
}

/** HistoryResult lists earlier versions of a memory, newest first. */
export interface MemoryHistoryResult {
  revisions: MemoryRevision[];
}

/** IDsParams names 1 to 1,000 memories. */
export interface MemoryIDsParams {
  ids: string[];
}

/** ImportDone is the event memory.import_done. */
export interface MemoryImportDone {
  jobId: string;
  format: string;
  path: string;
  /** pending, running, completed, failed, cancelled */
  status: string;
  /** 0 to 1 */
  progress: number;
  read: number;
  added: number;
  updated: number;
  skipped: number;
  failed: number;
  /** files of an earlier import of this folder that no longer exist */
  vanished?: string[];
  /** at most 100 */
  errors: MemoryImportError[];
  /** why it failed or is waiting, or additional information */
  message?: string;
  dryRun?: boolean;
  /** the watched folder that it belongs to */
  watchId?: string;
  startedAt?: string;
  finishedAt?: string;
}

/** ImportError is one record that could not be imported. */
export interface MemoryImportError {
  line?: number;
  file?: string;
  message: string;
}

/** ImportParams is the request of memory.import_preview and memory.import. */
export interface MemoryImportParams {
  path?: string;
  blobId?: string;
  /** name of the file that blobId or path is a copy of */
  name?: string;
  /** auto (default), chatgpt, claude, markdown, text, jsonl, locomo */
  format?: string;
  tags?: string[];
  layer?: number;
  type?: string;
  /** default true */
  untrusted?: boolean;
  dryRun?: boolean;
  /** AllowLarge permits an archive that decompresses to far more than its size. Without it such an archive is rejected with a limit error whose details have the code large_archive and both sizes, and nothing is read. */
  allowLarge?: boolean;
}

/** ImportProgress is the event memory.import_progress, at most 4 per second. */
export interface MemoryImportProgress {
  jobId: string;
  format: string;
  path: string;
  /** pending, running, completed, failed, cancelled */
  status: string;
  /** 0 to 1 */
  progress: number;
  read: number;
  added: number;
  updated: number;
  skipped: number;
  failed: number;
  /** files of an earlier import of this folder that no longer exist */
  vanished?: string[];
  /** at most 100 */
  errors: MemoryImportError[];
  /** why it failed or is waiting, or additional information */
  message?: string;
  dryRun?: boolean;
  /** the watched folder that it belongs to */
  watchId?: string;
  startedAt?: string;
  finishedAt?: string;
}

/** ImportSample is one record that an import would add. */
export interface MemoryImportSample {
  kind: string;
  title?: string;
  speaker?: string;
  text: string;
  occurredAt?: string;
}

/** ImportStatus is the status of an import. */
export interface MemoryImportStatus {
  jobId: string;
  format: string;
  path: string;
  /** pending, running, completed, failed, cancelled */
  status: string;
  /** 0 to 1 */
  progress: number;
  read: number;
  added: number;
  updated: number;
  skipped: number;
  failed: number;
  /** files of an earlier import of this folder that no longer exist */
  vanished?: string[];
  /** at most 100 */
  errors: MemoryImportError[];
  /** why it failed or is waiting, or additional information */
  message?: string;
  dryRun?: boolean;
  /** the watched folder that it belongs to */
  watchId?: string;
  startedAt?: string;
  finishedAt?: string;
}

/** ImportsResult lists imports, newest first. */
export interface MemoryImportsResult {
  jobs: MemoryImportStatus[];
  total: number;
}

/** Item is one memory. */
export interface MemoryItem {
  id: string;
  /** episodic, semantic, procedural */
  type: string;
  title?: string;
  content: string;
  /** 1 to 7; absent: none */
  layer?: number;
  tags: string[];
  source: string;
  sourceRef?: string;
  untrusted: boolean;
  /** 0 to 100 */
  salience: number;
  /** critical, high, medium, low */
  salienceTier: string;
  pinned: boolean;
  /** -1 to 1 */
  emotionalValence?: number;
  accessCount: number;
  occurredAt?: string;
  lastAccessed?: string;
  lastReinforcedAt?: string;
  initialStrength: number;
  /** current retention, 0 to 1 */
  retention?: number;
  /** none, queued, ready, stale, failed */
  embeddingState: string;
  metadata?: unknown;
  version: number;
  createdAt: string;
  updatedAt: string;
  deletedAt?: string;
}

/** ItemError is the reason why an item was rejected. */
export interface MemoryItemError {
  kind: string;
  message: string;
}

/** ItemsResult lists changed memories. */
export interface MemoryItemsResult {
  items: MemoryItem[];
  undoToken?: string;
}

/** JobParams identifies an import. */
export interface MemoryJobParams {
  jobId: string;
}

/** JobResult is the result of memory.import. */
export interface MemoryJobResult {
  jobId: string;
}

/** ListParams is the request of memory.list. */
export interface MemoryListParams {
  filters?: SearchFilters;
  /** recent (default), occurred, salience, retention */
  sort?: string;
  /** 1 to 200; 0 is 50 */
  limit?: number;
  offset?: number;
  cursor?: string;
  /** deleted memories, newest first */
  trash?: boolean;
}

/** ListResult is the result of memory.list. */
export interface MemoryListResult {
  items: MemoryItem[];
  total: number;
  nextCursor?: string;
}

/** PageParams requests a page of a list. */
export interface MemoryPageParams {
  /** searched in titles */
  query?: string;
  /** 1 to 200; 0 is 50 */
  limit?: number;
  offset?: number;
  trash?: boolean;
  /** time of the content of a conversation or document, inclusive */
  from?: string;
  /** exclusive */
  to?: string;
}

/** PinParams is the request of memory.pin. */
export interface MemoryPinParams {
  id?: string;
  ids?: string[];
  /** default true */
  on?: boolean;
}

/** PreviewResult describes what an import would add. */
export interface MemoryPreviewResult {
  format: string;
  conversations: number;
  items: number;
  dateRange?: MemoryDateRange;
  /** at most 5 */
  samples: MemoryImportSample[];
  warnings: string[];
  duplicates: number;
  /** a folder, which memory.watch_add accepts too */
  folder?: boolean;
  /** only the beginning was read, because the source is very large */
  partial?: boolean;
}

/** ReembedParams is the request of memory.reembed. */
export interface MemoryReembedParams {
  /** "": recompute all vectors of the active model */
  modelId?: string;
  /** only pauses or resumes the work */
  pause?: boolean;
  /** only retries failed items */
  failed?: boolean;
}

/** Revision is one earlier version of a memory. */
export interface MemoryRevision {
  version: number;
  content: string;
  tags: string[];
  editedAt: string;
  /** person, agent, import, sync, undo */
  origin: string;
}

/** SalienceParams is the request of memory.set_salience. */
export interface MemorySalienceParams {
  id?: string;
  ids?: string[];
  tier: string;
}

/** Signals are the inputs for the salience of a text. An unknown signal is 0. */
export interface MemorySignals {
  /** intensity of emotion, 0 to 1 */
  emotion?: number;
  /** number of the person's goals that it relates to */
  goals?: number;
  /** number of changes in the person's thoughts or actions */
  shifts?: number;
  /** confidence in the other signals, 0 to 1 */
  confidence: number;
}

/** Stats counts the items of a user. */
export interface MemoryStats {
  conversations: number;
  documents: number;
  trash: number;
  indexBytes: number;
  /** in memory */
  vectorBytes: number;
  total: number;
  memories: number;
  turns: number;
  chunks: number;
  byType: SearchCount[];
  byLayer: SearchCount[];
  bySource: SearchCount[];
  byMonth: SearchCount[];
  /** most used first, at most 100 */
  tags: SearchCount[];
}

/** TagParams is the request of memory.tag. */
export interface MemoryTagParams {
  id?: string;
  ids?: string[];
  add?: string[];
  remove?: string[];
}

/** TrustParams is the request of memory.set_untrusted, which marks or unmarks everything from one source: a conversation, a document or an importer. */
export interface MemoryTrustParams {
  conversationId?: string;
  documentId?: string;
  source?: string;
  untrusted: boolean;
}

/** Turn is one message. */
export interface MemoryTurn {
  id: string;
  seq: number;
  /** id in the original */
  turnId?: string;
  /** user, assistant */
  role: string;
  speaker?: string;
  text: string;
  occurredAt?: string;
}

/** UndoParams is the request of memory.undo. A token expires after ten minutes. */
export interface MemoryUndoParams {
  undoToken: string;
}

/** UpdateParams is the request of memory.update. Absent fields are left unchanged. */
export interface MemoryUpdateParams {
  id: string;
  version: number;
  content?: string;
  type?: string;
  /** 0: clear */
  layer?: number;
  tags?: string[];
  salienceTier?: string;
  /** a time, or null to clear */
  occurredAt?: unknown;
  /** an object, or null to clear */
  metadata?: unknown;
  untrusted?: boolean;
  /** -1 to 1, or null to clear */
  emotionalValence?: unknown;
}

/** UpdateResult holds the updated memory and a token to undo the edit. */
export interface MemoryUpdateResult {
  /** absent if nothing changed */
  undoToken?: string;
  id: string;
  /** episodic, semantic, procedural */
  type: string;
  title?: string;
  content: string;
  /** 1 to 7; absent: none */
  layer?: number;
  tags: string[];
  source: string;
  sourceRef?: string;
  untrusted: boolean;
  /** 0 to 100 */
  salience: number;
  /** critical, high, medium, low */
  salienceTier: string;
  pinned: boolean;
  /** -1 to 1 */
  emotionalValence?: number;
  accessCount: number;
  occurredAt?: string;
  lastAccessed?: string;
  lastReinforcedAt?: string;
  initialStrength: number;
  /** current retention, 0 to 1 */
  retention?: number;
  /** none, queued, ready, stale, failed */
  embeddingState: string;
  metadata?: unknown;
  version: number;
  createdAt: string;
  updatedAt: string;
  deletedAt?: string;
}

/** UpsertChunk is one part of a document. */
export interface MemoryUpsertChunk {
  seq: number;
  text: string;
  heading?: string;
  /** in the document */
  startOffset?: number;
  endOffset?: number;
  metadata?: unknown;
}

/** UpsertParams is the request of memory.upsert_chunks. It has either chunks or text. */
export interface MemoryUpsertParams {
  source: MemoryUpsertSource;
  chunks?: MemoryUpsertChunk[];
  /** Helix splits it */
  text?: string;
  tags?: string[];
  /** default true */
  untrusted?: boolean;
}

/** UpsertResult counts the changes. */
export interface MemoryUpsertResult {
  documentId: string;
  added: number;
  kept: number;
  removed: number;
  embedded: number;
}

/** UpsertSource identifies a document. */
export interface MemoryUpsertSource {
  uri: string;
  title?: string;
  mime?: string;
  /** hex SHA-256 of the whole document */
  contentHash?: string;
}

/** WatchAddParams is the request of memory.watch_add. Fields other than path are those of memory.import. */
export interface MemoryWatchAddParams {
  path: string;
  /** auto (default), markdown, text */
  format?: string;
  tags?: string[];
  layer?: number;
  type?: string;
  /** default true */
  untrusted?: boolean;
}

/** WatchChanged is the event memory.watch_changed: the state of a watched folder changed, or the folder was removed. */
export interface MemoryWatchChanged {
  watchId: string;
}

/** WatchListResult lists watched folders by their paths. */
export interface MemoryWatchListResult {
  folders: MemoryWatchedFolder[];
}

/** WatchParams identifies a watched folder. */
export interface MemoryWatchParams {
  watchId: string;
}

/** WatchedFolder is a folder of notes that is imported again when it changes. */
export interface MemoryWatchedFolder {
  watchId: string;
  path: string;
  /** markdown, text */
  format: string;
  /** watching, importing, paused, missing, failed */
  state: string;
  /** why it is missing, failed or paused */
  message?: string;
  /** imported notes that still exist */
  files: number;
  /** notes whose documents the last change moved to the trash */
  trashed: number;
  tags: string[];
  untrusted: boolean;
  lastImport?: MemoryImportStatus;
  /** time of the last scan since Helix started */
  scannedAt?: string;
  createdAt: string;
}

/** Flow is a sign-in in progress. The user opens its URL in a browser. */
export interface OauthFlow {
  flowId: string;
  authUrl: string;
  expiresAt: string;
}

/** Flow is one flow of OAuth 2. */
export interface OpenapiFlow {
  /** authorizationCode or clientCredentials */
  kind: string;
  authorizationUrl?: string;
  tokenUrl?: string;
  scopes: string[];
}

/** Scheme is one way to authenticate that a description offers. */
export interface OpenapiScheme {
  name: string;
  /** apiKey, basic, bearer or oauth2; "": it cannot be used */
  kind: string;
  /** of an API key: header, query or cookie */
  in?: string;
  /** of an API key: its name there */
  param?: string;
  description?: string;
  /** why it cannot be used */
  why?: string;
  flows?: OpenapiFlow[];
}

/** Server is an address that a description offers, possibly with variables. */
export interface OpenapiServer {
  url: string;
  description?: string;
  variables?: OpenapiVariable[];
}

/** Variable is a part of a server's address that the user can choose. */
export interface OpenapiVariable {
  name: string;
  default?: string;
  /** empty: any value */
  enum?: string[];
  description?: string;
}

/** Warning is a part of a description that was ignored. */
export interface OpenapiWarning {
  /** JSON pointer into the description */
  pointer: string;
  message: string;
}

/** Changed is published when background work was paused or may continue. */
export interface PauseChanged {
  state: PauseState;
}

/** Reason is why background work is paused. */
export type PauseReason = "low_space" | "person";

/** State is the state of a Pause for clients. */
export interface PauseState {
  paused: boolean;
  reasons: PauseReason[];
  /** Until is when a person's pause ends automatically; absent: it does not. */
  until?: string;
}

/** AnswerParams answers a question. */
export interface PermissionAnswerParams {
  id: string;
  /** approve or deny */
  decision: string;
  /** the hash that was shown */
  definitionHash: string;
  /** once (default), run, session or always */
  scope?: string;
  /** only for always */
  expiresAt?: string;
  /** absent: all items of the question */
  items?: PermissionItemAnswer[];
  /** with deny: deny this in the future too */
  remember?: boolean;
  /** with approve: start the same run again */
  rerun?: boolean;
  /** kept with the decision */
  note?: string;
  /** Choice is one of the question's choices; absent: the only one that matches the decision. */
  choice?: string;
  /** for the question's form */
  data?: unknown;
}

/** AnswerResult is the effect of an answer. */
export interface PermissionAnswerResult {
  status: string;
  grants: PermissionGrant[];
  /** of the restarted run */
  runId?: string;
  /** RerunError is the reason why the run was not started again. The answer is valid regardless. */
  rerunError?: string;
}

/** Approval is a question to the user. */
export interface PermissionApproval {
  id: string;
  /** capability, definition, tier or command */
  kind: string;
  subject: PermissionSubjectRef;
  /** hexadecimal; must be repeated in approvals.decide */
  definitionHash: string;
  /** read_only, side_effecting or privileged */
  tier: string;
  /** what is asked, in one sentence */
  sentence: string;
  requested: PermissionItem[];
  /** only of kind command */
  question?: PermissionQuestion;
  run: PermissionRunRef;
  /** possible scopes: once, run, session, always */
  scopes: string[];
  /** pending, approved, denied, expired or superseded */
  status: string;
  /** identical requests so far */
  count: number;
  createdAt: string;
  lastAt: string;
  expiresAt: string;
  decidedAt?: string;
  decidedBy?: string;
  decision?: unknown;
}

/** ApprovalChanged is the event approvals.changed. */
export interface PermissionApprovalChanged {
  id: string;
  status: string;
  pendingCount: number;
}

/** Changed is the event permissions.changed. */
export interface PermissionChanged {
  /** *: several subjects */
  subjectId: string;
}

/** Choice is one possible answer to a Question. */
export interface PermissionChoice {
  id: string;
  /** verb first, such as Try again */
  label: string;
  /** its consequence, one sentence */
  help?: string;
  /** counts as an approval, otherwise as a denial */
  approves: boolean;
}

/** Denial is a remembered denial. */
export interface PermissionDenial {
  id: string;
  /** id * stands for every subject of the kind */
  subject: PermissionSubjectRef;
  capability: string;
  resource: string;
  sentence: string;
  reason: string;
  createdAt: string;
}

/** DiffCapabilities lists the declared capabilities that were added and removed. */
export interface PermissionDiffCapabilities {
  added: string[];
  removed: string[];
}

/** DiffChange is one location where two definitions differ. */
export interface PermissionDiffChange {
  /** JSON Pointer */
  path: string;
  /** added, removed or changed */
  kind: string;
  before?: unknown;
  after?: unknown;
}

/** DiffParams identifies two definitions of a subject by their hashes. */
export interface PermissionDiffParams {
  subjectKind: string;
  subjectId: string;
  /** default: the last approved one */
  from?: string;
  /** default: the current one */
  to?: string;
}

/** DiffResult is the difference between two definitions. */
export interface PermissionDiffResult {
  /** hashes; "": none */
  from: string;
  to: string;
  changes: PermissionDiffChange[];
  capabilities: PermissionDiffCapabilities;
}

/** GetApprovalParams identifies a question. */
export interface PermissionGetApprovalParams {
  id: string;
}

/** GetApprovalResult is a question with information that helps to answer it. */
export interface PermissionGetApprovalResult {
  /** the changes since the last approved definition */
  diff?: PermissionDiffResult;
  /** previous decisions about this subject, newest first */
  history: PermissionApproval[];
  preview?: PermissionPreviewResult;
  id: string;
  /** capability, definition, tier or command */
  kind: string;
  subject: PermissionSubjectRef;
  /** hexadecimal; must be repeated in approvals.decide */
  definitionHash: string;
  /** read_only, side_effecting or privileged */
  tier: string;
  /** what is asked, in one sentence */
  sentence: string;
  requested: PermissionItem[];
  /** only of kind command */
  question?: PermissionQuestion;
  run: PermissionRunRef;
  /** possible scopes: once, run, session, always */
  scopes: string[];
  /** pending, approved, denied, expired or superseded */
  status: string;
  /** identical requests so far */
  count: number;
  createdAt: string;
  lastAt: string;
  expiresAt: string;
  decidedAt?: string;
  decidedBy?: string;
  decision?: unknown;
}

/** Grant is a granted capability. */
export interface PermissionGrant {
  id: string;
  subject: PermissionSubjectRef;
  definitionHash: string;
  capability: string;
  resource: string;
  sentence: string;
  scope: string;
  runId?: string;
  usesLeft?: number;
  /** user, preset or policy */
  origin: string;
  /** active, suspended, revoked or expired */
  state: string;
  createdAt: string;
  expiresAt?: string;
  lastUsedAt?: string;
  revokedAt?: string;
  revokeReason?: string;
  suspendedAt?: string;
}

/** Item is one capability in a question, an answer or a grant. */
export interface PermissionItem {
  capability: string;
  resource: string;
  /** the subject's explanation, sanitized */
  why?: string;
}

/** ItemAnswer allows or denies one item of a question. */
export interface PermissionItemAnswer {
  capability: string;
  resource: string;
  allow: boolean;
}

/** ListApprovalsParams filters questions. */
export interface PermissionListApprovalsParams {
  /** default pending; all for every status */
  status?: string;
  subjectId?: string;
  /** 1..100, default 50 */
  limit?: number;
  offset?: number;
}

/** ListApprovalsResult is one page, newest first. */
export interface PermissionListApprovalsResult {
  approvals: PermissionApproval[];
  total: number;
  pendingCount: number;
}

/** ListParams filters grants and denials. */
export interface PermissionListParams {
  subjectId?: string;
  /** active, suspended, revoked or expired; absent: all */
  state?: string;
  /** 1..100, default 50 */
  limit?: number;
  offset?: number;
}

/** ListResult is one page of grants, suspended ones first, then newest first. Up to 1,000 denials are listed on every page. */
export interface PermissionListResult {
  grants: PermissionGrant[];
  denials: PermissionDenial[];
  /** number of matching grants */
  total: number;
}

/** PreviewCapability is one capability that a step needs. */
export interface PermissionPreviewCapability {
  capability: string;
  resource: string;
  /** granted, missing, denied or narrowed */
  state: string;
  /** the grant, the rule or what it is narrowed to */
  by?: string;
}

/** PreviewParams requests what a run would need. */
export interface PermissionPreviewParams {
  subject: PermissionPreviewSubject;
  input?: unknown;
}

/** PreviewResult is what a run would need and whether it would stop. Nothing is run. */
export interface PermissionPreviewResult {
  steps: PermissionPreviewStep[];
  /** of all steps */
  union: PermissionPreviewCapability[];
  hosts: string[];
  secrets: string[];
  tier: string;
  willAsk: PermissionItem[];
  /** ok or will_stop */
  unattended: string;
  /** what cannot run, and why */
  stops: PermissionPreviewStop[];
  /** known only when it runs */
  unresolved: string[];
}

/** PreviewStep is one step of the run. */
export interface PermissionPreviewStep {
  stepId: string;
  subject: PermissionSubjectRef;
  tier: string;
  capabilities: PermissionPreviewCapability[];
}

/** PreviewStop is a subject that cannot run at present. */
export interface PermissionPreviewStop {
  subject: PermissionSubjectRef;
  /** inactive, or definition_changed: its change needs approval */
  reason: string;
  message: string;
}

/** PreviewSubject identifies the subject of a preview. */
export interface PermissionPreviewSubject {
  kind: string;
  id: string;
}

/** Question is a domain's question to a person that is not about a capability, such as whether a step may proceed, or what happened to a call that a crash interrupted. */
export interface PermissionQuestion {
  /** one sentence, sanitized */
  text: string;
  /** additional plain text */
  message?: string;
  /** what the question is about, such as the input of the call */
  details?: unknown;
  /** at least one */
  choices: PermissionChoice[];
  /** JSON Schema of the data for an approving choice */
  form?: unknown;
  /** path of the waiting step */
  step?: string;
  /** the details are private and deleted with the answer */
  forget?: boolean;
}

/** RevokeParams revokes grants or undoes that. Exactly one field is set. UndoToken and DenialID require the scope approve, because they extend permissions. */
export interface PermissionRevokeParams {
  grantId?: string;
  subjectId?: string;
  all?: boolean;
  /** of a revocation at most 10 s ago: restores its grants */
  undoToken?: string;
  /** deletes a remembered denial */
  denialId?: string;
}

/** RevokeResult is the effect of a revocation. */
export interface PermissionRevokeResult {
  revoked: number;
  restored?: number;
  /** valid for 10 s */
  undoToken?: string;
}

/** RunRef is the run that asked a question. */
export interface PermissionRunRef {
  kind: string;
  id?: string;
  /** the run is blocked until the answer */
  waiting: boolean;
  /** the same run can be started again */
  rerun: boolean;
}

/** SubjectRef is a subject on the wire. */
export interface PermissionSubjectRef {
  kind: string;
  id: string;
  /** sanitized */
  name?: string;
}

/** Caps are the capabilities of a model. */
export interface ProvidersCaps {
  tools: boolean;
  images: boolean;
  files: boolean;
  reasoning: boolean;
  structured: boolean;
}

/** CatalogChanged is published when another catalog becomes active. */
export interface ProvidersCatalogChanged {
  date: string;
}

/** Changed is published when an entry, what is known about it, or the models of a role have changed. */
export interface ProvidersChanged {
  /** Name is the entry; empty: a role. */
  name: string;
  state: string;
}

/** Changes counts the models that differ. */
export interface ProvidersChanges {
  added: number;
  removed: number;
  priced: number;
}

/** CircuitState reports whether calls are let through. */
export interface ProvidersCircuitState {
  /** State is closed, open or half_open. */
  state: string;
  until?: string;
}

/** CountParams names a model and the content to count. */
export interface ProvidersCountParams {
  model?: string;
  text?: string;
  messages?: ProvidersMessage[];
  tools?: ProvidersToolDecl[];
}

/** CountPart is the number of tokens of one part. */
export interface ProvidersCountPart {
  name: string;
  tokens: number;
}

/** CountResult is a number of tokens. */
export interface ProvidersCountResult {
  tokens: number;
  /** Method is exact if the model's vocabulary is public and covers all of the content, calibrated if services have reported the sizes of earlier prompts, otherwise estimate. */
  method: string;
  parts: ProvidersCountPart[];
}

/** DetectResult holds the servers that answered. */
export interface ProvidersDetectResult {
  found: ProvidersDetected[];
}

/** Detected is a model server on this computer. */
export interface ProvidersDetected {
  type: string;
  baseUrl: string;
  product: string;
  models: string[];
}

/** Difference is a model that differs between two catalogs. */
export interface ProvidersDifference {
  model: string;
  /** Kind is added, removed or priced. */
  kind: string;
}

/** Entry is a service in the registry, without its key. */
export interface ProvidersEntry {
  /** Type is openai, openai_responses, anthropic, gemini or scripted. */
  type: string;
  /** BaseURL is the address of the service; empty for the type's own service. For scripted it is the file of the script. */
  baseUrl?: string;
  /** APIKeyEnv names the environment variable that holds the key. */
  apiKeyEnv?: string;
  extraHeaders?: Record<string, string>;
  /** CatalogProvider is the catalog's provider of these models, if it is not the entry's own name. */
  catalogProvider?: string;
  organization?: string;
  /** TimeoutIdleMs is the longest time without data; 60,000 by default. */
  timeoutIdleMs?: number;
  /** MaxConcurrent is the number of concurrent calls; 4 by default. */
  maxConcurrent?: number;
  /** RPM limits the calls per minute; 0: no limit. */
  rpm?: number;
  /** TPM limits the tokens per minute, of prompts and answers together; 0: no limit. */
  tpm?: number;
  skipCatalogValidation?: boolean;
  genericKey?: boolean;
  /** AllowPrivateNetwork allows calls of this entry to reach a private address, even without https. */
  allowPrivateNetwork?: boolean;
  quirks?: Record<string, string>;
  disabled?: boolean;
}

/** FetchResult is the result of fetching the catalog. */
export interface ProvidersFetchResult {
  date: string;
  sha256: string;
  providers: number;
  models: number;
  changed: ProvidersChanges;
}

/** ListResult holds the registry, sorted by name. */
export interface ProvidersListResult {
  providers: ProvidersView[];
}

/** Message is one turn of a conversation. */
export interface ProvidersMessage {
  role: string;
  parts: ProvidersPart[];
}

/** ModelInfo describes a model to callers and in the interface. */
export interface ProvidersModelInfo {
  ref: string;
  name: string;
  family?: string;
  caps: ProvidersCaps;
  window: number;
  output: number;
  prices: ProvidersPrice;
  status?: string;
  /** LoadedWindow is the window with which a server on this computer has loaded the model; 0: it does not say. */
  loadedWindow?: number;
  /** Source is catalog, server or assumed. */
  source: string;
  /** Host is the host that requests for the model are sent to. */
  host?: string;
  /** Local reports that the host is this computer. */
  local?: boolean;
  /** NoTemperature reports that the model rejects a temperature. */
  noTemperature?: boolean;
  /** Interleaved names the member in which a chat server expects earlier reasoning. */
  interleaved?: string;
}

/** ModelsParams selects models. */
export interface ProvidersModelsParams {
  provider?: string;
  /** Query must occur in the name or the id. */
  query?: string;
  /** Capability is tools, images, files, reasoning or structured. */
  capability?: string;
  /** Limit is 1 to 200; default 50. */
  limit?: number;
  offset?: number;
}

/** ModelsResult is one page. */
export interface ProvidersModelsResult {
  models: ProvidersModelInfo[];
  total: number;
}

/** NameParams names an entry. */
export interface ProvidersNameParams {
  name: string;
}

/** Opaque is a signature or encrypted reasoning. It is stored and sent back unchanged to the provider and model family that it came from, and never shown or logged. */
export interface ProvidersOpaque {
  provider: string;
  model: string;
  kind: string;
  data: string;
}

/** Part is a piece of a message; Kind determines which fields are set. */
export interface ProvidersPart {
  kind: string;
  /** Text is set for text, reasoning and tool results. */
  text?: string;
  /** Data and MediaType are set for images and files; Name for files, tool calls and results. */
  data?: string;
  /** Blob identifies content that the caller loads into Data before sending the request. */
  blob?: string;
  mediaType?: string;
  name?: string;
  /** ID pairs a tool call with its result. Args is the call's input as JSON. */
  id?: string;
  args?: string;
  error?: boolean;
  /** Opaque is data that a service requires back unchanged. */
  opaque?: ProvidersOpaque;
}

/** Price holds prices in micros per million tokens; nil means that the catalog has none. */
export interface ProvidersPrice {
  input?: number;
  output?: number;
  cacheRead?: number;
  cacheWrite?: number;
  reasoning?: number;
  /** Over holds the prices of prompts above given sizes. */
  over?: ProvidersTier[];
}

/** RoleConfig is the chain of models of a role, the preferred one first, with its settings. */
export interface ProvidersRoleConfig {
  chain: string[];
  effort?: string;
  temperature?: number;
  maxOutput?: number;
  /** MaxCostMicrosCall is the highest cost of one call; a call that may cost more is refused. */
  maxCostMicrosCall?: number;
}

/** RoleView is a role with its models. */
export interface ProvidersRoleView {
  role: string;
  chain: string[];
  /** Problems describe, in sentences, why models of the chain can't be used. */
  problems: string[];
  options: ProvidersRoleConfig;
  /** FromFile reports that the role is set in config.toml and must be changed there. */
  fromFile?: boolean;
}

/** RolesResult holds all roles. */
export interface ProvidersRolesResult {
  roles: ProvidersRoleView[];
}

/** SetParams adds or changes an entry. */
export interface ProvidersSetParams {
  /** Name is a-z, 0-9, _ and -, and begins with a letter. */
  name: string;
  entry: ProvidersEntry;
  /** APIKey is stored as an encrypted secret; empty leaves the stored key unchanged. */
  apiKey?: string;
}

/** SetRoleParams selects the models of a role. */
export interface ProvidersSetRoleParams {
  role: string;
  /** Chain names models as provider/model, first preferred. Empty: none. */
  chain: string[];
  /** Options are the effort, the temperature, the longest answer and the highest cost of a call. */
  options?: ProvidersRoleConfig;
}

/** ShowParams selects a part of the catalog. */
export interface ProvidersShowParams {
  provider?: string;
  model?: string;
}

/** ShowResult is the selected part of the catalog. */
export interface ProvidersShowResult {
  date: string;
  sha256: string;
  providers: string[];
  /** Models are those of the selected provider. */
  models: ProvidersModelInfo[];
}

/** TestParams selects what to test. */
export interface ProvidersTestParams {
  name: string;
  /** Model is the model to call if Call is set; by default, the chat role's model of this provider. */
  model?: string;
  /** Call sends one short message, which costs money. */
  call?: boolean;
}

/** TestResult holds the steps up to the first failure. */
export interface ProvidersTestResult {
  steps: ProvidersTestStep[];
  costMicros: number;
}

/** TestStep is one of key, connect, models and stream. */
export interface ProvidersTestStep {
  step: string;
  ok: boolean;
  ms: number;
  message: string;
  hint?: string;
  /** Kind is the kind of the error. */
  kind?: string;
}

/** Tier is a price for prompts of more than Above tokens. */
export interface ProvidersTier {
  above: number;
  input?: number;
  output?: number;
  cacheRead?: number;
  cacheWrite?: number;
  reasoning?: number;
  /** Over holds the prices of prompts above given sizes. */
  over?: ProvidersTier[];
}

/** ToolDecl declares a tool. Input is JSON Schema 2020-12. */
export interface ProvidersToolDecl {
  name: string;
  description?: string;
  input?: unknown;
}

/** Usage counts tokens. Input excludes the tokens read from or written to a cache; Output includes Reasoning. */
export interface ProvidersUsage {
  input: number;
  cacheRead?: number;
  cacheWrite?: number;
  cacheWrite1h?: number;
  output: number;
  reasoning?: number;
  toolPrompt?: number;
  requests?: number;
  /** ReportedMicros is the cost that the service itself reports, in millionths of a dollar. */
  reportedMicros?: number;
  /** Estimated reports that the counts are estimates, because the service did not report them. */
  estimated?: boolean;
}

/** VerifyResult compares the active catalog with the embedded one. */
export interface ProvidersVerifyResult {
  equal: boolean;
  /** Differences are at most 1,000. */
  differences: ProvidersDifference[];
}

/** View is an entry as the interface shows it. */
export interface ProvidersView {
  name: string;
  type: string;
  baseUrl: string;
  enabled: boolean;
  /** Local reports that the service runs on this computer. */
  local: boolean;
  /** KeySource is the source of the key; empty: no key is set. The key itself is never returned. */
  keySource: string;
  /** State is ready, no_key, unreachable, open or disabled. */
  state: string;
  circuit: ProvidersCircuitState;
  lastError?: string;
  /** Problem describes what is wrong with an entry of config.toml. FromFile entries must be changed there. */
  problem?: string;
  fromFile?: boolean;
  /** Models is the number of the service's models in the catalog. */
  models: number;
  entry: ProvidersEntry;
}

/** Cause says why an item has its retention. */
export interface PsychologyCause {
  /** decays, off, pinned, layerOff, critical, review */
  code: string;
  /** decays: since it was revisited */
  days?: number;
  /** decays: until half of it has faded */
  halfLifeHours?: number;
}

/** Changed is the event that entries, layers, the soul or settings have changed. */
export interface PsychologyChanged {
  layers: number[];
  ids: string[];
}

/** Counts are the counts of an export or import. */
export interface PsychologyCounts {
  files: number;
  entries: number;
  interactions: number;
  /** unreadable items */
  skipped: number;
}

/** Crossing is a threshold that the retention of an item fell below or rose above. */
export interface PsychologyCrossing {
  /** of the item */
  id: string;
  layer: number;
  previous: number;
  retention: number;
  threshold: number;
  at: string;
  runId: string;
}

/** Done is the event that a run has ended. */
export interface PsychologyDone {
  runId: string;
  changed: number;
  trashed: number;
}

/** Entry is one entry of a layer. */
export interface PsychologyEntry {
  id: string;
  layerNumber: number;
  kind: string;
  data: unknown;
  /** the memories that it is based on */
  memoryIds: string[];
  /** person, synthesis, import */
  origin: string;
  patternId?: string;
  initialStrength: number;
  /** current */
  retention: number;
  lastReinforcedAt?: string;
  reinforcementCount: number;
  salienceTier: string;
  pinned: boolean;
  /** reopened after it had faded: edits preserve the earlier text */
  open?: boolean;
  version: number;
  createdAt: string;
  updatedAt: string;
  problem?: string;
  raw?: string;
}

/** ExportParams sets the destination of an export. */
export interface PsychologyExportParams {
  /** a folder below that of your own files; default: that folder itself */
  path?: string;
  /** one file to download instead */
  zip?: boolean;
}

/** ExportResult counts the exported items. */
export interface PsychologyExportResult {
  path?: string;
  blobId?: string;
  files: number;
  entries: number;
  interactions: number;
  /** unreadable items */
  skipped: number;
}

/** Fading is the time at which a threshold is reached. */
export interface PsychologyFading {
  threshold: number;
  at: string;
}

/** FadingItem is a memory or an entry that will fade soon. */
export interface PsychologyFadingItem {
  /** when it falls below 0.3, or its review is planned */
  at: string;
  /** the cause in English */
  reason: string;
  cause: PsychologyCause;
  /** a review is planned for that time */
  review?: boolean;
  id: string;
  /** memory, entry, layer */
  kind: string;
  layerNumber: number;
  title: string;
  /** current */
  retention: number;
  pinned: boolean;
  salienceTier: string;
}

/** FadingParams filters memories and entries that will fall below 0.3. */
export interface PsychologyFadingParams {
  /** 1 to 365, default 30 */
  withinDays?: number;
  /** 1 to 100, default 50 */
  limit?: number;
  offset?: number;
}

/** FadingResult lists fading items, soonest first. */
export interface PsychologyFadingResult {
  items: PsychologyFadingItem[];
  total: number;
}

/** FadingSoon is the event that something has faded below 0.3, at most once a day. */
export interface PsychologyFadingSoon {
  count: number;
}

/** ForecastParams is the request of psychology.forecast. */
export interface PsychologyForecastParams {
  /** of a memory or an entry */
  id?: string;
  /** alternative to id */
  layerNumber?: number;
  /** default now */
  from?: string;
  /** default 90 days later; at most two years after from */
  to?: string;
  /** 2 to 500, default 60 */
  points?: number;
  whatIf?: PsychologyWhatIf;
}

/** ForecastResult is the forecast of an item. */
export interface PsychologyForecastResult {
  points: PsychologyPoint[];
  crossings: PsychologyFading[];
  floor: number;
  /** the cause in English */
  reason: string;
  cause: PsychologyCause;
  item: PsychologyItem;
  /** stored reviews; the points assume that they take place */
  plannedReviews?: string[];
  model: string;
  parameter: number;
}

/** HistoryParams filters threshold crossings, newest first. */
export interface PsychologyHistoryParams {
  id?: string;
  /** 1 to 100, default 50 */
  limit?: number;
  offset?: number;
}

/** HistoryResult is a page of crossings, and the last runs. */
export interface PsychologyHistoryResult {
  crossings: PsychologyCrossing[];
  total: number;
  /** the last 20 */
  runs: PsychologyRun[];
}

/** IDsParams identifies entries. */
export interface PsychologyIDsParams {
  /** at most 1,000 */
  ids: string[];
}

/** ImportParams identifies the export to import. */
export interface PsychologyImportParams {
  /** a folder below that of your own files, or one that was chosen or uploaded; default: that folder itself */
  path?: string;
  blobId?: string;
}

/** Interaction is an interaction with a person. */
export interface PsychologyInteraction {
  id: string;
  personId?: string;
  at: string;
  dimension?: string;
  evidence?: number | null;
  salienceTier: string;
  note?: string;
  memoryId?: string;
  /** overall trust */
  before: number;
  after: number;
}

/** InteractionParams records an interaction with a person. */
export interface PsychologyInteractionParams {
  /** the entry of the person */
  personId: string;
  /** default now */
  at?: string;
  /** competence, integrity, benevolence, predictability, vulnerabilitySafety; default all */
  dimension?: string;
  /** -1 to 1; null: the outcome is unknown, and trust does not change */
  evidence?: number | null;
  salienceTier: string;
  note?: string;
  memoryId?: string;
  /** the interaction that this one corrects */
  replaces?: string;
}

/** InteractionResult is the effect of an interaction. */
export interface PsychologyInteractionResult {
  interactionId: string;
  person: PsychologyEntry;
  /** overall trust */
  before: number;
  after: number;
  stage: string;
  needs?: PsychologyStageNeeds;
}

/** Item is a memory, an entry or a layer with its retention. */
export interface PsychologyItem {
  id: string;
  /** memory, entry, layer */
  kind: string;
  layerNumber: number;
  title: string;
  /** current */
  retention: number;
  pinned: boolean;
  salienceTier: string;
}

/** ItemsResult lists items after a change. */
export interface PsychologyItemsResult {
  items: PsychologyItem[];
  undoToken?: string;
}

/** Kind is a kind of entry. */
export interface PsychologyKind {
  kind: string;
  layer: number;
  title: string;
  /** JSON Schema of its data; additional keys are kept */
  schema: unknown;
}

/** Layer is one of the seven layers. */
export interface PsychologyLayer {
  /** absent: not stored yet */
  id?: string;
  layerNumber: number;
  layerName: string;
  theory: string;
  data: unknown;
  decayModel: string;
  /** parameter of the model */
  decayRate: number;
  initialStrength: number;
  /** current */
  retention: number;
  lastUpdated: string;
  lastReinforcedAt?: string;
  enabled: boolean;
  version: number;
  entries: PsychologyEntry[];
  kinds: PsychologyKind[];
  /** why its data can't be read */
  problem?: string;
  /** the undecodable content */
  raw?: string;
}

/** LayerParams identifies a layer. */
export interface PsychologyLayerParams {
  layerNumber: number;
}

/** LayerStatus is how complete a layer is. */
export interface PsychologyLayerStatus {
  layerNumber: number;
  layerName: string;
  /** healthy: all kinds have entries; warning: some do; inactive: none does, or off; error: an entry can't be read */
  status: string;
  reason?: string;
  /** kinds without an entry */
  missing?: string[];
  /** the unreadable entry */
  id?: string;
}

/** LayersResult is the result of psychology.get_all_layers. */
export interface PsychologyLayersResult {
  layers: PsychologyLayer[];
}

/** Overview summarizes psychology. */
export interface PsychologyOverview {
  layers: PsychologyOverviewLayer[];
  settings: PsychologySettings;
  nextDecayAt?: string;
  /** mean over people with interactions */
  trustOverall?: number;
}

/** OverviewLayer is a layer in the overview. */
export interface PsychologyOverviewLayer {
  layerNumber: number;
  layerName: string;
  theory: string;
  status: string;
  reason?: string;
  retention: number;
  entries: number;
  /** number of entries below 0.3 */
  fading: number;
  enabled: boolean;
  lastReinforcedAt?: string;
  /** its strongest entries */
  summary: string;
}

/** PageParams selects a page. */
export interface PsychologyPageParams {
  /** 1 to 100, default 20 */
  limit?: number;
  offset?: number;
}

/** PinParams pins or unpins entries or memories. */
export interface PsychologyPinParams {
  ids: string[];
  on: boolean;
}

/** PlanReviewsParams sets when an item is to be reviewed. */
export interface PsychologyPlanReviewsParams {
  /** of a memory or an entry */
  id: string;
  /** in the future, at most 50, one per day; they replace the planned ones */
  at: string[];
}

/** PlanReviewsResult contains the planned reviews, and a token to undo the change. */
export interface PsychologyPlanReviewsResult {
  reviews: string[];
  undoToken?: string;
}

/** Point is the retention at a time. */
export interface PsychologyPoint {
  at: string;
  retention: number;
}

/** ProposalParams identifies the pattern that is proposed as an entry. */
export interface PsychologyProposalParams {
  patternId: string;
}

/** ReinforceParams reinforces entries or memories. */
export interface PsychologyReinforceParams {
  ids: string[];
  /** review, confirm, edit, use */
  kind: string;
  /** fraction of the lost retention to restore, 0 to 1; default by kind */
  strength?: number;
}

/** RestoreParams identifies items that decay moved to the trash, or the run that did so. */
export interface PsychologyRestoreParams {
  ids?: string[];
  runId?: string;
}

/** Run is one evaluation of all memories. */
export interface PsychologyRun {
  runId: string;
  startedAt: string;
  finishedAt?: string;
  items: number;
  changed: number;
  trashed: number;
  error?: string;
}

/** RunParams is the request of psychology.decay_run. */
export interface PsychologyRunParams {
  /** only count what would change */
  dryRun?: boolean;
}

/** RunResult is the result of a run. */
export interface PsychologyRunResult {
  runId: string;
  layers: number;
  /** number of memories and entries */
  items: number;
  changed: number;
  /** now below 0.3 */
  fading: number;
  skipped: PsychologySkipped[];
  /** in mode hard */
  trashed: string[];
  tookMs: number;
}

/** SalienceParams sets the tier of entries or memories. */
export interface PsychologySalienceParams {
  ids: string[];
  /** critical, high, medium, low */
  tier: string;
}

/** Settings control how memories and entries decay, and what psychology may do. */
export interface PsychologySettings {
  /** default true; off: nothing decays, no proposals, the agent reads nothing */
  enabled: boolean;
  /** default true */
  decayEnabled: boolean;
  /** which layers, 1 to 7, decay; default all */
  layers: Record<string, boolean>;
  /** soft (default): faded items rank lower; hard: they are moved to the trash */
  mode: string;
  /** 0.80 to 0.99, default 0.95; lower values decay faster */
  rate: number;
  /** 0 to 0.5, default 0.1: minimum retention */
  minimumIntensity: number;
  /** default false */
  trustDecay: boolean;
  /** default true: high items keep half of their strength */
  preserveHighSalience: boolean;
  /** 1 to 365, default 30: days at the floor before hard mode moves an item to the trash */
  hardGraceDays: number;
  /** default true */
  agentMayRead: boolean;
  /** default true: patterns are proposed as entries */
  proposals: boolean;
}

/** SettingsParams changes settings; absent fields are not changed. */
export interface PsychologySettingsParams {
  enabled?: boolean;
  decayEnabled?: boolean;
  layers?: Record<string, boolean>;
  mode?: string;
  rate?: number;
  minimumIntensity?: number;
  trustDecay?: boolean;
  preserveHighSalience?: boolean;
  hardGraceDays?: number;
  agentMayRead?: boolean;
  proposals?: boolean;
}

/** Skipped is an item whose retention could not be computed. */
export interface PsychologySkipped {
  id: string;
  reason: string;
}

/** Soul is the text that defines how the assistant should work with the person. */
export interface PsychologySoul {
  text: string;
  /** 0: the template */
  version: number;
  updatedAt?: string;
  /** of the file */
  path: string;
  /** maximum number of characters included in a prompt */
  shown: number;
}

/** SoulHistoryResult lists revisions, newest first. */
export interface PsychologySoulHistoryResult {
  revisions: PsychologySoulRevision[];
  total: number;
}

/** SoulRevision is an earlier version of the soul. */
export interface PsychologySoulRevision {
  version: number;
  text: string;
  at: string;
}

/** StageNeeds is the requirements of the next stage. */
export interface PsychologyStageNeeds {
  stage: string;
  trust: number;
  interactions: number;
  highSalienceInteractions: number;
}

/** StatusParams identifies a layer; 0: all layers. */
export interface PsychologyStatusParams {
  layerNumber?: number;
}

/** StatusResult is the result of psychology.get_layer_status. */
export interface PsychologyStatusResult {
  layers: PsychologyLayerStatus[];
}

/** Trust is how much a person is trusted, each value 0 to 1. */
export interface PsychologyTrust {
  competence: number;
  integrity: number;
  benevolence: number;
  predictability: number;
  vulnerabilitySafety: number;
  overall: number;
}

/** TrustMapParams identifies the person whose interactions are listed. */
export interface PsychologyTrustMapParams {
  personId?: string;
}

/** TrustMapResult lists people, most trusted first. */
export interface PsychologyTrustMapResult {
  people: PsychologyTrustedPerson[];
  /** of the person, the last 50 */
  interactions: PsychologyInteraction[];
}

/** TrustedPerson is a person with the current trust. */
export interface PsychologyTrustedPerson {
  entry: PsychologyEntry;
  trust: PsychologyTrust;
  stage: string;
  needs?: PsychologyStageNeeds;
}

/** UndoResult is the number of affected items and a token to undo the action. */
export interface PsychologyUndoResult {
  count: number;
  undoToken?: string;
}

/** UpdateLayerParams changes a layer; absent fields are not changed. */
export interface PsychologyUpdateLayerParams {
  layerNumber: number;
  /** as read; a different current version is a conflict */
  version?: number;
  data?: unknown;
  initialStrength?: number;
  enabled?: boolean;
}

/** UpdateSoulParams replaces the soul. */
export interface PsychologyUpdateSoulParams {
  text: string;
  /** as read */
  version: number;
}

/** UpsertParams adds an entry or, with an id, replaces its data. */
export interface PsychologyUpsertParams {
  layerNumber: number;
  kind: string;
  data: unknown;
  /** absent in an edit: unchanged */
  memoryIds?: string[];
  id?: string;
  /** as read; a different current version is a conflict */
  version?: number;
}

/** ViewEntry is an entry with its own time. */
export interface PsychologyViewEntry {
  at: string;
  /** an open goal after its due date */
  pastDue?: boolean;
  id: string;
  layerNumber: number;
  kind: string;
  data: unknown;
  /** the memories that it is based on */
  memoryIds: string[];
  /** person, synthesis, import */
  origin: string;
  patternId?: string;
  initialStrength: number;
  /** current */
  retention: number;
  lastReinforcedAt?: string;
  reinforcementCount: number;
  salienceTier: string;
  pinned: boolean;
  /** reopened after it had faded: edits preserve the earlier text */
  open?: boolean;
  version: number;
  createdAt: string;
  updatedAt: string;
  problem?: string;
  raw?: string;
}

/** ViewParams filters entries of a layer. */
export interface PsychologyViewParams {
  kind?: string;
  /** of their own time: felt, target, begun, else created */
  start?: string;
  end?: string;
}

/** ViewResult lists the entries in the order of their own time. */
export interface PsychologyViewResult {
  entries: PsychologyViewEntry[];
}

/** WhatIf changes an item in a forecast only. */
export interface PsychologyWhatIf {
  pinned?: boolean;
  /** critical, high, medium, low */
  tier?: string;
  /** replaces the planned reviews */
  reinforceAt?: string[];
}

/** BenchResult lists the results, and what could not be measured here. */
export interface SandboxBenchResult {
  rows: SandboxBenchRow[];
  skipped: string[];
}

/** BenchRow is one result of the short benchmark. */
export interface SandboxBenchRow {
  name: string;
  value: number;
  unit: string;
  /** what it means, for people */
  note: string;
}

/** CacheStatus describes the folder of compiled code. Reason is why it is not used, and empty if it is used. */
export interface SandboxCacheStatus {
  bytes: number;
  modules: number;
  reason?: string;
}

/** EngineInfo names the JavaScript engine. */
export interface SandboxEngineInfo {
  name: string;
  version: string;
  sha256: string;
}

/** ModuleInfo describes a module. */
export interface SandboxModuleInfo {
  /** execute, command */
  abi: string;
  exports: string[];
  /** as module.name */
  imports: string[];
  /** initial pages of 64 KiB */
  memory: number;
  tables: number;
  /** bytes */
  size: number;
  sha256: string;
}

/** PoolStatus counts instances: Idle are ready, Busy are running, Queued are calls waiting for a worker, Discarded were not reused after a run since the start. */
export interface SandboxPoolStatus {
  idle: number;
  busy: number;
  queued: number;
  discarded: number;
}

/** TierStatus reports whether a tier can be used, and why not, or what weakens it. */
export interface SandboxTierStatus {
  tier: string;
  available: boolean;
  /** how runs in it are isolated: one of the Isolation constants */
  isolation?: string;
  reasons: string[];
}

/** Budget limits an agent's turns and cost. */
export interface SchedulerBudget {
  maxTurns: number;
  maxCostMicros: number;
}

/** CalendarItem is one due time or, with Count, several on one day. */
export interface SchedulerCalendarItem {
  scheduleId: string;
  at: string;
  /** planned, ran, failed, missed or skipped */
  kind: string;
  runId?: string;
  count?: number;
}

/** CalendarParams requests at most 62 days. */
export interface SchedulerCalendarParams {
  from: string;
  to: string;
}

/** CalendarResult contains past and future due times. */
export interface SchedulerCalendarResult {
  items: SchedulerCalendarItem[];
  truncated: boolean;
}

/** Changed is the event schedules.changed. */
export interface SchedulerChanged {
  /** absent: all schedules, such as PauseAll */
  scheduleId?: string | null;
  /** created, updated, deleted, restored, paused, resumed, fired, disabled, completed */
  change: string;
}

/** ClockStatus compares this device's clock with the hub's. */
export interface SchedulerClockStatus {
  skewMs: number;
}

/** CreateParams contains the fields of a schedule. Omitted fields have their defaults. */
export interface SchedulerCreateParams {
  /** 1..100 */
  name: string;
  description?: string;
  target: SchedulerTarget;
  cadence: unknown;
  startsAt?: string;
  endsAt?: string;
  maxRuns?: number;
  /** default once */
  missedPolicy?: string;
  /** default 86400 */
  graceSecs?: number;
  /** default skip */
  overlap?: string;
  jitterSecs?: number;
  retry?: SchedulerRetry;
  /** default 5; 0: never */
  autoDisableAfter?: number;
  /** default 3; 0: never */
  notifyAfterFailures?: number;
  /** default conditional */
  notification?: string;
  /** RFC 9535 condition over {status, output, error, previous} */
  notifyWhen?: string;
  /** default 1800000 */
  maxRunMs?: number;
  placement?: SchedulerPlacement;
  budget?: SchedulerBudget;
  /** created without being active */
  paused?: boolean;
}

/** DeleteResult contains the time of deletion. The schedule can be restored for 30 days. */
export interface SchedulerDeleteResult {
  deletedAt: string;
}

/** LaneStatus counts the runs in a lane. */
export interface SchedulerLaneStatus {
  lane: string;
  running: number;
  capacity: number;
  waiting: number;
}

/** Lease is the lease on a schedule with takeover. */
export interface SchedulerLease {
  scheduleId: string;
  deviceId: string;
  term: number;
  expiresAt: string;
}

/** ListParams filters the user's schedules. */
export interface SchedulerListParams {
  status?: string;
  /** of the target */
  kind?: string;
  query?: string;
  /** Deleted lists the deleted schedules that can be restored instead. */
  deleted?: boolean;
  /** 1..100, default 50 */
  limit?: number;
  offset?: number;
}

/** ListResult is one page, newest first; system schedules come last. */
export interface SchedulerListResult {
  schedules: SchedulerSchedule[];
  total: number;
  limit: number;
  offset: number;
}

/** NextDue is the earliest due time. */
export interface SchedulerNextDue {
  scheduleId: string;
  name: string;
  at: string;
}

/** NoticesResult contains the notifications that no client has taken yet. */
export interface SchedulerNoticesResult {
  notices: SchedulerNotification[];
}

/** Notification is the event schedules.notification. */
export interface SchedulerNotification {
  noticeId: string;
  scheduleId: string;
  runId?: string | null;
  title: string;
  body: string;
  level: string;
  at: string;
}

/** PauseAllParams stops all schedules from firing. */
export interface SchedulerPauseAllParams {
  /** default: until they are resumed */
  until?: string;
  allDevices?: boolean;
}

/** PauseAllResult is the state afterwards. */
export interface SchedulerPauseAllResult {
  paused: boolean;
  until?: string | null;
}

/** Placement is the device that fires the schedule. */
export interface SchedulerPlacement {
  homeDeviceId?: string | null;
  /** another device may take over when the home is offline */
  takeover: boolean;
  /** this device is the home */
  here: boolean;
}

/** PreviewParams requests the due times of a cadence. */
export interface SchedulerPreviewParams {
  cadence: unknown;
  /** 1..100, default 10 */
  count?: number;
  /** default now */
  from?: string;
}

/** PreviewResult contains due times and a description of the cadence. */
export interface SchedulerPreviewResult {
  times: SchedulerPreviewTime[];
  description: string;
  /** structured description */
  parts: CadenceParts;
  warnings: string[];
  /** with the time zone filled in */
  cadence: unknown;
}

/** PreviewTime is one due time. */
export interface SchedulerPreviewTime {
  at: string;
  /** wall clock time in the zone of the cadence: 2006-01-02 15:04:05 */
  local: string;
  /** from UTC, like +02:00 */
  offset: string;
  /** gap_shifted, overlap_first or overlap_both */
  note?: string;
}

/** Retry is how failed runs are retried: after min(base·2ⁿ, cap) seconds times a random factor from 0.5 to 1. */
export interface SchedulerRetry {
  max: number;
  baseSecs: number;
  capSecs: number;
}

/** Run is one due time and what happened to it. */
export interface SchedulerRun {
  runId: string;
  scheduleId: string;
  scheduleName: string;
  dueAt: string;
  /** due, catchup, retry or manual */
  trigger: string;
  attempt: number;
  /** queued, running, waiting, success, failed, cancelled, interrupted, missed or skipped */
  status: string;
  /** overlap, asleep, not_running, needs_approval, no_lease, … */
  reason?: string;
  targetKind: string;
  targetRunId?: string | null;
  deviceId: string;
  claimedAt?: string | null;
  /** of a missed run: when the computer fell asleep */
  startedAt?: string | null;
  finishedAt?: string | null;
  /** when the next attempt is due */
  retryAt?: string;
  lateMs: number;
  outputSummary: string;
  error?: SchedulerRunError;
  notified: boolean;
  turnCount: number;
  costMicros: number;
  /** if the row stands for several missed runs */
  missedCount?: number;
  missedMore?: boolean;
  lastMissedAt?: string;
}

/** RunError is the reason why a run failed. */
export interface SchedulerRunError {
  kind: string;
  message: string;
}

/** RunEvent is the event schedules.run_event. */
export interface SchedulerRunEvent {
  runId: string;
  scheduleId: string;
  status: string;
  at: string;
  /** of this process */
  seq: number;
}

/** RunMark is a summary of one run. */
export interface SchedulerRunMark {
  runId: string;
  at: string;
  status: string;
}

/** RunNowParams starts a schedule's target now. The next due time is not affected. */
export interface SchedulerRunNowParams {
  scheduleId: string;
  /** default: the schedule's */
  input?: unknown;
}

/** RunNowResult identifies the run and the target's run. */
export interface SchedulerRunNowResult {
  runId: string;
  targetRunId?: string | null;
}

/** RunOutputParams requests the output of a run. */
export interface SchedulerRunOutputParams {
  runId: string;
  /** 200..8000, default 4000 */
  maxChars?: number;
}

/** RunOutputResult is the output as text. */
export interface SchedulerRunOutputResult {
  text: string;
  truncated: boolean;
  totalChars: number;
  /** there is no output, and the text is the error */
  isError: boolean;
}

/** RunParams identifies a run. */
export interface SchedulerRunParams {
  runId: string;
}

/** RunsParams filters runs. */
export interface SchedulerRunsParams {
  scheduleId?: string;
  status?: string;
  from?: string;
  to?: string;
  cursor?: string;
  /** 1..100, default 20 */
  limit?: number;
}

/** RunsResult is one page, newest first. */
export interface SchedulerRunsResult {
  runs: SchedulerRun[];
  nextCursor?: string;
}

/** Schedule is a target with the times at which it is due. */
export interface SchedulerSchedule {
  scheduleId: string;
  name: string;
  description: string;
  /** active, paused, completed or disabled */
  status: string;
  /** failures, missed, target_gone or invalid */
  disabledReason?: string;
  /** part of Helix; cannot be deleted */
  system: boolean;
  /** created by a newer Helix: shown, but neither fired nor changed */
  needsNewer?: boolean;
  target: SchedulerTarget;
  cadence: unknown;
  /** the cadence in plain English */
  words: string;
  /** the same in a structured form, for other languages */
  parts: CadenceParts;
  /** the cadence names no time zone and follows the operating system's */
  osZone: boolean;
  startsAt?: string | null;
  endsAt?: string | null;
  maxRuns?: number | null;
  /** skip, once or all */
  missedPolicy: string;
  graceSecs: number;
  /** skip, queue or cancelPrevious */
  overlap: string;
  jitterSecs: number;
  retry: SchedulerRetry;
  autoDisableAfter: number;
  notifyAfterFailures: number;
  /** always, conditional or never */
  notification: string;
  notifyWhen?: string;
  maxRunMs: number;
  placement: SchedulerPlacement;
  budget: SchedulerBudget;
  /** incremented by each edit */
  revision: number;
  nextRunAt?: string | null;
  lastRun?: SchedulerRun | null;
  /** the last 20 runs, oldest first */
  recentRuns: SchedulerRunMark[];
  runCount: number;
  consecutiveFailures: number;
  /** the stored form, if the schedule needs a newer Helix */
  raw?: unknown;
  createdAt: string;
  updatedAt: string;
}

/** ScheduleParams identifies a schedule. */
export interface SchedulerScheduleParams {
  scheduleId: string;
}

/** StatusResult is the status of the scheduler. */
export interface SchedulerStatusResult {
  enabled: boolean;
  pausedAll: boolean;
  pausedUntil?: string | null;
  lanes: SchedulerLaneStatus[];
  nextDue?: SchedulerNextDue | null;
  clock: SchedulerClockStatus;
  leases: SchedulerLease[];
  /** that schedules can start in this build */
  targets: SchedulerTargetKind[];
  /** of the operating system */
  timezone: string;
}

/** TakeNoticesParams lists notifications that were shown. */
export interface SchedulerTakeNoticesParams {
  noticeIds: string[];
}

/** Target is what a schedule starts. */
export interface SchedulerTarget {
  /** skill, tool, synthesis, decay, agent or cleanup */
  kind: string;
  id?: string;
  name?: string;
  version?: string;
  /** default {} */
  input?: unknown;
}

/** TargetKind is one kind of target. */
export interface SchedulerTargetKind {
  kind: string;
  title: string;
  /** why it cannot be used; empty: it can */
  reason?: string;
}

/** Template is a schedule that Helix offers and that is not active by default. */
export interface SchedulerTemplate {
  key: string;
  name: string;
  description: string;
  target: SchedulerTarget;
  cadence: unknown;
  words: string;
  parts: CadenceParts;
  /** why it cannot be used in this build */
  unavailable?: string;
}

/** TemplatesResult lists the templates. */
export interface SchedulerTemplatesResult {
  templates: SchedulerTemplate[];
}

/** UpdateParams changes a schedule. Patch contains the fields of create to change. */
export interface SchedulerUpdateParams {
  scheduleId: string;
  patch: unknown;
  /** if it is not the current one, the error is a conflict; 0: no check */
  expectedRevision?: number;
}

/** Count is a value and how many items have it. */
export interface SearchCount {
  value: string;
  count: number;
}

/** EnhancedParams is the request of memory.search_enhanced. */
export interface SearchEnhancedParams {
  /** default true */
  explain?: boolean;
  /** neighbors on each side, 0 to 3; default 1 */
  expand?: number;
  /** conversation, source, day */
  groupBy?: string;
  facets?: boolean;
  /** at most 8 KiB */
  query: string;
  /** 1 to 100; 0 is 10 */
  limit?: number;
  /** hybrid (default), keyword, vector */
  mode?: string;
  filters?: SearchFilters;
  mmr?: SearchMMR;
  minScore?: number;
  /** default true */
  includeTurns?: boolean;
  /** default true */
  priors?: boolean;
}

/** EnhancedResult is the result of memory.search_enhanced. */
export interface SearchEnhancedResult {
  facets?: SearchFacets;
  groups?: SearchGroup[];
  results: SearchHit[];
  tookMs: number;
  mode: string;
  /** no_vectors, reindexing */
  degraded?: string;
  modelId: string;
}

/** Evidence identifies the part of an item that is quoted. */
export interface SearchEvidence {
  kind: string;
  id: string;
  conversationId?: string;
  /** id in the original, such as D1:3 */
  turnId?: string;
  documentId?: string;
  seq?: number;
  /** in the document; in UTF-16 code units if Helix split it */
  startOffset?: number;
  endOffset?: number;
  quote: string;
}

/** Facets count the items that match the query and the filters. */
export interface SearchFacets {
  type: SearchCount[];
  layer: SearchCount[];
  tag: SearchCount[];
  source: SearchCount[];
  /** 2023-05, or "" for none */
  month: SearchCount[];
}

/** Filters select items before ranking. Absent fields match every item. */
export interface SearchFilters {
  /** of occurredAt, inclusive */
  from?: string;
  /** exclusive */
  to?: string;
  layers?: number[];
  types?: string[];
  sources?: string[];
  tagsAll?: string[];
  tagsAny?: string[];
  tagsNone?: string[];
  kinds?: string[];
  pinned?: boolean;
  untrusted?: boolean;
  minSalience?: number;
  minRetention?: number;
  conversationId?: string;
  documentId?: string;
}

/** Group is a group of hits, as indexes into results. */
export interface SearchGroup {
  key: string;
  title: string;
  hits: number[];
}

/** Hit is one item found. */
export interface SearchHit {
  id: string;
  /** memory, turn, chunk */
  kind: string;
  title?: string;
  snippet: string;
  highlights: SearchSpan[];
  evidence: SearchEvidence[];
  /** only memory.search_enhanced */
  context?: SearchNeighbor[];
  score: number;
  parts?: SearchParts;
  type?: string;
  layer?: number;
  tags: string[];
  source: string;
  sourceRef?: string;
  speaker?: string;
  occurredAt?: string;
  createdAt: string;
  untrusted: boolean;
  pinned: boolean;
  /** of a memory */
  salienceTier?: string;
  retention?: number;
}

/** MMR requests diverse results (maximal marginal relevance, Carbonell and Goldstein 1998). */
export interface SearchMMR {
  /** 0: only diversity, 1: only relevance; default 0.7 */
  lambda?: number;
}

/** Neighbor is an item before or after a hit in its conversation or document. */
export interface SearchNeighbor {
  id: string;
  seq: number;
  speaker?: string;
  text: string;
}

/** Params is the request of memory.search. */
export interface SearchParams {
  /** at most 8 KiB */
  query: string;
  /** 1 to 100; 0 is 10 */
  limit?: number;
  /** hybrid (default), keyword, vector */
  mode?: string;
  filters?: SearchFilters;
  mmr?: SearchMMR;
  minScore?: number;
  /** default true */
  includeTurns?: boolean;
  /** default true */
  priors?: boolean;
}

/** Parts are the components of a score. A rank is absent if the item was not in the list. */
export interface SearchParts {
  bm25Rank?: number;
  bm25?: number;
  vectorRank?: number;
  cosine?: number;
  rrf: number;
  /** above 1: the item matches a person or time that the query mentions */
  cues: number;
  recency: number;
  salience: number;
  retention: number;
  pinned: number;
  window: number;
}

/** RelatedParams is the request of memory.related. ID may be of any kind. */
export interface SearchRelatedParams {
  id: string;
  /** 1 to 100; 0 is 10 */
  limit?: number;
}

/** Result is the result of memory.search. */
export interface SearchResult {
  results: SearchHit[];
  tookMs: number;
  mode: string;
  /** no_vectors, reindexing */
  degraded?: string;
  modelId: string;
}

/** Span is a part of a text, in UTF-16 code units as JavaScript counts them. */
export interface SearchSpan {
  start: number;
  end: number;
}

/** Exec is a command of a session. */
export interface ShellExec {
  execId: string;
  command: string;
  running: boolean;
}

/** ExecParams run a command. */
export interface ShellExecParams {
  sessionId: string;
  /** a program and its arguments, without a shell */
  argv?: string[];
  /** instead of argv: text for sh -c */
  command?: string;
  stdin?: string;
  /** 1 to 600,000; default 30,000 */
  timeoutMs?: number;
}

/** ExecResult is the end of a command. */
export interface ShellExecResult {
  execId: string;
  /** absent: it was killed */
  exitCode?: number;
  /** success, failure, timeout, cancelled or oom */
  status: string;
  /** of both streams; at most 64 KiB, beginning and end */
  output: string;
  truncated: boolean;
}

/** KillResult says whether a session was ended. */
export interface ShellKillResult {
  killed: boolean;
}

/** ListResult lists sessions. */
export interface ShellListResult {
  sessions: ShellSession[];
}

/** Output is the event shell.output: a command has written something. */
export interface ShellOutput {
  sessionId: string;
  execId: string;
  /** from 1, without holes */
  seq: number;
  /** stdout or stderr */
  stream: string;
  data: string;
}

/** Session is a running session. */
export interface ShellSession {
  sessionId: string;
  image: string;
  startedAt: string;
  /** the last ones, oldest first */
  execs: ShellExec[];
}

/** SessionParams name a session. */
export interface ShellSessionParams {
  sessionId: string;
}

/** SpawnParams start a session. */
export interface ShellSpawnParams {
  /** in the container; default: /shared */
  cwd?: string;
  /** default: that of the settings */
  image?: string;
  workspace?: boolean;
}

/** SpawnResult is a session that has started. */
export interface ShellSpawnResult {
  sessionId: string;
  /** container */
  tier: string;
  image: string;
  imageId: string;
}

/** StreamParams ask for the output of a command after a chunk. */
export interface ShellStreamParams {
  sessionId: string;
  execId: string;
  afterSeq?: number;
}

/** StreamResult is output of a command. */
export interface ShellStreamResult {
  chunks: ContainerChunk[];
  /** of the last chunk so far */
  seq: number;
  done: boolean;
}

/** AnswerParams answers a question of a run. Decision is approve or decline for an approval; done, retry or fail for an unknown outcome; retry or fail for a missing capability. An empty stepPath selects the only question of a run. The question of a quarantined run has an empty stepPath; retry resumes the run, fail ends it. */
export interface SkillsAnswerParams {
  executionId: string;
  stepPath: string;
  iteration?: string;
  decision: string;
  /** of an approval with a form */
  data?: unknown;
  /** with done: the output of the step */
  output?: unknown;
}

/** CancelParams cancels a run. */
export interface SkillsCancelParams {
  executionId: string;
  reason?: string;
}

/** CatalogEntry is one callable for steps. */
export interface SkillsCatalogEntry {
  toolType: string;
  toolId?: string;
  name: string;
  description: string;
  inputSchema?: unknown;
  outputSchema?: unknown;
  tier: string;
  idempotent: boolean;
  capabilities: string[];
}

/** CatalogParams filters what steps can call. */
export interface SkillsCatalogParams {
  /** substring of the name or description */
  query?: string;
}

/** CatalogResult lists what steps can call on this installation. */
export interface SkillsCatalogResult {
  entries: SkillsCatalogEntry[];
}

/** Changed is the event skills.changed. */
export interface SkillsChanged {
  skillId: string;
  version: string;
  /** created, updated, deleted, restored, enabled, disabled, used */
  change: string;
}

/** DeleteResult contains the time of deletion. The skill can be restored for 30 days. */
export interface SkillsDeleteResult {
  deletedAt: string;
}

/** Dependency is something that a skill calls. */
export interface SkillsDependency {
  toolType: string;
  name: string;
  definitionHash?: string;
}

/** DiffParams identifies two versions. */
export interface SkillsDiffParams {
  from: string;
  to: string;
}

/** DiffResult is the difference between two definitions. */
export interface SkillsDiffResult {
  steps: SkillsStepsDiff;
  /** of the skill itself */
  fields: SkillsFieldChange[];
  rights: SkillsRightsDiff;
}

/** DocumentResult is the run document of a run, as a help for mapping. */
export interface SkillsDocumentResult {
  document: unknown;
}

/** DryRunParams runs a skill with the same engine but without effects. */
export interface SkillsDryRunParams {
  skillId?: string;
  skill?: unknown;
  versionId?: string;
  input?: unknown;
  /** the run whose recorded outcomes are used */
  executionId?: string;
  /** by step path */
  mocks?: Record<string, SkillsMock>;
  allowReadOnly?: boolean;
  fillFromSchema?: boolean;
}

/** EvaluateParams evaluates an expression on a document. */
export interface SkillsEvaluateParams {
  document?: unknown;
  /** the run document of that run */
  executionId?: string;
  /** a string, or a template */
  expression: unknown;
  /** path, template or condition */
  as: string;
}

/** EvaluateResult is the value of the expression. */
export interface SkillsEvaluateResult {
  /** null if nothing matches */
  value: unknown;
  matches: SkillsMatch[];
  error?: MachineFailure;
}

/** EventsParams requests the events of a run after a sequence number. */
export interface SkillsEventsParams {
  executionId: string;
  afterSeq?: number;
  /** 1..1000, default 500 */
  limit?: number;
}

/** EventsResult holds events in order. */
export interface SkillsEventsResult {
  events: SkillsRunEvent[];
  /** of the run, not only of the page */
  lastSeq: number;
}

/** ExecuteParams runs a saved skill by its id, or an unsaved definition. */
export interface SkillsExecuteParams {
  skillId?: string;
  skill?: unknown;
  /** default {} */
  input?: unknown;
  /** of a saved skill; default: the current one */
  version?: string;
  /** return immediately; the run continues */
  async?: boolean;
  /** how long to wait for the end, default 120000; the run continues after that */
  waitMs?: number;
  requestId?: string;
  /** Unattended means that nobody can answer a question now: a step that needs an approval fails as denied, and the approval is left in the list. */
  unattended?: boolean;
}

/** ExecuteResult is the result or the current status of a run. A failed run is a result with Success false, not an error of the call. */
export interface SkillsExecuteResult {
  success: boolean;
  skillId?: string | null;
  userId: string;
  executionId: string;
  status: string;
  /** approval, unknown_outcome, permission, timer or quarantined */
  waitReason?: string;
  stepResults: SkillsStepResult[];
  finalOutput: unknown;
  /** input, and the output of each completed top-level step */
  executionContext: Record<string, unknown>;
  executionTimeMs: number;
  stepsCompleted: number;
  totalSteps: number;
  stepsFailed: number;
  stepsSkipped: number;
  input: unknown;
  error?: MachineFailure;
  /** shown by the skill at its end */
  notification?: SkillsNotice;
  warnings?: string[];
}

/** Execution is a run, as shown in the history and in its timeline. */
export interface SkillsExecution {
  skillName: string;
  version: string;
  versionId?: string;
  definitionHash: string;
  /** live, dry or replay */
  mode: string;
  /** user, rpc, cli, voice, schedule, agent or skill */
  trigger: string;
  /** the definition that ran; omitted in lists */
  skill?: DefinitionBody;
  waits: SkillsWait[];
  parentExecutionId?: string;
  parentStepPath?: string;
  restartedFrom?: string;
  pinned: boolean;
  lastSeq: number;
  createdAt: string;
  startedAt?: string | null;
  finishedAt?: string | null;
  deadlineAt?: string | null;
  success: boolean;
  skillId?: string | null;
  userId: string;
  executionId: string;
  status: string;
  /** approval, unknown_outcome, permission, timer or quarantined */
  waitReason?: string;
  stepResults: SkillsStepResult[];
  finalOutput: unknown;
  /** input, and the output of each completed top-level step */
  executionContext: Record<string, unknown>;
  executionTimeMs: number;
  stepsCompleted: number;
  totalSteps: number;
  stepsFailed: number;
  stepsSkipped: number;
  input: unknown;
  error?: MachineFailure;
  /** shown by the skill at its end */
  notification?: SkillsNotice;
  warnings?: string[];
}

/** ExportParams identifies a skill to share as a file. */
export interface SkillsExportParams {
  skillId: string;
  /** include the tools that it calls */
  includeTools?: boolean;
}

/** ExportResult contains the share file. */
export interface SkillsExportResult {
  /** canonical JSON */
  file: unknown;
  filename: string;
}

/** FieldChange is one field that differs; an absent value is omitted. */
export interface SkillsFieldChange {
  stepId?: string;
  path: string;
  before?: unknown;
  after?: unknown;
}

/** FromTemplateParams identifies a template. */
export interface SkillsFromTemplateParams {
  key: string;
  /** of the new skill; default: that of the template */
  name?: string;
}

/** HistoryParams filters runs. */
export interface SkillsHistoryParams {
  skillId?: string;
  status?: string;
  trigger?: string;
  /** started at or after */
  from?: string;
  /** started before */
  to?: string;
  cursor?: string;
  /** 1..100, default 50 */
  limit?: number;
}

/** HistoryResult is one page of runs, newest first. Steps, outputs and definitions are omitted. */
export interface SkillsHistoryResult {
  executions: SkillsExecution[];
  nextCursor?: string;
  /** size of the whole history */
  bytes: number;
}

/** ImportParams imports a share file. */
export interface SkillsImportParams {
  file?: unknown;
  /** a link to a shared skill, instead of a file */
  url?: string;
  /** if the name is taken: rename (default), newVersion or skip */
  onConflict?: string;
  /** only report what would happen */
  dryRun?: boolean;
}

/** ImportResult is the result of an import. The skill is disabled; enabling it accepts its permissions. */
export interface SkillsImportResult {
  /** absent for a dry run and if the import was skipped */
  skillId?: string;
  name: string;
  /** created, version or skipped */
  action: string;
  errors: DefinitionProblem[];
  warnings: string[];
  /** what it calls and this installation does not have */
  missing: SkillsDependency[];
  /** "unsigned", or the fingerprint of the key */
  signer: string;
  trusted: boolean;
  rights: SkillsRightsPreview;
}

/** ListParams filters the user's skills. */
export interface SkillsListParams {
  enabled?: boolean;
  /** substring of the name, the description or a tag */
  query?: string;
  tag?: string;
  /** list the deleted skills that can be restored instead */
  deleted?: boolean;
  /** 1..100, default 50 */
  limit?: number;
  offset?: number;
}

/** ListResult is one page, newest first. */
export interface SkillsListResult {
  skills: SkillsMeta[];
  total: number;
  limit: number;
  offset: number;
}

/** Match is one value that a path found. */
export interface SkillsMatch {
  /** normalized */
  path: string;
  value: unknown;
}

/** Meta is the metadata of a skill for lists and pickers. */
export interface SkillsMeta {
  skillId: string;
  /** unique among the user's skills, ignoring case */
  name: string;
  description: string;
  version: string;
  /** of the current definition */
  versionId: string;
  definitionHash: string;
  tags: string[];
  icon: string;
  isEnabled: boolean;
  /** the definition can run; false for drafts */
  valid: boolean;
  visibility: string;
  mine: boolean;
  steps: DefinitionStep[];
  inputSchema?: unknown;
  outputMapping?: unknown;
  notification?: unknown;
  /** OverallTimeoutMs is the time limit of a run, excluding waits. */
  overallTimeoutMs: number;
  /** including those of nested bodies */
  stepCount: number;
  executionCount: number;
  lastExecuted?: string | null;
  /** of the last run */
  lastStatus?: string;
  lastExecutionId?: string;
  cloneSourceId?: string;
  createdAt: string;
  updatedAt: string;
  deletedAt?: string;
}

/** Mock is the result of a step in a dry run; one field is set. Sequence provides the results of consecutive calls; the last one repeats. */
export interface SkillsMock {
  output?: unknown;
  error?: MachineFailure;
  sequence?: SkillsMock[];
}

/** Notice is a notification shown by a skill. */
export interface SkillsNotice {
  title: string;
  body: string;
  /** info, success, warning or error */
  level: string;
}

/** Notification is the event skills.notification: a skill shows a notification. */
export interface SkillsNotification {
  /** the same when the step is repeated, so that it is shown once */
  noticeId: string;
  executionId: string;
  skill: string;
  title: string;
  body: string;
  /** info, success, warning or error */
  level: string;
  at: string;
}

/** PinParams excludes a run from pruning, or includes it again. */
export interface SkillsPinParams {
  executionId: string;
  pinned: boolean;
}

/** PinSkillParams pin a skill to the menu of the tray icon, or unpin it. */
export interface SkillsPinSkillParams {
  skillId: string;
  pinned: boolean;
  /** Position is the skill's place among the pinned ones, from 0; absent: a new one goes to the end, another stays where it is. */
  position?: number;
}

/** PinnedResult lists the pinned skills in order. */
export interface SkillsPinnedResult {
  skills: SkillsPinnedSkill[];
}

/** PinnedSkill is a skill in the menu of the tray icon. */
export interface SkillsPinnedSkill {
  skillId: string;
  name: string;
}

/** PinsChanged is published when the pinned skills or their order changed. */
export type SkillsPinsChanged = Record<string, never>;

/** PreviewRightsParams identifies or contains a skill. */
export interface SkillsPreviewRightsParams {
  skillId?: string;
  skill?: unknown;
  /** nobody is present to answer questions */
  unattended?: boolean;
}

/** PurgeParams deletes runs that have ended. */
export interface SkillsPurgeParams {
  /** default: of all skills */
  skillId?: string;
  before?: string;
}

/** PurgeResult counts the deleted runs. */
export interface SkillsPurgeResult {
  removed: number;
}

/** ReplayResult reports whether applying the recorded outcomes to the engine produces the same events, byte for byte. */
export interface SkillsReplayResult {
  identical: boolean;
  events: number;
  firstDifference?: MachineDifference;
}

/** RestartParams runs a skill again from a step, with the results of the steps before it. */
export interface SkillsRestartParams {
  executionId: string;
  /** a top-level step */
  fromStepId: string;
  /** default: the version that ran */
  versionId?: string;
  /** default: the same input */
  input?: unknown;
}

/** RestartResult identifies the new run. */
export interface SkillsRestartResult {
  executionId: string;
  warnings: string[];
}

/** RightsDiff compares the capabilities that the two definitions need. */
export interface SkillsRightsDiff {
  added: string[];
  removed: string[];
}

/** RightsPreview is what a run would need, determined before it runs. */
export interface SkillsRightsPreview {
  steps: SkillsStepRights[];
  /** everything needed, sorted */
  union: string[];
  /** ready, asks or denied */
  verdict: string;
  reason?: string;
}

/** RollbackParams makes an old definition the current one, as a new version. */
export interface SkillsRollbackParams {
  skillId: string;
  versionId: string;
}

/** RunEvent is one event of a run, also the event skills.run_event. Seq has no gaps. */
export interface SkillsRunEvent {
  executionId: string;
  seq: number;
  type: string;
  stepPath?: string;
  iteration?: string;
  attempt?: number;
  at: string;
  data: unknown;
}

/** RunParams identifies a run. */
export interface SkillsRunParams {
  executionId: string;
}

/** SaveParams creates or changes a skill. A definition with errors is stored as a draft that cannot be enabled. */
export interface SkillsSaveParams {
  /** any of the accepted forms; with skillId to change an existing skill */
  skill: unknown;
  /** ExpectedVersion is the version that the edit is based on. If it is not the current one, the error is a conflict. Empty: no check. */
  expectedVersion?: string;
  /** of the new version */
  note?: string;
}

/** SearchPublicParams searches the skills that their owners made public. */
export interface SkillsSearchPublicParams {
  query?: string;
  tags?: string[];
  /** 1..100, default 20 */
  limit?: number;
}

/** SearchPublicResult contains the matches, most used first. */
export interface SkillsSearchPublicResult {
  skills: SkillsMeta[];
  /** number of matching skills of this device */
  total: number;
  /** what other people share on the hub, newest first */
  shared: SkillsShare[];
  /** false: no hub is connected */
  hub: boolean;
}

/** Share is a skill that is shared through the hub. */
export interface SkillsShare {
  shareId: string;
  /** absent for other people's shares */
  skillId?: string;
  /** helix://skills/shared/<id> */
  url: string;
  access: LifecycleAccess;
  name: string;
  description: string;
  version: string;
  tags: string[];
  icon: string;
  createdAt: string;
  expiresAt?: string;
}

/** ShareParams identifies the skill to share, in its current version. */
export interface SkillsShareParams {
  skillId: string;
  access: LifecycleAccess;
  expiresAt?: string;
}

/** SharesParams selects the shares of one skill, or of all. */
export interface SkillsSharesParams {
  skillId?: string;
}

/** SharesResult lists shares that have not ended, newest first. */
export interface SkillsSharesResult {
  shares: SkillsShare[];
  /** false: no hub is connected */
  hub: boolean;
}

/** SkillParams identifies a skill. */
export interface SkillsSkillParams {
  skillId: string;
}

/** StatusParams identifies a run, or is empty to list the installed skills. */
export interface SkillsStatusParams {
  executionId?: string;
}

/** StatusResult is a run, or the installed skills. */
export interface SkillsStatusResult {
  execution?: SkillsExecution;
  skills?: SkillsMeta[];
}

/** StepMove is a step that was moved. */
export interface SkillsStepMove {
  stepId: string;
  from: string;
  to: string;
}

/** StepPlace is a step and its location. */
export interface SkillsStepPlace {
  stepId: string;
  /** such as steps[2].cases[0].steps[1] */
  path: string;
  step: unknown;
}

/** StepResult is the result or the current status of one step. */
export interface SkillsStepResult {
  stepId: string;
  stepPath: string;
  /** indices of the enclosing maps, separated by dots */
  iteration?: string;
  toolName: string;
  toolType: string;
  status: string;
  success: boolean;
  skipped?: boolean;
  /** condition, branch, error or reused */
  reason?: string;
  output?: unknown;
  /** why the stored output can't be read; output is then absent */
  outputMissing?: string;
  error?: MachineFailure;
  /** the outcome is unknown */
  unknown?: boolean;
  executionTimeMs: number;
  retriesUsed: number;
  attempts: number;
  /** of a dry run: mock, recorded, real or schema */
  source?: string;
  /** of a dry run */
  wouldDo?: SkillsWouldDo;
  startedAt?: string;
  finishedAt?: string;
}

/** StepRights is what one step needs. */
export interface SkillsStepRights {
  stepPath: string;
  toolName: string;
  toolHash: string;
  needs: string[];
  granted: string[];
  missing: string[];
  tier: string;
  /** why it is refused regardless of grants */
  denied?: string;
}

/** StepsDiff lists the changes to steps, by id. */
export interface SkillsStepsDiff {
  added: SkillsStepPlace[];
  removed: SkillsStepPlace[];
  moved: SkillsStepMove[];
  changed: SkillsFieldChange[];
}

/** Template is a skill that can be used as a template. */
export interface SkillsTemplate {
  key: string;
  name: string;
  description: string;
  icon: string;
  /** demonstrated features: chain, condition, map, branch, approval, nested, wait, builtin */
  shows: string[];
  /** tools created with it */
  tools: string[];
  /** skills of other templates that it calls, created with it */
  skills: string[];
  stepCount: number;
  sampleInput: unknown;
}

/** TemplatesResult lists the templates that Helix ships. */
export interface SkillsTemplatesResult {
  templates: SkillsTemplate[];
}

/** UnshareParams identifies a share. */
export interface SkillsUnshareParams {
  shareId: string;
}

/** ValidateParams contains a definition in any of the accepted forms. */
export interface SkillsValidateParams {
  skill: unknown;
}

/** ValidateResult contains all problems found. */
export interface SkillsValidateResult {
  valid: boolean;
  errors: DefinitionProblem[];
  warnings: DefinitionProblem[];
  /** the canonical form */
  normalized?: unknown;
}

/** Version is one saved definition. */
export interface SkillsVersion {
  versionId: string;
  skillId: string;
  version: string;
  definitionHash: string;
  note: string;
  /** edit, import, rollback, sync or agent */
  origin: string;
  current: boolean;
  /** the definition; omitted in lists */
  body?: unknown;
  createdAt: string;
}

/** VersionParams identifies a version. */
export interface SkillsVersionParams {
  versionId: string;
}

/** VersionsResult lists versions, newest first. */
export interface SkillsVersionsResult {
  versions: SkillsVersion[];
}

/** Wait is a question of a run to a person. */
export interface SkillsWait {
  stepPath: string;
  iteration?: string;
  request: MachineRequestData;
  /** when the wait times out */
  until?: string;
  askedAt: string;
  /** what was sent, if the outcome is unknown */
  input?: unknown;
  approvalId?: string;
}

/** WouldDo is what a step of a dry run would have called. */
export interface SkillsWouldDo {
  tier: string;
  rights: string[];
  input: unknown;
}

/** BackupInfo describes one file of the backups folder. */
export interface StorageBackupInfo {
  path: string;
  name: string;
  /** backup, automatic, pre-migration, rolled-back */
  kind: string;
  sizeBytes: number;
  createdAt: string;
  schemaVersion?: number;
  appVersion?: string;
  blobs: boolean;
  /** can be opened with its passphrase on another machine too */
  hasKey: boolean;
  problem?: string;
}

/** BackupParams choose the target and the content of a backup. */
export interface StorageBackupParams {
  /** a file or an existing folder; default: the backups folder of the data folder */
  path?: string;
  /** default true */
  blobs?: boolean;
  /** adds the wrapped root key; without it, sealed columns open only on this machine */
  passphrase?: string;
}

/** BackupProgress is the event storage.backup_progress for backup, restore, migration, export, import and salvage. Done and Total are bytes, or rows if Unit says so. */
export interface StorageBackupProgress {
  id: string;
  /** backup, restore, rollback, migrate, export, import, salvage, check */
  operation: string;
  step: string;
  done: number;
  total: number;
  unit: string;
  finished: boolean;
  error?: string;
}

/** BackupResult names the finished, verified file. */
export interface StorageBackupResult {
  path: string;
  sizeBytes: number;
  sha256: string;
}

/** BackupsParams page through the backups folder. */
export interface StorageBackupsParams {
  /** 1..100, default 50 */
  limit?: number;
  offset?: number;
}

/** BackupsResult lists backups and snapshots, newest first. */
export interface StorageBackupsResult {
  backups: StorageBackupInfo[];
  total: number;
}

/** Changed is the event storage.changed: rows of Table were changed by storage itself (import, restore, prune) or by sync. Many means that there are too many ids to list. */
export interface StorageChanged {
  table: string;
  ids?: string[];
  many?: boolean;
}

/** CheckParams choose between the quick and the full check. */
export interface StorageCheckParams {
  /** also compare every index, and verify the hash of every blob */
  full?: boolean;
}

/** CheckResult lists the problems found; Problems is empty if OK. */
export interface StorageCheckResult {
  ok: boolean;
  problems: string[];
  /** Only in the full check: MissingBlobs are files that rows refer to and that do not exist, OrphanedBlobs files that no row refers to, which pruning removes after a grace period. */
  missingBlobs: number;
  orphanedBlobs: number;
  orphanedBytes: number;
}

/** DataKey is one key that seals columns. */
export interface StorageDataKey {
  no: number;
  uses: number;
  createdAt: string;
  retiredAt?: string;
}

/** ExportParams choose the folder for the export. Dir must be empty or not exist. */
export interface StorageExportParams {
  dir: string;
  /** default: all */
  tables?: string[];
}

/** ExportResult counts the exported rows. */
export interface StorageExportResult {
  dir: string;
  files: number;
  rows: Record<string, number>;
}

/** ImportParams name a folder that Export wrote. */
export interface StorageImportParams {
  dir: string;
  dryRun?: boolean;
}

/** ImportRecoveryParams hold the code that the person typed. */
export interface StorageImportRecoveryParams {
  code: string;
}

/** ImportResult counts new rows and rows that already existed, by table. */
export interface StorageImportResult {
  inserted: Record<string, number>;
  skipped: Record<string, number>;
}

/** KeysStatus describes the keys without revealing any. */
export interface StorageKeysStatus {
  /** State is keyring, file, "file, unprotected", locked or none. */
  state: string;
  locked: boolean;
  /** Current is the number of the active data key; 0 while locked. */
  current: number;
  /** Keys are all data keys, oldest first; retired ones still open old backups. */
  keys: StorageDataKey[];
  /** Pending counts sealed values that are not yet encrypted with the current key. */
  pending: number;
  /** RecoveryExportedAt is when the recovery code was last shown. */
  recoveryExportedAt?: string;
  /** CanMove reports whether the key is in a file and can be moved to the keyring. */
  canMove: boolean;
}

/** LowSpace is the event storage.low_space; Low is false when there is room again. */
export interface StorageLowSpace {
  freeBytes: number;
  totalBytes: number;
  low: boolean;
}

/** MigrateResult reports the schema version of the data. */
export interface StorageMigrateResult {
  from: number;
  to: number;
}

/** PruneParams choose between pruning and only counting. */
export interface StoragePruneParams {
  dryRun?: boolean;
}

/** PruneResult counts what was pruned, or would be in a dry run, by table. "blobs" and "backups" count files. */
export interface StoragePruneResult {
  tables: StoragePruneRow[];
}

/** PruneRow is the result for one table. */
export interface StoragePruneRow {
  table: string;
  rows: number;
  bytes: number;
}

/** Recovery is the event storage.recovery. A nil State means that recovery mode ended. */
export interface StorageRecovery {
  state?: StorageRecoveryState;
}

/** RecoveryResult holds the recovery code. Show it once and never store it. */
export interface StorageRecoveryResult {
  code: string;
  /** Groups are its 24 groups of 4, so that a dialog can ask for two of them. */
  groups: string[];
}

/** RecoveryState explains why only storage, system and key methods work. */
export interface StorageRecoveryState {
  /** corrupt: the file is damaged; missing: the data that existed before is gone; held: after a rollback, until storage.migrate is called */
  reason: string;
  message: string;
  /** technical details */
  problems: string[];
  /** folder with byte-for-byte copies of the damaged files */
  keptPath?: string;
  since: string;
}

/** RestoreParams name the backup that replaces the current data. */
export interface StorageRestoreParams {
  path: string;
  passphrase?: string;
  /** check everything and count, but change nothing */
  dryRun?: boolean;
}

/** RestoreResult reports where the replaced data was kept and how many rows were restored. */
export interface StorageRestoreResult {
  /** empty for a dry run */
  replacedPath: string;
  /** rows by table in the restored data */
  rows: Record<string, number>;
  /** current rows, by table, that the backup lacks or has in an older version */
  newer: Record<string, number>;
  createdAt: string;
}

/** RollbackParams name the pre-migration snapshot to go back to. */
export interface StorageRollbackParams {
  /** file name or path; default: the newest */
  snapshot?: string;
  dryRun?: boolean;
}

/** RotateResult names the new data key. */
export interface StorageRotateResult {
  no: number;
}

/** SalvageParams choose whether to accept a loss. */
export interface StorageSalvageParams {
  /** use the salvaged data even if rows are missing */
  acceptLoss?: boolean;
}

/** SalvageResult counts the readable rows. */
export interface StorageSalvageResult {
  /** folder with the damaged files, unchanged */
  keptPath: string;
  tables: StorageSalvageRows[];
  /** pages of the file that could not be read or assigned */
  lostPages: number;
  /** rows were lost, or may have been */
  incomplete: boolean;
  /** the salvaged data is now in use; if false, repeat with acceptLoss */
  applied: boolean;
}

/** SalvageRows counts one table's rows. */
export interface StorageSalvageRows {
  table: string;
  kept: number;
  /** rows that existed and are unreadable; unreadable pages may have held more */
  lost: number;
}

/** SecretInfo is the part of a secret that may be shown. */
export interface StorageSecretInfo {
  name: string;
  createdAt: string;
  /** SetAt is when the value was last set. */
  setAt: string;
  /** UsedBy lists labels of what uses the secret. */
  usedBy: string[];
}

/** SecretsDeleteParams name a secret. */
export interface StorageSecretsDeleteParams {
  name: string;
}

/** SecretsListParams choose a page. */
export interface StorageSecretsListParams {
  /** Limit is 1 to 100; default 50. */
  limit?: number;
  offset?: number;
}

/** SecretsListResult is one page, sorted by name. */
export interface StorageSecretsListResult {
  secrets: StorageSecretInfo[];
  total: number;
  limit: number;
  offset: number;
}

/** SecretsSetParams set the value of a secret. */
export interface StorageSecretsSetParams {
  /** Name begins with a letter or digit and has at most 100 of A-Z a-z 0-9 _ . : / -. */
  name: string;
  /** Value has 1 byte to 64 KiB. */
  value: string;
}

/** StartNewResult reports where the previous data was moved. */
export interface StorageStartNewResult {
  replacedPath: string;
}

/** StatusResult is shown in Settings › Data. Sizes are in bytes. */
export interface StorageStatusResult {
  path: string;
  sizeBytes: number;
  walBytes: number;
  blobBytes: number;
  freeBytes: number;
  schemaVersion: number;
  quickCheckAt?: string;
  lastBackupAt?: string;
  /** where the root key lives: keyring, file, "file, unprotected", locked */
  keyring: string;
  /** open: sealed columns can be read; locked: they cannot */
  sealed: string;
  /** the caller's rows */
  tables: StorageTableRows[];
  recovery?: StorageRecoveryState;
  lowSpace: boolean;
}

/** TableRows counts the caller's rows of one table. */
export interface StorageTableRows {
  name: string;
  rows: number;
}

/** VerifyBackupParams name the backup to check. */
export interface StorageVerifyBackupParams {
  path: string;
}

/** VerifyBackupResult reports whether the file can be restored. */
export interface StorageVerifyBackupResult {
  ok: boolean;
  problems: string[];
  schemaVersion: number;
  createdAt: string;
  hasKey: boolean;
}

/** Analysis is the result of a job. */
export interface SynthesisAnalysis {
  patterns: SynthesisPattern[];
  summary?: string;
  recommendations?: SynthesisRecommendation[];
  warnings?: string[];
  emotionalProfile?: SynthesisEmotionalProfile;
  prospectiveSelf?: SynthesisProspectiveSelf;
  relationalDynamics?: SynthesisRelationalDynamics;
  narrativeThemes?: string[];
  /** share of texts that belong to themes */
  identityCoherence?: number;
  lastUpdated?: string;
}

/** Conversation is a text to analyze that is not stored. */
export interface SynthesisConversation {
  id: string;
  /** at most 256 KiB */
  text: string;
  timestamp: string;
}

/** DismissPeopleParams is the request of memory.dismiss_people. */
export interface SynthesisDismissPeopleParams {
  /** of people, or aliases; with restore, dismissed names */
  names: string[];
  /** the names are people's after all */
  restore?: boolean;
}

/** DismissPeopleResult lists the names that were dismissed or restored, and a token to undo that within ten minutes. */
export interface SynthesisDismissPeopleResult {
  names: string[];
  /** for memory.undo */
  undoToken: string;
}

/** Done is sent when a job has ended. */
export interface SynthesisDone {
  jobId: string;
  synthesisType: string;
  /** pending, running, completed, failed, cancelled */
  status: string;
  progress: number;
  /** load, model, valence, temporal, semantic, emotional, relational, prospective, narrative, write */
  stage?: string;
  insights: SynthesisInsights;
  engine: string;
  createdAt: string;
  startedAt?: string;
  completedAt?: string;
  error?: string;
}

/** EmotionalProfile describes the moods of the texts. Valences are -1 to 1. */
export interface SynthesisEmotionalProfile {
  /** positive, neutral, negative, most frequent first */
  dominantEmotions: string[];
  /** 10th and 90th percentile */
  emotionalRange: number[];
  emotionalTriggers: string[];
  /** 1 − standard deviation */
  emotionalStability: number;
}

/** EvidenceDetail is one text that a pattern is based on. */
export interface SynthesisEvidenceDetail {
  id: string;
  /** memory, turn, conversation */
  kind: string;
  parentId?: string;
  /** empty: the text no longer exists */
  quote: string;
  occurredAt: string;
  /** 0 to 1 */
  weight: number;
}

/** FeedbackParams is the request of memory.pattern_feedback. */
export interface SynthesisFeedbackParams {
  id: string;
  /** confirm, reject, clear */
  verdict: string;
  /** at most 2,000 characters; absent: unchanged */
  note?: string;
}

/** FeedbackResult is the pattern, and a token to undo the feedback within ten minutes. */
export interface SynthesisFeedbackResult {
  pattern: SynthesisPattern;
  undoToken: string;
}

/** HistoryParams filters jobs, newest first. */
export interface SynthesisHistoryParams {
  /** 1 to 100; default 50 */
  limit?: number;
  offset?: number;
  type?: string;
  status?: string;
}

/** HistoryResult is a page of jobs. */
export interface SynthesisHistoryResult {
  jobs: SynthesisJob[];
  total: number;
}

/** Insights counts what a job did. */
export interface SynthesisInsights {
  texts: number;
  patterns: number;
  created: number;
  updated: number;
  unchanged: number;
  summary?: string;
  warnings?: string[];
  dryRun?: boolean;
  /** of a dry run */
  found?: SynthesisPattern[];
  /** ApprovalID is the question in Approvals that must be answered before texts are sent. */
  approvalId?: string;
  inputTokens?: number;
  outputTokens?: number;
  costUsd?: number;
  model?: string;
}

/** Job is the status of a job. */
export interface SynthesisJob {
  jobId: string;
  synthesisType: string;
  /** pending, running, completed, failed, cancelled */
  status: string;
  progress: number;
  /** load, model, valence, temporal, semantic, emotional, relational, prospective, narrative, write */
  stage?: string;
  insights: SynthesisInsights;
  engine: string;
  createdAt: string;
  startedAt?: string;
  completedAt?: string;
  error?: string;
}

/** JobParams identifies a job. */
export interface SynthesisJobParams {
  jobId: string;
}

/** MapCluster is a group of points. */
export interface SynthesisMapCluster {
  id: number;
  label: string;
  size: number;
  /** 0 to 1 */
  cohesion: number;
}

/** MapFilters filter the texts of a map. */
export interface SynthesisMapFilters {
  from?: string;
  to?: string;
}

/** MapParams is the request of memory.cluster_map. */
export interface SynthesisMapParams {
  filters?: SynthesisMapFilters;
  /** the newest texts, 1 to 5,000; default 1,000 */
  limit?: number;
}

/** MapPoint is one text. X and Y are -1 to 1. */
export interface SynthesisMapPoint {
  id: string;
  kind: string;
  /** the conversation of a turn */
  parentId?: string;
  /** the beginning of the text */
  label: string;
  x: number;
  y: number;
  /** -1: none */
  cluster: number;
}

/** MapResult places texts on a plane so that similar ones are close to each other. */
export interface SynthesisMapResult {
  points: SynthesisMapPoint[];
  clusters: SynthesisMapCluster[];
  /** texts without a vector */
  skipped: number;
}

/** MergePeopleParams is the request of memory.merge_people: two or more people, by ids or names. */
export interface SynthesisMergePeopleParams {
  ids?: string[];
  /** names or aliases */
  names?: string[];
  /** of the merged person, at most 100 characters; default: that of the first one */
  name?: string;
}

/** MergePeopleResult is the merged person, and a token to undo the merge within ten minutes. */
export interface SynthesisMergePeopleResult {
  person: SynthesisPerson;
  /** for memory.undo */
  undoToken: string;
}

/** Pattern is one finding with its evidence. */
export interface SynthesisPattern {
  id?: string;
  /** such as goal or semantic_cluster */
  type: string;
  /** with its detector, such as prospective_goal */
  patternType: string;
  layer: number;
  description: string;
  /** ids of the texts */
  evidence: string[];
  /** the strongest ones */
  evidenceDetail?: SynthesisEvidenceDetail[];
  confidence: number;
  /** values from which the confidence was computed */
  confidenceParts: Record<string, number>;
  /** 0 to 1 */
  salience: number;
  subjects: string[];
  recommendations: string[];
  /** time of the first text; with type, subjects and parts, a client can build the description in any language */
  firstEvidence?: string;
  lastEvidence?: string;
  firstDetected?: string;
  lastObserved?: string;
  observationCount?: number;
  status: string;
  supersededBy?: string;
  userConfirmed?: boolean;
  userNotes?: string;
  engine: string;
  fingerprint: string;
  /** its chart; in memory.get_pattern only */
  series?: SynthesisPoint[];
}

/** PatternParams identifies a pattern. */
export interface SynthesisPatternParams {
  id: string;
}

/** PatternsChanged lists patterns that were created or changed; empty if there are many. */
export interface SynthesisPatternsChanged {
  ids: string[];
}

/** PatternsParams filters patterns. */
export interface SynthesisPatternsParams {
  /** 1 to 7 */
  layer?: number;
  /** with or without its detector; older names are accepted */
  patternType?: string;
  /** words in the description */
  query?: string;
  /** default: active and stale */
  status?: string;
  minConfidence?: number;
  /** confidence (default), variety, salience, recent */
  sort?: string;
  /** 1 to 100; default 50 */
  limit?: number;
  offset?: number;
}

/** PatternsResult is a page of patterns. */
export interface SynthesisPatternsResult {
  patterns: SynthesisPattern[];
  total: number;
  limit: number;
  offset: number;
}

/** PeopleParams filters people, most often mentioned first. */
export interface SynthesisPeopleParams {
  /** substring of a name or an alias */
  query?: string;
  /** 1 to 500; default 100 */
  limit?: number;
  offset?: number;
}

/** PeopleResult is a page of people. */
export interface SynthesisPeopleResult {
  people: SynthesisPerson[];
  total: number;
  /** names that you marked as not a person's, in alphabetical order */
  dismissed: string[];
}

/** Person is somebody who is mentioned in the newest 10,000 texts or wrote some of them. */
export interface SynthesisPerson {
  /** derived from the name: the same on all devices */
  id: string;
  /** such as Anna, or "your sister" for people without a name */
  name: string;
  /** other names that texts or you use, in alphabetical order */
  aliases: string[];
  /** such as sister, when texts say so */
  relationship?: string;
  /** number of texts that mention them */
  mentions: number;
  /** number of texts that they wrote */
  messages: number;
  firstSeen: string;
  lastSeen: string;
  /** you have merged or split it */
  corrected: boolean;
}

/** Point is one value of a chart. */
export interface SynthesisPoint {
  at: string;
  value: number;
}

/** Preview shows what an engine would send, before it is sent. */
export interface SynthesisPreview {
  leavesMachine: boolean;
  destination?: string;
  exactText?: string;
  removed?: SynthesisRemoved[];
  estimatedTokens?: number;
  /** for one answer of typical length to each part; corrections cost more */
  estimatedCostUsd?: number;
  priceUnknown?: boolean;
  /** the value for approved in memory.synthesize */
  hash?: string;
  conversationCount: number;
}

/** Progress is sent while a job runs. */
export interface SynthesisProgress {
  jobId: string;
  stage: string;
  progress: number;
}

/** ProspectiveSelf lists statements about the future. */
export interface SynthesisProspectiveSelf {
  aspirations: string[];
  fears: string[];
  identityThemes: string[];
  /** share of goals that moved or were reached */
  goalAlignment: number;
  growthAreas: string[];
}

/** Recommendation is a suggestion based on a pattern. */
export interface SynthesisRecommendation {
  id?: string;
  patternId?: string;
  recommendation: string;
  /** psychological, behavioral, relational, growth */
  category: string;
  /** low, medium, high */
  priority: string;
  /** pending, acknowledged, working_on, completed */
  status: string;
  createdAt?: string;
  updatedAt?: string;
}

/** RecommendationParams changes the status of a recommendation. */
export interface SynthesisRecommendationParams {
  id: string;
  status: string;
}

/** RecommendationsParams filters recommendations, which are sorted by priority, then newest first. */
export interface SynthesisRecommendationsParams {
  status?: string;
  priority?: string;
  /** 1 to 100; default 50 */
  limit?: number;
  offset?: number;
}

/** RecommendationsResult is a page of recommendations. */
export interface SynthesisRecommendationsResult {
  recommendations: SynthesisRecommendation[];
  total: number;
}

/** RelationalDynamics lists the people in the texts. */
export interface SynthesisRelationalDynamics {
  keyRelationships: string[];
  attachmentPatterns: string[];
  /** share of support among the cues of support and conflict */
  trustLevels: Record<string, number>;
}

/** Removed is a masked part of the text. Offsets are bytes of exactText. */
export interface SynthesisRemoved {
  start: number;
  end: number;
  kind: string;
}

/** RenamePersonParams is the request of memory.rename_person. */
export interface SynthesisRenamePersonParams {
  /** of the person, or an alias */
  name: string;
  /** at most 100 characters; must not be the name of another person */
  to: string;
}

/** RenamePersonResult is the renamed person, and a token to undo the change within ten minutes. */
export interface SynthesisRenamePersonResult {
  person: SynthesisPerson;
  /** for memory.undo */
  undoToken: string;
}

/** ScheduleParams is the request of memory.synthesis_schedule. */
export interface SynthesisScheduleParams {
  synthesisType: string;
  cron: string;
  /** IANA name; default: this computer's */
  zone?: string;
  enabled: boolean;
}

/** ScheduleResult is the schedule of a synthesis. */
export interface SynthesisScheduleResult {
  scheduleId: string;
  synthesisType: string;
  cron: string;
  zone: string;
  enabled: boolean;
  nextRun?: string;
}

/** SplitPersonParams is the request of memory.split_person. */
export interface SynthesisSplitPersonParams {
  /** of the person */
  name: string;
  /** some of the names of the person that refer to someone else */
  aliases: string[];
}

/** SplitPersonResult is both people, and a token to undo the split within ten minutes. */
export interface SynthesisSplitPersonResult {
  /** without the aliases */
  person: SynthesisPerson;
  /** the other person, named after the first alias */
  split: SynthesisPerson;
  /** for memory.undo */
  undoToken: string;
}

/** SynthesizeParams is the request of memory.synthesize and memory.synthesis_preview. */
export interface SynthesisSynthesizeParams {
  /** see Types; relational_dynamics and narrative_themes are aliases */
  synthesisType: string;
  /** at most 1,000; absent: stored texts */
  conversations?: SynthesisConversation[];
  timeRange?: SynthesisTimeRange;
  /** the newest texts, 1 to 10,000; default 100 */
  limit?: number;
  /** minimum confidence of stored patterns, 0 to 1; default 0.7 */
  confidence?: number;
  /** local (default) or llm */
  engine?: string;
  /** how long to wait for the end, 0 to 10,000; default 500 */
  waitMs?: number;
  /** local: divide all texts into this many topics, 2 to 100 */
  themes?: number;
  /** store nothing, and return patterns of every confidence */
  dryRun?: boolean;
  /** llm: the hash of the approved preview; needs the scope approve */
  approved?: string;
  /** llm: names to mask before texts are sent, at most 100 */
  hideNames?: string[];
  /** llm: how often the model is asked, 1 (default) or 3 */
  samples?: number;
}

/** SynthesizeResult identifies the job. The other fields are present if the job ended within waitMs. */
export interface SynthesisSynthesizeResult {
  jobId: string;
  status: string;
  synthesisType?: string;
  analysis?: SynthesisAnalysis;
  executionTimeMs?: number;
  conversationCount?: number;
  engine?: string;
  /** US dollars; 0 for local */
  cost: number;
  model?: string;
}

/** TimeRange limits the texts that are read. Start is inclusive, End exclusive. */
export interface SynthesisTimeRange {
  start?: string;
  end?: string;
}

/** AuditEntry is the short form of an entry of the audit log. */
export interface ToolsAuditEntry {
  timestamp: string;
  /** in milliseconds since 1970 */
  ts: number;
  /** start, permission_check, resource_access, network_call, log, complete or error */
  action: string;
  details: unknown;
}

/** AuditParams filters the entries of the audit log about tools. */
export interface ToolsAuditParams {
  toolId?: string;
  executionId?: string;
  /** 1..100, default 50 */
  limit?: number;
  /** seq of the last one seen */
  beforeSeq?: number;
}

/** AuditResult is one page of entries. Verified means that the chain is intact from the oldest entry on the page up to Head. */
export interface ToolsAuditResult {
  entries: ToolsToolAuditEntry[];
  verified: boolean;
  head: number;
}

/** Bundle is a file of tools. It never contains secrets, state, usage, grants or a user id. */
export interface ToolsBundle {
  /** helix-tools */
  format: string;
  formatVersion: number;
  exportedAt: string;
  tools: ToolsBundleTool[];
}

/** BundleDefinition is the name of a tool and the fields covered by the definition hash. */
export interface ToolsBundleDefinition {
  name: string;
  description: string;
  language: ToolsLanguage;
  code: string;
  parameters: unknown;
  capabilities: string[];
  sandboxProfile: ToolsProfile;
  limits?: ToolsLimits;
}

/** BundleTool is one tool in a bundle. */
export interface ToolsBundleTool {
  definition: ToolsBundleDefinition;
  version: string;
  author: string;
  tags: string[];
  icon: string;
  samples?: ToolsSample[];
  signature?: LifecycleBundleSignature;
  history?: ToolsBundleVersion[];
}

/** BundleVersion is an earlier version of a tool in a bundle. */
export interface ToolsBundleVersion {
  version: string;
  note: string;
  author: string;
  createdAt: string;
  definition: ToolsBundleDefinition;
}

/** CancelParams identifies a run. */
export interface ToolsCancelParams {
  executionId: string;
}

/** CancelResult reports whether there was such a run to cancel. */
export interface ToolsCancelResult {
  canceled: boolean;
}

/** CapabilitiesResult compares the capabilities that a tool requests with those it has. */
export interface ToolsCapabilitiesResult {
  requested: string[];
  grants: ToolsCapabilityGrant[];
  denied: ToolsCapabilityDenial[];
}

/** CapabilityChange lists added and removed capabilities. */
export interface ToolsCapabilityChange {
  added: string[];
  removed: string[];
}

/** CapabilityDenial is a capability that the user always denies. */
export interface ToolsCapabilityDenial {
  capability: string;
  resource: string;
  reason: string;
}

/** CapabilityGrant is a capability granted to a tool. */
export interface ToolsCapabilityGrant {
  capability: string;
  resource: string;
  /** once, run, session or always */
  scope: string;
  expiresAt?: string;
  origin: string;
  lastUsed?: string;
  suspended: boolean;
}

/** Changed is published when a tool of the user changes. Kind is created, updated, enabled, disabled, deleted, restored, signed, shared, unshared, state, secrets or signers. ToolID is zero if the change does not concern a single tool. */
export interface ToolsChanged {
  toolId: string;
  kind: string;
}

/** CloneParams copies an own or a public tool. */
export interface ToolsCloneParams {
  toolId: string;
  /** default: the name with " (Clone)" */
  name?: string;
}

/** CodeKind is the kind of code in a file that is run once. */
export type ToolsCodeKind = "javascript" | "typescript" | "wasm";

/** CreateParams describes a new tool. */
export interface ToolsCreateParams {
  /** 1..64 letters, digits, spaces, "_", "-" or "." */
  name: string;
  /** at most 256 KiB */
  code: string;
  description?: string;
  /** default javascript */
  language?: ToolsLanguage;
  /** JSON Schema; default {"type":"object"} */
  parameters?: unknown;
  /** at most 32 */
  capabilities?: string[];
  /** default standard */
  sandboxProfile?: ToolsProfile;
  limits?: ToolsLimits;
  samples?: ToolsSample[];
  /** at most 16 of 64 characters */
  tags?: string[];
  icon?: string;
  /** default private */
  visibility?: ToolsVisibility;
  /** semantic version; default 1.0.0 */
  version?: string;
}

/** CreateResult contains the new tool and the results of the static checks. */
export interface ToolsCreateResult {
  tool: ToolsTool;
  validation: ToolsValidation;
}

/** DeleteResult contains the time until which the tool can be restored completely. */
export interface ToolsDeleteResult {
  /** RFC 3339 */
  undoUntil: string;
}

/** DiffParams identifies two versions of a tool. */
export interface ToolsDiffParams {
  toolId: string;
  from: string;
  to: string;
}

/** DiffResult is the difference between two versions. Code is a unified diff, "" if equal. */
export interface ToolsDiffResult {
  fields: ToolsFieldChange[];
  code: string;
  capabilities: ToolsCapabilityChange;
}

/** Draft contains the other fields of an unsaved definition. */
export interface ToolsDraft {
  parameters?: unknown;
  capabilities?: string[];
  sandboxProfile?: ToolsProfile;
  limits?: ToolsLimits;
}

/** Entry is the kind of entry point of a tool. */
export type ToolsEntry = "default" | "execute" | "main" | "body";

/** ExecuteParams runs a stored tool by its id, or Code as a draft. With ToolID the code, schema, capabilities and limits are those stored, and Code, Draft and Metadata must be empty. */
export interface ToolsExecuteParams {
  toolId?: string;
  /** default: the current one */
  version?: string;
  code?: string;
  /** of Code; default javascript */
  language?: ToolsLanguage;
  /** default {} */
  params?: unknown;
  metadata?: ToolsRunMetadata;
  draft?: ToolsDraft;
  /** the same key and call run once and return the same result */
  idempotencyKey?: string;
  /** lowers the tool's time limit for this run */
  timeoutMs?: number;
  /** wait up to 120 s for an approval instead of failing */
  interactive?: boolean;
}

/** ExecuteResult is the result of a run. A tool that failed is a result with Success false, not an error of the call; an error means that the tool did not start. */
export interface ToolsExecuteResult {
  success: boolean;
  /** null if the tool returned nothing or failed */
  output: unknown;
  error?: string;
  /** thrown, timeout, cpu, memory, output, host_denied, canceled, … */
  errorClass?: string;
  /** positions refer to the tool's source */
  errorStack?: string;
  errorDetails?: unknown;
  executionTimeMs: number;
  auditLog: ToolsAuditEntry[];
  executionId: string;
  cpuTimeMs: number;
  memoryUsedMb: number;
  logs: ToolsLogLine[];
  pendingApprovalId?: string;
  /** such as that the run could not be recorded */
  warnings?: string[];
  /** unsaved code: not included in usage */
  draft?: boolean;
}

/** ExecuteSkillResult is the result of a run. A WASM tool that failed is a result with Success false, not an error of the call; an error means that it did not start. */
export interface ToolsExecuteSkillResult {
  success: boolean;
  output?: unknown;
  error?: string;
  /** thrown, trap, timeout, cpu, memory, output, input, host_denied, canceled, … */
  errorClass?: string;
  /** of JavaScript: positions in its source */
  errorStack?: string;
  errorDetails?: unknown;
  executionId: string;
  status: WasmtoolsSkillStatus;
  executionTimeMs: number;
  cpuTimeMs: number;
  peakMemoryBytes: number;
  hostCalls: number;
  /** metered units of work */
  fuel: number;
  outputBytes: number;
  logs: ToolsLogLine[];
  /** t0 or t1 */
  tier: string;
  /** inprocess, process, process+landlock or process+landlock+bwrap */
  isolation: string;
  /** why the isolation is weaker than possible */
  reasons: string[];
  limits: WasmtoolsSkillLimits;
  auditLog: ToolsAuditEntry[];
  pendingApprovalId?: string;
  warnings?: string[];
}

/** Execution reports the progress of a run. Seq counts from 1 within a run, so that a client can order the reports. State is running, success, failure, timeout or canceled. Progress is the fraction of the time limit that has passed, 0 to 1. Log is a line written by the tool. */
export interface ToolsExecution {
  executionId: string;
  toolId: string;
  seq: number;
  state: string;
  progress?: number;
  log?: ToolsLogLine;
}

/** ExportParams lists the tools to export. */
export interface ToolsExportParams {
  /** 1..100 */
  toolIds: string[];
  includeHistory?: boolean;
  /** default true: sign unsigned tools with this device's key */
  sign?: boolean;
  /** also write the bundle to this new file, mode 0600; needs the admin scope */
  path?: string;
}

/** ExportResult contains the bundle, ready to be written to a file. */
export interface ToolsExportResult {
  bundle: ToolsBundle;
  /** of the file, if one was written */
  path?: string;
}

/** FieldChange is one field of the definition that differs. */
export interface ToolsFieldChange {
  name: string;
  from: unknown;
  to: unknown;
}

/** GetParams identifies a tool and, if Version is set, one of its versions. */
export interface ToolsGetParams {
  toolId: string;
  version?: string;
}

/** ImportItem is the review of one tool. */
export interface ToolsImportItem {
  name: string;
  /** create, rename, replace, skip or blocked */
  action: string;
  newName?: string;
  definitionHash: string;
  signature: LifecycleSignatureInfo;
  requestedCapabilities: string[];
  warnings: string[];
  /** for replace: the change to the existing tool */
  diff?: ToolsDiffResult;
  definition: ToolsBundleDefinition;
  version: string;
  author: string;
}

/** ImportParams contains exactly one source. The first call (dry run, the default) returns the review. The second, with DryRun false, adds exactly what was reviewed; it fails with a conflict if the source has changed since. */
export interface ToolsImportParams {
  /** a bundle, or one tool in the older form; ≤ 5 MiB */
  bundle?: unknown;
  /** https address of a bundle */
  url?: string;
  shareId?: string;
  /** default true */
  dryRun?: boolean;
  /** default rename */
  onConflict?: LifecycleOnConflict;
}

/** ImportResult is the review and, after the second step, the added tools, which are disabled and private. */
export interface ToolsImportResult {
  items: ToolsImportItem[];
  tools: ToolsTool[];
}

/** Language is the programming language of a tool. */
export type ToolsLanguage = "typescript" | "javascript";

/** Limits lower the limits of a tool's profile. An absent field keeps the profile's value. A value above the profile's is rejected when the tool is saved. */
export interface ToolsLimits {
  /** elapsed time, milliseconds */
  wallMs?: number;
  /** processor time, milliseconds */
  cpuMs?: number;
  /** memory of the instance, MiB */
  memoryMb?: number;
  /** size of the result as JSON */
  outputBytes?: number;
  /** calls to helix.* in one run */
  hostCalls?: number;
}

/** ListParams filters the caller's own tools. */
export interface ToolsListParams {
  /** substring of name or description; no wildcards */
  query?: string;
  visibility?: ToolsVisibility;
  enabled?: boolean;
  /** whether a change of the definition suspended grants */
  suspended?: boolean;
  /** tools that have all of these */
  tags?: string[];
  /** default recent */
  sort?: ToolsListSort;
  /** list the deleted tools that can be restored instead */
  deleted?: boolean;
  /** 1..100, default 50 */
  limit?: number;
  offset?: number;
}

/** ListResult is one page. Total counts all matches. */
export interface ToolsListResult {
  tools: ToolsSummary[];
  total: number;
  limit: number;
  offset: number;
}

/** ListSort is the order of a list. */
export type ToolsListSort = "recent" | "name" | "usage";

/** LogLine is one line written by a tool with console.* or helix.log. */
export interface ToolsLogLine {
  at: string;
  /** debug, info, warn or error */
  level: string;
  message: string;
  fields?: unknown;
}

/** Metadata is what a caller needs to run a tool. */
export interface ToolsMetadata {
  id: string;
  name: string;
  description: string;
  parameters: unknown;
  version: string;
  usageCount: number;
  isEnabled: boolean;
}

/** Origin is how a tool was added to this installation. */
export type ToolsOrigin = "local" | "clone" | "import" | "share" | "hub";

/** Problem is one finding. Line and Column count from 1 in the original text; both are 0 if the finding has no location in the code. Field names the part of the definition. */
export interface ToolsProblem {
  /** stable, such as syntax, import, unused_capability */
  code: string;
  /** code, parameters, capabilities, name, … */
  field: string;
  message: string;
  line: number;
  column: number;
  /** JSON pointer within Field */
  path?: string;
}

/** Profile names a set of sandbox limits and the capabilities that may be requested. */
export type ToolsProfile = "strict" | "standard" | "permissive";

/** ResolveShareParams identifies a share by its id or its link. */
export interface ToolsResolveShareParams {
  shareId?: string;
  url?: string;
}

/** ResolveShareResult is the review of the shared tool, as in the dry run of an import. */
export interface ToolsResolveShareResult {
  shareId: string;
  preview: ToolsImportResult;
}

/** RollbackParams identifies the version whose definition becomes current again. */
export interface ToolsRollbackParams {
  toolId: string;
  version: string;
}

/** RollbackResult contains the tool at its new version and the suspended grants. */
export interface ToolsRollbackResult {
  tool: ToolsTool;
  suspendedGrants: string[];
}

/** RunCodeParams runs code that is not stored, on behalf of the person who calls. Grants lists what it may use: listing it answers the questions of the run, and each answer is recorded. */
export interface ToolsRunCodeParams {
  kind: ToolsCodeKind;
  /** shown in stack traces and in the log */
  name?: string;
  /** JavaScript or TypeScript */
  code?: string;
  wasm?: string;
  blobSha256?: string;
  input?: unknown;
  /** strict, standard, permissive or wasm; default standard, for a module wasm */
  profile?: string;
  /** t0 or t1; default t0, for a module t1 */
  tier?: string;
  grants?: string[];
  timeoutMs?: number;
}

/** RunMetadata is the metadata that a draft can read (skillName, skillVersion, skillAuthor). */
export interface ToolsRunMetadata {
  name?: string;
  version?: string;
  author?: string;
}

/** RunStatus is how a run ended. */
export type ToolsRunStatus = "success" | "failure" | "timeout";

/** Sample is a stored input of a tool, with the expected output if it is known. */
export interface ToolsSample {
  name: string;
  params: unknown;
  /** absent: any output is accepted */
  expected?: unknown;
}

/** SearchParams searches the public tools on this device, and those that other people share on the hub. */
export interface ToolsSearchParams {
  /** substring of name, description or a tag; "" matches all */
  query: string;
  tags?: string[];
  /** 1..100, default 20 */
  limit?: number;
  offset?: number;
}

/** SearchResult is one page of public tools, most used first. */
export interface ToolsSearchResult {
  tools: ToolsSummary[];
  total: number;
  /** false: no hub is connected, so only tools of this device are listed */
  hub: boolean;
}

/** SecretInfo is a secret without its value, which is never returned. */
export interface ToolsSecretInfo {
  name: string;
  hosts: string[];
  toolIds: string[];
  updatedAt: string;
}

/** SecretName names a secret. */
export interface ToolsSecretName {
  name: string;
}

/** SecretSetParams stores a secret for tools. The value is sent only in requests to Hosts. */
export interface ToolsSecretSetParams {
  /** 1..64 letters, digits, "_", "-" or "." */
  name: string;
  /** 4 bytes to 8 KiB */
  value: string;
  /** exact hosts or *.example.com */
  hosts: string[];
  /** tools of either kind that may use it; empty: all */
  toolIds: string[];
}

/** SecretsResult lists the secrets, sorted by name. */
export interface ToolsSecretsResult {
  secrets: ToolsSecretInfo[];
}

/** SetEnabledParams enables or disables a tool. */
export interface ToolsSetEnabledParams {
  toolId: string;
  enabled: boolean;
}

/** Share is one share of a tool. */
export interface ToolsShare {
  shareId: string;
  toolId: string;
  url: string;
  access: LifecycleAccess;
  version: string;
  definitionHash: string;
  opens: number;
  createdAt: string;
  expiresAt?: string;
  revokedAt?: string;
  /** active, expired or revoked */
  state: string;
}

/** ShareParams shares one version of a tool. */
export interface ToolsShareParams {
  toolId: string;
  access: LifecycleAccess;
  /** default: the current one; later edits do not change the share */
  version?: string;
  expiresAt?: string;
}

/** ShareResult contains the link. If Hub is false no hub is connected: the link can only be opened on this device, and a tool is shared with other people by exporting a file. */
export interface ToolsShareResult {
  shareId: string;
  /** helix://tools/shared/<id> */
  url: string;
  version: string;
  hub: boolean;
  note?: string;
}

/** SharesParams selects the shares of one tool, or of all. */
export interface ToolsSharesParams {
  toolId?: string;
}

/** SharesResult lists shares, newest first. */
export interface ToolsSharesResult {
  shares: ToolsShare[];
  hub: boolean;
}

/** SignerResult holds one signer. */
export interface ToolsSignerResult {
  signer: LifecycleSigner;
}

/** SignersResult lists the known signers, this device first. */
export interface ToolsSignersResult {
  signers: LifecycleSigner[];
}

/** SkillExecution is one run in the history. Input and output above 64 KiB are truncated to {"truncated":true,"bytes":n,"head":…}; secrets in them are masked. */
export interface ToolsSkillExecution {
  id: string;
  skillId: string;
  input: unknown;
  output: unknown;
  status: WasmtoolsSkillStatus;
  errorClass?: string;
  error?: string;
  executionTimeMs: number;
  cpuTimeMs: number;
  memoryUsedMb: number;
  hostCalls: number;
  tier: string;
  isolation: string;
  version: string;
  /** user, cli, http, agent, skill, schedule, voice or tool */
  caller: string;
  timestamp: string;
}

/** SkillExecutionChanged reports the progress of a run of a WASM tool. Seq counts from 1 within a run. Status is running until the last report. Progress is the fraction of the time limit that has passed, 0 to 1. Waiting is queued or approval while the run has not started. Log is a line written by the WASM tool. */
export interface ToolsSkillExecutionChanged {
  executionId: string;
  skillId: string;
  status: WasmtoolsSkillStatus;
  seq: number;
  progress?: number;
  waiting?: string;
  log?: ToolsLogLine;
}

/** SkillExecutionsParams filters the runs of a WASM tool, newest first. */
export interface ToolsSkillExecutionsParams {
  skillId: string;
  status?: WasmtoolsSkillStatus;
  /** 1..100, default 50 */
  limit?: number;
  /** id of the last run seen */
  before?: string;
}

/** SkillExecutionsResult is one page of runs. */
export interface ToolsSkillExecutionsResult {
  executions: ToolsSkillExecution[];
  /** there are older runs */
  more: boolean;
}

/** StateClearParams identifies the tool and, if Key is set, the one entry to clear. */
export interface ToolsStateClearParams {
  toolId: string;
  key?: string;
}

/** StateClearResult contains the token that restores the cleared state within a minute. */
export interface ToolsStateClearResult {
  cleared: number;
  undoToken: string;
}

/** StateEntry is one value or file that a tool has stored. */
export interface ToolsStateEntry {
  /** for a file: "file:" and its path in the tool's folder */
  key: string;
  sizeBytes: number;
  updatedAt: string;
  /** the first 200 characters */
  preview: string;
}

/** StateRestoreParams undoes a clearing. */
export interface ToolsStateRestoreParams {
  undoToken: string;
}

/** StateResult is the state of a tool and its quota. */
export interface ToolsStateResult {
  entries: ToolsStateEntry[];
  usedBytes: number;
  quotaBytes: number;
}

/** Summary is a tool in a list. */
export interface ToolsSummary {
  id: string;
  name: string;
  description: string;
  version: string;
  usageCount: number;
  lastUsed?: string;
  /** result of the last run: success, failure or timeout */
  lastStatus?: string;
  isEnabled: boolean;
  visibility: ToolsVisibility;
  icon: string;
  tags: string[];
  origin: ToolsOrigin;
  /** has a signature; tools.get returns whether it is trusted */
  signed: boolean;
  suspended: boolean;
  mine: boolean;
  updatedAt: string;
  /** search only: the share to open to read the tool */
  shareId?: string;
}

/** Suspended is published when a change of definition suspends a tool's grants. */
export interface ToolsSuspended {
  toolId: string;
  oldHash: string;
  newHash: string;
}

/** Template is a small tool that can be used as a template. */
export interface ToolsTemplate {
  id: string;
  name: string;
  description: string;
  icon: string;
  language: ToolsLanguage;
  code: string;
  parameters: unknown;
  capabilities: string[];
  sandboxProfile: ToolsProfile;
  sampleParams: unknown;
  expectedOutput: unknown;
}

/** TemplatesResult lists the templates that Helix ships. */
export interface ToolsTemplatesResult {
  templates: ToolsTemplate[];
}

/** Tool is a tool with all its fields. */
export interface ToolsTool {
  id: string;
  /** unique among the user's tools, ignoring case */
  name: string;
  /** read by people and by models */
  description: string;
  language: ToolsLanguage;
  code: string;
  /** JSON Schema of the parameters */
  parameters: unknown;
  /** requested, but not necessarily granted */
  capabilities: string[];
  sandboxProfile: ToolsProfile;
  limits?: ToolsLimits;
  /** semantic version of the current definition */
  version: string;
  /** 64 hex digits; grants are bound to it */
  definitionHash: string;
  author: string;
  signature: LifecycleSignatureInfo;
  samples: ToolsSample[];
  tags: string[];
  icon: string;
  origin: ToolsOrigin;
  cloneSourceId?: string;
  visibility: ToolsVisibility;
  isEnabled: boolean;
  /** its definition changed and waits for approval */
  suspended: boolean;
  /** the tool's state is synced to the user's other devices */
  syncState: boolean;
  /** false: another user's public tool, to read or clone */
  mine: boolean;
  usageCount: number;
  lastUsed?: string;
  createdAt: string;
  updatedAt: string;
  /** approximate cost of describing it to a model: bytes of function name, description and schema / 4, rounded up */
  approxTokens: number;
}

/** ToolAuditEntry is an entry of the audit log with its position in the hash chain. */
export interface ToolsToolAuditEntry {
  seq: number;
  timestamp: string;
  ts: number;
  action: string;
  outcome: string;
  toolId: string;
  runId?: string;
  details: unknown;
  hash: string;
  signed: boolean;
}

/** ToolID identifies one tool. */
export interface ToolsToolID {
  toolId: string;
}

/** ToolResult contains one tool. */
export interface ToolsToolResult {
  tool: ToolsTool;
}

/** TrustSignerParams names a key and sets whether tools signed with it may run like the user's own. */
export interface ToolsTrustSignerParams {
  /** base64 or PEM */
  publicKey: string;
  name: string;
  trusted: boolean;
}

/** UnshareParams identifies a share. */
export interface ToolsUnshareParams {
  shareId: string;
}

/** UpdateParams changes a tool. BaseVersion is the version that the edit is based on. If the tool has changed since, the error is a conflict whose details contain the current tool. */
export interface ToolsUpdateParams {
  toolId: string;
  baseVersion: string;
  patch: unknown;
  /** reason, stored with the new version */
  note?: string;
}

/** UpdateResult contains the changed tool, the results of the static checks, and the grants that the change suspended until the new definition is approved. */
export interface ToolsUpdateResult {
  tool: ToolsTool;
  validation: ToolsValidation;
  suspendedGrants: string[];
}

/** UsageEntry is one finished run. Parameters and output above 64 KiB are truncated to {"truncated":true,"bytes":n,"head":…}; secrets in them are masked. */
export interface ToolsUsageEntry {
  /** the executionId of the run */
  id: string;
  toolId: string;
  toolName: string;
  params: unknown;
  output: unknown;
  status: ToolsRunStatus;
  error?: string;
  errorClass?: string;
  executionTimeMs: number;
  cpuTimeMs: number;
  memoryUsedMb: number;
  hostCalls: number;
  version: string;
  definitionHash: string;
  /** user, agent, skill, schedule, voice, tool or cli */
  caller: string;
  parentId?: string;
  timestamp: string;
}

/** UsageParams filters the finished runs, newest first. */
export interface ToolsUsageParams {
  toolId?: string;
  status?: ToolsRunStatus;
  since?: string;
  /** 1..100, default 50 */
  limit?: number;
  /** timestamp of the last one seen */
  before?: string;
}

/** UsageResult is one page of runs. */
export interface ToolsUsageResult {
  entries: ToolsUsageEntry[];
  summary: ToolsUsageSummary;
}

/** UsageSummary covers the newest 10,000 matching runs, not only the page. No more are kept per tool. */
export interface ToolsUsageSummary {
  runs: number;
  success: number;
  failure: number;
  timeout: number;
  /** of the newest 1,000 */
  p50Ms: number;
  p95Ms: number;
}

/** ValidateParams is a definition to check before it is saved. */
export interface ToolsValidateParams {
  code: string;
  /** default javascript */
  language?: ToolsLanguage;
  description?: string;
  parameters?: unknown;
  capabilities?: string[];
  sandboxProfile?: ToolsProfile;
  limits?: ToolsLimits;
}

/** Validation is the result of the static checks. Errors prevent a save, warnings do not. It is advice: the sandbox enforces the limits of a tool. */
export interface ToolsValidation {
  /** no errors */
  valid: boolean;
  errors: ToolsProblem[];
  warnings: ToolsProblem[];
  /** eval, Function, constructor, import() */
  detectedDangerousFunctions: string[];
  entry?: ToolsEntry;
  /** if no schema was given and the code shows which parameters it reads */
  suggestedSchema?: unknown;
  definitionHash: string;
}

/** VersionInfo is one version of a tool. */
export interface ToolsVersionInfo {
  version: string;
  definitionHash: string;
  note: string;
  author: string;
  createdAt: string;
  current: boolean;
}

/** VersionsParams requests the history of a tool, newest first. */
export interface ToolsVersionsParams {
  toolId: string;
  /** 1..100, default 50 */
  limit?: number;
  /** createdAt of the last one seen */
  before?: string;
}

/** VersionsResult is one page of the history. Total counts all versions. */
export interface ToolsVersionsResult {
  versions: ToolsVersionInfo[];
  total: number;
}

/** Visibility is who may read a tool. */
export type ToolsVisibility = "private" | "public";

/** Info describes an engine and whether it is available. */
export interface TranscribeInfo {
  id: string;
  name: string;
  /** the audio stays on this device */
  local: boolean;
  streaming: boolean;
  wordTimes: boolean;
  /** if empty, the service decides */
  languages: string[];
  models: string[];
  /** Downloads are models that can be installed, best last. */
  downloads?: TranscribeModelState[];
  available: boolean;
  /** why it is not available, and what to do */
  reason?: string;
}

/** ModelState says how much of a model is on this device. */
export interface TranscribeModelState {
  id: string;
  /** bytes */
  size: number;
  installed: boolean;
  downloading: boolean;
  /** downloaded bytes; a download continues there */
  done: number;
}

/** Word is a word with its position in the recording. */
export interface TranscribeWord {
  w: string;
  startMs: number;
  endMs: number;
  /** 0 to 1; 0 if the engine does not report it */
  confidence?: number;
}

/** Changed is the event trash.changed: items were permanently deleted. Moving an item to the trash or restoring it is published by its own domain. */
export type TrashChanged = Record<string, never>;

/** Count is the number of items of a kind. */
export interface TrashCount {
  kind: string;
  count: number;
}

/** EmptyParams selects what is deleted. */
export interface TrashEmptyParams {
  /** empty: everything */
  kinds?: string[];
}

/** Failure is an item that remained in the trash, and why. */
export interface TrashFailure {
  /** not_found, conflict, limit … */
  reason: string;
  message: string;
  /** tool, wasm, skill, schedule, memory, conversation, document, chat or memo */
  kind: string;
  id: string;
}

/** Item is one item in the trash. */
export interface TrashItem {
  name: string;
  /** its description or the beginning of its text */
  text: string;
  deletedAt: string;
  /** it is deleted permanently soon after */
  purgeAt: string;
  /** who deleted it: window, browser, terminal, token, agent, skill, schedule or program; absent: unknown */
  by?: string;
  /** tool, wasm, skill, schedule, memory, conversation, document, chat or memo */
  kind: string;
  id: string;
}

/** ItemsParams identifies up to 1,000 items in the trash. */
export interface TrashItemsParams {
  items: TrashRef[];
}

/** ListParams filters the trash. */
export interface TrashListParams {
  /** empty: all */
  kinds?: string[];
  /** substring of the name or the text */
  query?: string;
  /** 1..200, default 50 */
  limit?: number;
  offset?: number;
}

/** ListResult is one page, latest first. Total counts all matches, Counts the whole trash. */
export interface TrashListResult {
  items: TrashItem[];
  total: number;
  limit: number;
  offset: number;
  counts: TrashCount[];
}

/** PurgeResult counts what was deleted. */
export interface TrashPurgeResult {
  count: number;
  counts: TrashCount[];
  failed: TrashFailure[];
}

/** Ref identifies an item in the trash. */
export interface TrashRef {
  /** tool, wasm, skill, schedule, memory, conversation, document, chat or memo */
  kind: string;
  id: string;
}

/** RestoreResult lists the restored items. */
export interface TrashRestoreResult {
  restored: TrashRef[];
  failed: TrashFailure[];
}

/** AudioURLParams identify a recording. */
export interface VoiceAudioURLParams {
  recordingId: string;
  /** As is original (default), or denoised: without background noise, as engines hear it with the setting denoise. The stored recording is not changed. */
  as?: string;
}

/** CancelResult contains the token for voice.undo_cancel; empty if nothing was recorded. */
export interface VoiceCancelResult {
  undoToken: string;
}

/** Candidate is a command that is similar to a text. */
export interface VoiceCandidate {
  commandId: string;
  name: string;
  /** 0 to 1 */
  score: number;
  slots: Record<string, unknown>;
  riskTier: string;
  /** why it can't run with this text */
  problem?: string;
}

/** Command is a phrase that starts something when it is said. */
export interface VoiceCommand {
  id: string;
  name: string;
  /** such as: remind me to {what:text} at {when:time} */
  triggerPhrase: string;
  triggerConfidence: number;
  slots: VoiceSlot[];
  /** tool, skill, navigation or system */
  actionType: string;
  /** kind:id of a callable, such as tool:018f… */
  toolId?: string;
  skillId?: string;
  /** a screen */
  navigationTarget?: string;
  /** stop, pause, new_memo, undo or read_last */
  systemAction?: string;
  /** input; "{slot}" in it stands for the value of a slot */
  actionParams: unknown;
  /** the higher one of the user's choice and that of the target */
  riskTier: string;
  enabled: boolean;
  usageCount: number;
  lastUsed?: string;
  /** why the command can't run */
  problem?: string;
  updatedAt: string;
}

/** CommandHeard is published when a recording of the mode command was transcribed, and when a pending command is answered or expires. */
export interface VoiceCommandHeard {
  /** SessionID is the window or browser page in which the command was said or answered; it alone opens NavigationTarget. Without one, every page does. */
  sessionId?: string;
  recordingId?: string;
  /** to be answered with voice.confirm */
  pendingId?: string;
  expiresAt?: string;
  text: string;
  commandId?: string;
  name?: string;
  score: number;
  slots: Record<string, unknown>;
  riskTier?: string;
  /** run, confirm, ambiguous or none */
  decision: string;
  /** started, done, declined, expired or failed */
  status?: string;
  candidates?: VoiceCandidate[];
  navigationTarget?: string;
  systemAction?: string;
  runId?: string;
  error?: string;
}

/** CommandList lists the caller's commands by name. */
export interface VoiceCommandList {
  commands: VoiceCommand[];
  navigationTargets: string[];
  systemActions: string[];
}

/** CommandParams identify a command. */
export interface VoiceCommandParams {
  commandId: string;
}

/** ConfirmParams answer a pending command. CommandID selects one of several candidates. */
export interface VoiceConfirmParams {
  pendingId: string;
  accept: boolean;
  commandId?: string;
}

/** ConfirmResult tells what happened. */
export interface VoiceConfirmResult {
  /** started, done, declined, confirm if the chosen command needs a confirmation, or failed */
  status: string;
  runId?: string;
  error?: string;
}

/** CreateCommandParams describe a new command. */
export interface VoiceCreateCommandParams {
  name: string;
  triggerPhrase: string;
  /** 0.5 to 1; default 0.8 */
  triggerConfidence?: number;
  actionType: string;
  toolId?: string;
  skillId?: string;
  navigationTarget?: string;
  systemAction?: string;
  actionParams?: unknown;
  /** default: that of the target */
  riskTier?: string;
  /** default true */
  enabled?: boolean;
}

/** DevicesResult lists microphones. */
export interface VoiceDevicesResult {
  devices: CaptureDevice[];
  /** id; empty: the default device */
  selected?: string;
  available: boolean;
  /** why no microphone is available */
  reason?: string;
}

/** EditParams change the text of a recording. */
export interface VoiceEditParams {
  recordingId: string;
  text: string;
}

/** EnginesResult lists engines. */
export interface VoiceEnginesResult {
  engines: TranscribeInfo[];
}

/** Hit is a transcript that contains all words. StartMs and EndMs are the times of the first of them; -1 if it occurs only in the title or the tags, or if the engine reported no times. */
export interface VoiceHit {
  recordingId: string;
  memoId?: string;
  title: string;
  snippet: string;
  startMs: number;
  endMs: number;
  matches: AudioSpan[];
  /** larger is better */
  score: number;
  recordedAt: string;
}

/** Job is an entry of the queue. */
export interface VoiceJob {
  id: string;
  recordingId: string;
  memoId?: string;
  title: string;
  task: string;
  engine: string;
  status: string;
  attempts: number;
  maxAttempts: number;
  /** of a pending job */
  nextAttemptAt?: string;
  errorKind?: string;
  error?: string;
  createdAt: string;
  updatedAt: string;
}

/** JobParams identify a job. */
export interface VoiceJobParams {
  jobId: string;
}

/** LevelChanged is published 20 times a second during a recording. */
export interface VoiceLevelChanged {
  recordingId: string;
  peakDb: number;
  rmsDb: number;
  clipped: boolean;
  /** nothing was heard for 3 s */
  quiet: boolean;
  elapsedMs: number;
}

/** ListParams filter memos. */
export interface VoiceListParams {
  /** words of the text, title or tags */
  query?: string;
  /** all of these */
  tags?: string[];
  from?: string;
  to?: string;
  status?: string;
  /** Limit is 1 to 200; default 50. */
  limit?: number;
  offset?: number;
}

/** ListResult is a page of memos, newest first. */
export interface VoiceListResult {
  memos: VoiceMemo[];
  total: number;
  limit: number;
  offset: number;
}

/** MarkVoicemailParams change a message. Omitted fields stay unchanged. */
export interface VoiceMarkVoicemailParams {
  id: string;
  heard?: boolean;
  archived?: boolean;
}

/** MatchResult is what would happen if a text were said. */
export interface VoiceMatchResult {
  best?: VoiceCandidate;
  /** best first, at most 5 */
  candidates: VoiceCandidate[];
  /** run, confirm, ambiguous or none */
  decision: string;
  /** the permission for its target is missing */
  wouldAsk: boolean;
}

/** Memo is a recording with its text. */
export interface VoiceMemo {
  id: string;
  recordingId: string;
  title: string;
  tags: string[];
  /** pending, processing, completed or failed */
  status: string;
  error?: string;
  /** of the current transcript; shortened in lists */
  text: string;
  language?: string;
  format: string;
  /** bytes */
  size: number;
  durationMs?: number;
  /** duration of sound that could not be decoded */
  lostMs?: number;
  /** the sound is stored on this device */
  hasAudio: boolean;
  audioSha256?: string;
  /** retention moved the sound to the trash, where it stays for 30 days; pin the memo to restore it */
  soundDeletedAt?: string;
  /** retention keeps the sound */
  pinned: boolean;
  /** Helix ended unexpectedly during the recording */
  recovered?: boolean;
  recordedAt: string;
  updatedAt: string;
}

/** MemoParams identify a memo. */
export interface VoiceMemoParams {
  memoId: string;
}

/** Microphone tells whether recording is possible. */
export interface VoiceMicrophone {
  available: boolean;
  reason?: string;
  /** the device is in use */
  open: boolean;
}

/** ModelParams identify a model of a local engine. */
export interface VoiceModelParams {
  /** default: whispercpp */
  engine?: string;
  model: string;
}

/** ModelProgress is published while a model is downloaded, at most four times per second, and when that ends. */
export interface VoiceModelProgress {
  engine: string;
  model: string;
  /** bytes */
  done: number;
  /** bytes */
  size: number;
  ended: boolean;
}

/** PartialHeard is published with texts of a recording in progress. A text that is not final is replaced by the next one. They are a preview: when the recording has ended, it is transcribed as a whole. */
export interface VoicePartialHeard {
  recordingId: string;
  text: string;
  isFinal: boolean;
  startMs: number;
  endMs: number;
  /** 1, 2, 3 and so on */
  seq: number;
}

/** ProcessParams describe a recording to transcribe while the caller waits: a stored one, or its bytes or file. */
export interface VoiceProcessParams {
  recordingId?: string;
  /** at most 10 MiB when decoded */
  audioBase64?: string;
  /** a file, or the token of an upload */
  path?: string;
  title?: string;
  /** Mode is transcribe, command (run the command that was said) or both; default transcribe. */
  mode?: string;
  /** store neither the sound nor the text */
  discard?: boolean;
  engine?: string;
  language?: string;
  model?: string;
}

/** ProcessResult is the transcript, or the reason why there is none yet. A stored recording is kept in both cases. */
export interface VoiceProcessResult {
  success: boolean;
  recordingId?: string;
  memoId?: string;
  /** completed, pending or failed */
  status: string;
  transcript: string;
  confidence?: number;
  words: TranscribeWord[];
  engine?: string;
  language?: string;
  durationMs?: number;
  lostMs?: number;
  /** with the mode command or both */
  command?: VoiceCommandHeard;
  error?: string;
  errorKind?: string;
}

/** QueueChanged is published when the queue changes. */
export interface VoiceQueueChanged {
  pending: number;
  processing: number;
  failed: number;
}

/** QueueResult lists the jobs that are not completed, oldest first. */
export interface VoiceQueueResult {
  jobs: VoiceJob[];
  pending: number;
  processing: number;
  failed: number;
}

/** RecordingParams identify a recording. */
export interface VoiceRecordingParams {
  recordingId: string;
}

/** SearchParams select transcripts by their words. */
export interface VoiceSearchParams {
  query: string;
  from?: string;
  to?: string;
  /** all of these */
  tags?: string[];
  /** Limit is 1 to 100; default 20. */
  limit?: number;
  offset?: number;
}

/** SearchResult is a page of hits, best first. */
export interface VoiceSearchResult {
  results: VoiceHit[];
  /** at most 500; of more, only the latest are ranked */
  total: number;
}

/** Session is a spoken conversation: recordings of the mode talk that followed one another. */
export interface VoiceSession {
  id: string;
  /** talk */
  mode: string;
  startedAt: string;
  endedAt?: string;
  turns: VoiceTurn[];
}

/** SessionParams identify a conversation; without an id it is the latest one. */
export interface VoiceSessionParams {
  sessionId?: string;
}

/** Settings control how the caller's recordings are transcribed. */
export interface VoiceSettings {
  /** local or deepgram; only deepgram sends sound to a service */
  provider: string;
  /** model of Deepgram */
  model: string;
  /** BCP 47, such as en-US */
  language: string;
  /** id of an engine */
  localEngine: string;
  /** of the local engine; empty: the best one that is installed */
  localModel: string;
  /** queue: wait for the service; local: use the local engine if the service fails */
  fallback: string;
  /** VADEnabled skips the engine for recordings without speech. */
  vadEnabled: boolean;
  /** TrimSilence leaves out pauses of the sound that an engine gets. */
  trimSilence: boolean;
  /** Denoise removes background noise from the sound that local engines get; with DenoiseForCloud, services too. What is stored is not changed. */
  denoise: boolean;
  denoiseForCloud: boolean;
  /** SaveTranscripts syncs the texts of later transcriptions; without it, they stay on this device. */
  saveTranscripts: boolean;
  /** SaveAudio keeps the sound of recordings on the hub too, encrypted, for the user's other devices. */
  saveAudio: boolean;
  /** what reads aloud: system, or none */
  ttsProvider: string;
  /** WakeWord may be said before a command and is not part of it. WakeWordEnabled is always false: nothing listens for it. */
  wakeWord: string;
  wakeWordEnabled: boolean;
  /** forever, until_transcribed or days:n; applies to transcribed recordings that are not pinned */
  retainAudio: string;
  pushToTalkKey: string;
  /** how long a command waits for a confirmation */
  commandConfirmMs: number;
  /** InputDevice, KeepMicOpen and PreRollMs apply to this device only. */
  inputDevice: string;
  /** the microphone is open between recordings too */
  keepMicOpen: boolean;
  /** sound from before the start of a recording; needs keepMicOpen */
  preRollMs: number;
}

/** SettingsParams change settings. Omitted fields stay unchanged. */
export interface VoiceSettingsParams {
  provider?: string;
  model?: string;
  language?: string;
  localEngine?: string;
  localModel?: string;
  fallback?: string;
  vadEnabled?: boolean;
  trimSilence?: boolean;
  denoise?: boolean;
  denoiseForCloud?: boolean;
  retainAudio?: string;
  pushToTalkKey?: string;
  commandConfirmMs?: number;
  inputDevice?: string;
  keepMicOpen?: boolean;
  preRollMs?: number;
  saveTranscripts?: boolean;
  saveAudio?: boolean;
  ttsProvider?: string;
  wakeWord?: string;
  /** true is refused: no build can listen for it */
  wakeWordEnabled?: boolean;
}

/** Slot is a variable part of a phrase. */
export interface VoiceSlot {
  name: string;
  /** text, number, date, time, duration or enum */
  type: string;
  /** of an enum */
  values?: string[];
}

/** StartParams describe a recording. */
export interface VoiceStartParams {
  /** memo, command or talk; default memo */
  mode?: string;
  /** default: that of the settings */
  deviceId?: string;
  title?: string;
  /** at most 5 */
  tags?: string[];
  /** the recording stops after this time; 0: it continues in a new recording after 4 hours */
  maxMs?: number;
  /** send partial transcripts, if the engine supports it */
  stream?: boolean;
}

/** StartResult identifies the recording. */
export interface VoiceStartResult {
  recordingId: string;
  startedAt: string;
  /** sound from before the call that the recording contains */
  preRollMs: number;
}

/** StateChanged is published when the microphone or the active recording changes. */
export interface VoiceStateChanged {
  state: string;
  recordingId?: string;
  mode?: string;
  notice?: string;
}

/** StatusResult describes the microphone and the queue. */
export interface VoiceStatusResult {
  state: string;
  recordingId?: string;
  mode?: string;
  /** without pauses */
  elapsedMs: number;
  peakDb: number;
  rmsDb: number;
  queue: VoiceQueueChanged;
  engine: string;
  microphone: VoiceMicrophone;
  /** what happened to the recording, such as a changed device */
  notice?: string;
}

/** StopParams identify the recording; without an id it is the active one. */
export interface VoiceStopParams {
  recordingId?: string;
}

/** StopResult is the state of a recording. */
export interface VoiceStopResult {
  recordingId: string;
  /** of a stored recording */
  memoId?: string;
  durationMs: number;
  /** recording, paused, pending, or canceled if it was shorter than 250 ms */
  status: string;
}

/** TestCommandParams contain a text as if it had been said. */
export interface VoiceTestCommandParams {
  text: string;
}

/** ToggleParams select the mode of a recording that starts. */
export interface VoiceToggleParams {
  mode?: string;
}

/** ToggleResult is the new state. */
export interface VoiceToggleResult {
  state: string;
  recordingId: string;
}

/** TranscribeParams request another transcript. */
export interface VoiceTranscribeParams {
  recordingId: string;
  engine?: string;
  language?: string;
  model?: string;
}

/** TranscribeResult identifies the job. */
export interface VoiceTranscribeResult {
  jobId: string;
  status: string;
}

/** Transcribed is published when the transcription status of a recording changes. */
export interface VoiceTranscribed {
  recordingId: string;
  status: string;
}

/** Transcript is the current text of a recording with its words, and its versions, newest first. */
export interface VoiceTranscript {
  recordingId: string;
  text: string;
  words: TranscribeWord[];
  engine: string;
  model?: string;
  language?: string;
  confidence?: number;
  versions: VoiceVersion[];
}

/** Turn is a recording in a conversation. */
export interface VoiceTurn {
  recordingId: string;
  at: string;
  /** of its transcription */
  status?: string;
  /** the current transcript */
  text?: string;
}

/** UndoParams contain the token. */
export interface VoiceUndoParams {
  undoToken: string;
}

/** UpdateCommandParams change a command. Omitted fields stay unchanged. Saving a command accepts the current definition of its target. */
export interface VoiceUpdateCommandParams {
  commandId: string;
  name?: string;
  triggerPhrase?: string;
  triggerConfidence?: number;
  actionType?: string;
  toolId?: string;
  skillId?: string;
  navigationTarget?: string;
  systemAction?: string;
  actionParams?: unknown;
  riskTier?: string;
  enabled?: boolean;
}

/** UpdateParams change a memo. Omitted fields stay unchanged. */
export interface VoiceUpdateParams {
  memoId: string;
  title?: string;
  tags?: string[];
  pinned?: boolean;
}

/** UploadParams describe an existing recording, given as bytes, as a blob of the caller or as a file. */
export interface VoiceUploadParams {
  /** at most 10 MiB when decoded */
  audioBase64?: string;
  blobSha256?: string;
  /** a file, or the token of an upload */
  path?: string;
  title?: string;
  /** who left the recording, which makes it a voicemail */
  sender?: string;
  /** at most 5 */
  tags?: string[];
  /** default: now */
  recordedAt?: string;
  /** default: that of the settings */
  engine?: string;
  /** default: that of the settings */
  language?: string;
  model?: string;
}

/** UploadResult identifies the stored recording. It is transcribed later. */
export interface VoiceUploadResult {
  memoId: string;
  recordingId: string;
  /** pending */
  status: string;
}

/** Version is one transcript of a recording. */
export interface VoiceVersion {
  id: string;
  /** person if a person edited the text */
  engine: string;
  model?: string;
  language?: string;
  text: string;
  current: boolean;
  createdAt: string;
}

/** Waveform is the minimum, maximum and root mean square of the samples in each bucket. Full scale is 127 for Min and Max and 255 for RMS. */
export interface VoiceWaveform {
  buckets: number;
  durationMs: number;
  /** int8, in base64 */
  min: string;
  /** int8, in base64 */
  max: string;
  /** uint8, in base64 */
  rms: string;
  silences: number[][];
}

/** WaveformParams select a part of a recording. */
export interface VoiceWaveformParams {
  recordingId: string;
  fromMs?: number;
  /** 0: the end */
  toMs?: number;
  /** Buckets is 1 to 4000; default 1000. */
  buckets?: number;
}

/** Voicemail is a recording that somebody else left, which is also a memo. */
export interface Voicemail {
  id: string;
  recordingId: string;
  memoId: string;
  sender: string;
  title: string;
  /** shortened */
  text: string;
  /** of the transcription */
  status: string;
  durationMs?: number;
  receivedAt: string;
  isHeard: boolean;
  heardAt?: string;
  archivedAt?: string;
}

/** VoicemailList is a page of voicemail: first what wasn't heard, each part newest first. */
export interface VoicemailList {
  messages: Voicemail[];
  total: number;
  /** of all that isn't archived */
  unheard: number;
}

/** VoicemailParams filter voicemail. Without Archived, archived messages are left out. */
export interface VoicemailParams {
  heard?: boolean;
  archived?: boolean;
  /** Limit is 1 to 200; default 50. */
  limit?: number;
  offset?: number;
}

/** ClearedCache describes what was removed with the cache. */
export interface WasmtoolsClearedCache {
  bytes: number;
  modules: number;
}

/** CreateWasmParams installs a module. It contains the bytes in Wasm or, after skills.upload_wasm, their hash in BlobSHA256. */
export interface WasmtoolsCreateWasmParams {
  /** 1..64 letters, digits, spaces, "_", "-" or "." */
  name: string;
  description?: string;
  /** the module in base64, at most 32 MiB */
  wasm?: string;
  /** of an uploaded module or of one of the user's WASM tools */
  blobSha256?: string;
  /** default 1.0.0 */
  version?: string;
  /** 100..60000, default 5000 */
  timeoutMs?: number;
  /** 64, 128 (default) or 256 */
  memoryMb?: number;
  capabilities?: string[];
  inputSchema?: unknown;
  /** of its author over the definition */
  signature?: LifecycleBundleSignature;
  /** default import; local needs the scope to approve */
  origin?: WasmtoolsWasmOrigin;
}

/** CreateWasmResult contains the new WASM tool and the report. */
export interface WasmtoolsCreateWasmResult {
  skill: WasmtoolsWasmSkill;
  report: WasmtoolsWasmReport;
}

/** DeleteWasmResult contains the time until which skills.restore_wasm can restore the WASM tool. */
export interface WasmtoolsDeleteWasmResult {
  undoUntil: string;
}

/** GetWasmParams identifies a WASM tool. With Report its module is checked again. */
export interface WasmtoolsGetWasmParams {
  skillId: string;
  report?: boolean;
}

/** GetWasmResult contains a WASM tool and, if requested and the module is on this device, the report about it. */
export interface WasmtoolsGetWasmResult {
  skill: WasmtoolsWasmSkill;
  report?: WasmtoolsWasmReport;
}

/** ListWasmParams filters the user's WASM tools. */
export interface WasmtoolsListWasmParams {
  /** substring of name or description; no wildcards */
  query?: string;
  enabled?: boolean;
  /** 1..100, default 50 */
  limit?: number;
  offset?: number;
}

/** ListWasmResult is one page, most recently changed first. Total counts all matches. */
export interface WasmtoolsListWasmResult {
  skills: WasmtoolsWasmSkill[];
  total: number;
  limit: number;
  offset: number;
}

/** SandboxChanged is published when the state of the sandbox changes. */
export interface WasmtoolsSandboxChanged {
  status: WasmtoolsSandboxStatus;
}

/** SandboxProfile is a named set of limits for a run. */
export interface WasmtoolsSandboxProfile {
  /** strict, standard, permissive or wasm */
  name: string;
  /** units of work */
  fuel: number;
  stackBytes: number;
  wallMs: number;
  cpuMs: number;
  memoryBytes: number;
  inputBytes: number;
  outputBytes: number;
  logBytes: number;
  hostCalls: number;
}

/** SandboxStatus is the status of the engine, with the limits of runs. */
export interface WasmtoolsSandboxStatus {
  /** the setting: weakest isolation under which untrusted modules may run */
  minIsolation: string;
  /** of untrusted modules on this computer */
  isolation: string;
  /** why it is not stronger, such as bwrap_missing */
  reasons: string[];
  /** limits by profile, most restrictive first */
  profiles: WasmtoolsSandboxProfile[];
  engine: SandboxEngineInfo;
  ready: boolean;
  /** why it is not ready */
  reason?: string;
  /** thread, or fuel if threads have no clock */
  cpuMeter: string;
  /** how a run gets a new world: cow shares the pages of a prepared one until they are written, copy copies it */
  snapshot: string;
  pool: SandboxPoolStatus;
  tiers: SandboxTierStatus[];
  cache: SandboxCacheStatus;
}

/** SkillID identifies one WASM tool. */
export interface WasmtoolsSkillID {
  skillId: string;
}

/** SkillLimits are the limits of a run. */
export interface WasmtoolsSkillLimits {
  wallMs: number;
  cpuMs: number;
  memoryBytes: number;
  inputBytes: number;
  outputBytes: number;
  logBytes: number;
  hostCalls: number;
}

/** SkillStatus is the status of one run of a WASM tool. */
export type WasmtoolsSkillStatus = "running" | "success" | "failure" | "timeout" | "canceled";

/** UpdateWasmParams changes a WASM tool. BaseVersion, if given, is the version that the edit is based on; if the WASM tool has changed since, the error is a conflict. */
export interface WasmtoolsUpdateWasmParams {
  skillId: string;
  patch: WasmtoolsWasmPatch;
  baseVersion?: string;
}

/** UpdateWasmResult contains the changed WASM tool, the report if its definition changed, and the grants that the change suspended until the new definition is approved. */
export interface WasmtoolsUpdateWasmResult {
  skill: WasmtoolsWasmSkill;
  report?: WasmtoolsWasmReport;
  suspendedGrants: string[];
}

/** UploadWasmParams contains a part of a module that is too large for one call. The first part has no UploadID; Done marks the last. */
export interface WasmtoolsUploadWasmParams {
  uploadId?: string;
  /** position of Data: the size received so far */
  offset?: number;
  /** base64; up to 8 MiB per part */
  data: string;
  done?: boolean;
}

/** UploadWasmResult is the size received so far and, with the last part, the hash of the blob. */
export interface WasmtoolsUploadWasmResult {
  uploadId: string;
  size: number;
  /** for skills.validate_wasm and skills.create_wasm, within an hour */
  blobSha256?: string;
}

/** ValidateWasmParams contains a module to check, and the capabilities to request with it. */
export interface WasmtoolsValidateWasmParams {
  wasm?: string;
  blobSha256?: string;
  capabilities?: string[];
  inputSchema?: unknown;
  memoryMb?: number;
}

/** WasmABI is how a module is called. */
export type WasmtoolsWasmABI = "execute" | "command";

/** WasmChanged is published when a WASM tool of the user changes. Kind is created, updated, enabled, disabled, deleted, restored, signed or used. */
export interface WasmtoolsWasmChanged {
  skillId: string;
  kind: string;
}

/** WasmOrigin is how a WASM tool was added to this installation. */
export type WasmtoolsWasmOrigin = "local" | "import" | "hub";

/** WasmPatch contains the fields to change; an absent field is left unchanged. New bytes increment the version unless the patch sets one. New bytes, capabilities, input schema or description suspend the grants of the previous definition. */
export interface WasmtoolsWasmPatch {
  name?: string;
  description?: string;
  wasm?: string;
  blobSha256?: string;
  version?: string;
  timeoutMs?: number;
  memoryMb?: number;
  capabilities?: string[];
  inputSchema?: unknown;
  signature?: LifecycleBundleSignature;
  isEnabled?: boolean;
}

/** WasmProblem is one finding about a module or its description. If applicable, Offset is the location in the module's bytes, and Feature the rejected feature of WebAssembly. */
export interface WasmtoolsWasmProblem {
  /** stable: compile, missing_export, capability, schema, signature, … */
  code: string;
  /** wasm, capabilities, inputSchema, … */
  field: string;
  message: string;
  offset?: number;
  feature?: string;
}

/** WasmReport is the result of checking a module. Errors prevent the installation, warnings do not. */
export interface WasmtoolsWasmReport {
  /** no errors */
  valid: boolean;
  errors: WasmtoolsWasmProblem[];
  warnings: WasmtoolsWasmProblem[];
  /** absent if the bytes are not a module */
  info?: SandboxModuleInfo;
  /** requested, normalized */
  capabilities: string[];
  /** where it will run: t0 or t1 */
  tier: string;
  /** that a run will have */
  isolation: string;
  /** why the isolation is weaker than possible */
  reasons: string[];
  /** why it would not run on this computer */
  refused?: string;
  signature: LifecycleSignatureInfo;
  /** who signed it, or "unsigned" */
  signer: string;
}

/** WasmSkill is a WebAssembly module that was installed as a WASM tool. Its bytes are stored once, in the blob store under their content address. */
export interface WasmtoolsWasmSkill {
  id: string;
  /** unique among the user's WASM tools, ignoring case */
  name: string;
  description: string;
  /** content address: sha256: and 64 hex digits */
  wasmBytecode: string;
  /** bytes */
  wasmSize: number;
  abi: WasmtoolsWasmABI;
  /** semantic version; incremented with new bytecode */
  version: string;
  /** time limit of a run, 100..60000 */
  timeoutMs: number;
  /** memory of a run: 64, 128 or 256 MiB */
  memoryMb: number;
  capabilities: string[];
  /** JSON Schema of the input; {} accepts anything */
  inputSchema: unknown;
  /** 64 hex digits; grants are bound to it */
  definitionHash: string;
  signature: LifecycleSignatureInfo;
  /** who signed it, or "unsigned" */
  signer: string;
  origin: WasmtoolsWasmOrigin;
  isEnabled: boolean;
  /** its definition changed and waits for approval */
  suspended: boolean;
  /** the module's bytes are on this device */
  downloaded: boolean;
  /** where it will run: t0 or t1 */
  tier: string;
  /** that a run will have: inprocess, process, process+landlock or process+landlock+bwrap */
  isolation: string;
  /** why the isolation is weaker than possible, such as bwrap_missing */
  reasons: string[];
  runs: number;
  /** of the last run */
  lastStatus?: WasmtoolsSkillStatus;
  lastRun?: string;
  createdAt: string;
  updatedAt: string;
}

/** WasmSkillResult contains one WASM tool. */
export interface WasmtoolsWasmSkillResult {
  skill: WasmtoolsWasmSkill;
}

/** Every method: what it takes and what it gives. */
export interface Methods {
  /** Copies a document to the managed folder. It stays inactive until it is enabled. */
  "agent.add_skill": { params: AgentAddSkillParams; result: AgentSkillDocument };
  /** Lists the limits in effect and the amounts spent against them. */
  "agent.budgets": { params: Record<string, never>; result: AgentBudgetsResult };
  /** Lists model calls, newest first, or sums them by a key. */
  "agent.ledger": { params: AgentLedgerParams; result: AgentLedgerResult };
  /** Returns an agent with its texts. */
  "agent.persona": { params: AgentPersonaParams; result: AgentPersonaResult };
  /** Lists the agents. */
  "agent.personas": { params: Record<string, never>; result: AgentPersonasResult };
  /** Moves a document out of the managed folder, or back. Only a person may call it. Documents in other folders are the person's own files and are never moved. */
  "agent.remove_skill": { params: AgentRemoveSkillParams; result: AgentSkillsResult };
  /** Folds the log of a session again and compares the resulting requests with those that were sent. */
  "agent.replay": { params: AgentReplayParams; result: AgentReplayResult };
  /** Sets a limit. Without an amount it removes the limit, and the default limit per day applies again. */
  "agent.set_budget": { params: AgentSetBudgetParams; result: AgentBudgetsResult };
  /** Writes the files of an agent. Only a person may call it: agents must not change their own instructions. */
  "agent.set_persona": { params: AgentSetPersonaParams; result: AgentPersonaResult };
  /** Allows agents to use a document, or forbids it. Enabling a document accepts its current text. */
  "agent.set_skill": { params: AgentSetSkillParams; result: AgentSkillsResult };
  /** Returns a document with its current text and the text that was allowed. */
  "agent.skill": { params: AgentSkillDocumentParams; result: AgentSkillDocumentResult };
  /** Lists SKILL.md documents with their problems. */
  "agent.skills": { params: AgentSkillsParams; result: AgentSkillsResult };
  /** Reports whether the agent can work, and its current activity. */
  "agent.status": { params: Record<string, never>; result: AgentStatusResult };
  /** Creates a disabled skill from the calls in turns of a chat, and checks it with a dry run against the recorded results. */
  "agent.to_skill": { params: AgentToSkillParams; result: AgentToSkillResult };
  /** Lists what the model of a session may call, and the tokens that each declaration takes. */
  "agent.tools": { params: AgentToolsParams; result: AgentToolsResult };
  /** Lists the subagents of a session and their states. */
  "agent.tree": { params: AgentSessionParams; result: AgentTreeResult };
  /** Shows the window and opens the link in the arguments. */
  "app.activate": { params: GatewayActivateParams; result: Record<string, never> };
  /** Notes that a window has the focus. A window calls it when it gets the focus, and each minute while it has it. */
  "app.focused": { params: Record<string, never>; result: Record<string, never> };
  /** Pauses schedules, embeddings, automatic backups and pruning, or resumes them. Running work, and work that the person starts, continues. A pause survives a restart. */
  "app.pause_background": { params: BackendPauseBackgroundParams; result: PauseState };
  /** Pins a skill to the menu of the tray icon, moves it there, or unpins it. At most 10 skills can be pinned; each device has its own. */
  "app.pin_skill": { params: SkillsPinSkillParams; result: SkillsPinnedResult };
  /** Makes Helix start with the computer, hidden, or stops that. It returns the state as the system has it afterwards. */
  "app.set_autostart": { params: BackendSetAutostartParams; result: BackendAppState };
  /** Sets the keys that start and stop a voice recording anywhere on the desktop. If they cannot be registered, the state says why, and the setting keeps them for another desktop. */
  "app.set_hotkey": { params: BackendSetHotkeyParams; result: BackendHotkeyState };
  /** Returns the state of the window program. Without one, nothing is visible, and there is no tray, autostart or hotkey. */
  "app.state": { params: Record<string, never>; result: BackendAppState };
  /** Answers a question. The first answer wins. A later answer, an answer to an expired question, and an answer with another definition hash than the question fail with a Conflict with a Stale detail, and nothing changes. It requires the scope approve. */
  "approvals.decide": { params: PermissionAnswerParams; result: PermissionAnswerResult };
  /** Returns a question with the change to the definition, previous decisions about the subject and what a run of it would need. */
  "approvals.get": { params: PermissionGetApprovalParams; result: PermissionGetApprovalResult };
  /** Lists questions, newest first. */
  "approvals.list": { params: PermissionListApprovalsParams; result: PermissionListApprovalsResult };
  /** Acknowledges an alarm, so that verification no longer reports it. A current problem with the head file is first recorded as an alarm, and a new head is written. */
  "audit.accept": { params: AuditAcceptParams; result: AuditAcceptResult };
  /** Returns this device's public key. With this key, obtained independently of the exported log, an export can be verified without Helix's data. */
  "audit.device_key": { params: Record<string, never>; result: AuditDeviceKeyResult };
  /** Removes the details of entries, of one subject or up to a time. The entries remain and the chain can still be verified. Erasing is itself recorded. */
  "audit.erase_details": { params: AuditEraseParams; result: AuditEraseResult };
  /** Writes the log to a new file of mode 0600, which Verify can check without Helix. It first signs all unsigned entries, and then the export as a whole, so it needs the device key. The log is verified too, and any problem is recorded in the export. Only the caller's entries are included; those of other users appear as links without content. */
  "audit.export": { params: AuditExportParams; result: AuditExportResult };
  /** Returns one entry with its position in the chain. */
  "audit.get": { params: AuditGetParams; result: AuditGetResult };
  /** Lists entries, newest first. It searches the log in windows, so that any filter returns in limited time; Next then continues the search. */
  "audit.list": { params: AuditListParams; result: AuditListResult };
  /** Verifies the log of this device, all entries of all users and devices, with its keys and its newest signed head. The report counts only the caller's entries. */
  "audit.verify": { params: AuditVerifyParams; result: AuditReport };
  /** Signs a URL for a blob that one of the user's rows refers to. It is valid for 5 minutes, and at most until Helix stops. */
  "blobs.url": { params: GatewayBlobParams; result: GatewayBlobURL };
  /** Calls anything that the user can call, by its id or its name, and returns when it has ended. */
  "callables.call": { params: CallableCallParams; result: CallableCallResult };
  /** Lists what the user can call: tools, WASM tools, skills and built-ins. */
  "callables.list": { params: CallableListParams; result: CallableListResult };
  /** Downloads the public catalog. It rejects a catalog that is invalid or has lost more than three tenths of its models, and keeps the previous one. */
  "catalog.fetch": { params: Record<string, never>; result: ProvidersFetchResult };
  /** Returns the active catalog: its providers, the models of one, or one model. */
  "catalog.show": { params: ProvidersShowParams; result: ProvidersShowResult };
  /** Compares the active catalog with the one embedded in this version. */
  "catalog.verify": { params: Record<string, never>; result: ProvidersVerifyResult };
  /** Adds a channel and starts it. Nobody is allowed to use it yet. */
  "channels.add": { params: ChannelsAddParams; result: ChannelsAddResult };
  /** Adds a sender to the allow-list, or changes the entry. */
  "channels.allow": { params: ChannelsAllowParams; result: ChannelsSendersResult };
  /** Removes a sender from the allow-list. */
  "channels.disallow": { params: ChannelsSenderParams; result: ChannelsSendersResult };
  /** Gives up a message that was not sent, or not handed to the agent, yet. */
  "channels.drop": { params: ChannelsMessageParams; result: ChannelsMessageResult };
  /** Returns a channel. */
  "channels.get": { params: ChannelsIDParams; result: ChannelsChannel };
  /** Lists the caller's channels. */
  "channels.list": { params: Record<string, never>; result: ChannelsListResult };
  /** Returns a new pairing code of a channel; an earlier one is no longer valid. */
  "channels.pair": { params: ChannelsIDParams; result: ChannelsPairResult };
  /** Lists messages that were not answered or sent yet, or those in a state. */
  "channels.queue": { params: ChannelsQueueParams; result: ChannelsQueueResult };
  /** Lists what was refused. */
  "channels.rejected": { params: ChannelsRejectedParams; result: ChannelsRejectedResult };
  /** Stops a channel. Its allow-list, queues and secret are deleted some minutes later, when the removal can no longer be undone. Chats stay. */
  "channels.remove": { params: ChannelsIDParams; result: ChannelsRemoveResult };
  /** Sends a message that failed, or is waiting, now. A received message can be handed to the agent again if it never reached it. */
  "channels.retry": { params: ChannelsMessageParams; result: ChannelsMessageResult };
  /** Returns where notifications go. */
  "channels.routes": { params: Record<string, never>; result: ChannelsRoutesResult };
  /** Queues a message. Its context must be one that an allowed sender has written from or may write in. */
  "channels.send": { params: ChannelsSendParams; result: ChannelsSendResult };
  /** Lists who is allowed to use a channel. */
  "channels.senders": { params: ChannelsIDParams; result: ChannelsSendersResult };
  /** Lists the conversations of a channel with their chats. */
  "channels.sessions": { params: ChannelsIDParams; result: ChannelsSessionsResult };
  /** Switches a channel on or off. What waits in its queues is kept. */
  "channels.set_enabled": { params: ChannelsEnabledParams; result: ChannelsChannel };
  /** Sets where the notifications of a topic go. A channel's context must be one that somebody on its allow-list uses. */
  "channels.set_route": { params: ChannelsRoute; result: ChannelsRoutesResult };
  /** Checks a channel step by step: that it belongs to this device, its settings, that its service answers, and that somebody is allowed to use it. It works while the channel is off, and sends nothing to a person. */
  "channels.test": { params: ChannelsIDParams; result: ChannelsTestResult };
  /** Makes the next message of a conversation start another chat. */
  "channels.unbind": { params: ChannelsContextParams; result: ChannelsSessionsResult };
  /** Brings a removed channel back as it was. */
  "channels.undo": { params: ChannelsUndoParams; result: ChannelsChannel };
  /** Changes a channel. */
  "channels.update": { params: ChannelsUpdateParams; result: ChannelsAddResult };
  /** Removes a chat from the list. */
  "chat.archive": { params: AgentSessionParams; result: AgentSessionResult };
  /** Stores a file for a message to be sent later. A file that is not sent is dropped after a week. */
  "chat.attach": { params: AgentAttachParams; result: AgentAttachResult };
  /** Ends a turn; if none is named, the active one. Its effects and its messages so far are kept. */
  "chat.cancel": { params: AgentTurnParams; result: AgentStateResult };
  /** Another name of chat.cancel. Ends a turn; if none is named, the active one. Its effects and its messages so far are kept. */
  "chat.cancel_active_turn": { params: AgentTurnParams; result: AgentStateResult };
  /** Ends every turn of the caller. */
  "chat.cancel_all": { params: Record<string, never>; result: AgentCountResult };
  /** Another name of chat.cancel_all. Ends every turn of the caller. */
  "chat.cancel_all_active_turns": { params: Record<string, never>; result: AgentCountResult };
  /** Reports what the next request of a chat contains and how many tokens it takes. */
  "chat.context": { params: AgentSessionParams; result: AgentContextResult };
  /** Returns the cost of a chat, broken down by its causes. */
  "chat.cost": { params: AgentSessionParams; result: AgentCostResult };
  /** Creates a new chat. */
  "chat.create": { params: AgentCreateParams; result: AgentSessionResult };
  /** Another name of chat.create. Creates a new chat. */
  "chat.create_session": { params: AgentCreateParams; result: AgentSessionResult };
  /** Moves a chat to the trash. Its turns are canceled, including the waiting ones. */
  "chat.delete": { params: AgentSessionParams; result: AgentSessionResult };
  /** Reads the log of a session. */
  "chat.events": { params: AgentEventsParams; result: AgentEventsResult };
  /** Is chat.export; its file can then be downloaded. */
  "chat.export": { params: AgentExportParams; result: AgentExportResult };
  /** Copies a chat up to the end of a turn. The copy is independent of the original. Queued inputs and costs are not copied. */
  "chat.fork": { params: AgentForkParams; result: AgentSessionResult };
  /** Returns a chat and its current activity. */
  "chat.get": { params: AgentSessionParams; result: AgentGetResult };
  /** Another name of agent.status. Reports whether the agent can work, and its current activity. */
  "chat.health_check": { params: Record<string, never>; result: AgentStatusResult };
  /** Is chat.import. It creates a chat from an export in JSON lines, completely or not at all. The chat gets new ids and has no permissions; its texts are untrusted. */
  "chat.import": { params: AgentImportParams; result: AgentSessionResult };
  /** Lists the chats of the caller, pinned ones first, then by the newest message. */
  "chat.list": { params: AgentListParams; result: AgentListResult };
  /** Another name of chat.list. Lists the chats of the caller, pinned ones first, then by the newest message. */
  "chat.list_sessions": { params: AgentListParams; result: AgentListResult };
  /** Returns a page of the transcript, in order. */
  "chat.messages": { params: AgentMessagesParams; result: AgentMessagesResult };
  /** Moves a chat to the top of the list, or back. */
  "chat.pin": { params: AgentPinParams; result: AgentSessionResult };
  /** Sets the title of a chat. */
  "chat.rename": { params: AgentRenameParams; result: AgentSessionResult };
  /** Returns a chat from the trash. */
  "chat.restore": { params: AgentSessionParams; result: AgentSessionResult };
  /** Answers the input of a turn again. The old answer stays in the log and is hidden. A retry that has not ended is returned instead of starting another. */
  "chat.retry": { params: AgentRetryParams; result: AgentSendResult };
  /** Finds words, or their prefixes, in the messages of the caller's chats, newest first: the order of the index, which can stop at the limit, while a rank has to be computed for every match. */
  "chat.search": { params: AgentSearchParams; result: AgentSearchResult };
  /** Adds an input to a chat and returns at once. The turn runs in the background. */
  "chat.send": { params: AgentSendParams; result: AgentSendResult };
  /** Another name of chat.send. Adds an input to a chat and returns at once. The turn runs in the background. */
  "chat.send_turn": { params: AgentSendParams; result: AgentSendResult };
  /** Sets what the tools of a chat may do without asking. */
  "chat.set_mode": { params: AgentModeParams; result: AgentSessionResult };
  /** Sets how inputs that arrive during a turn are handled. */
  "chat.set_queue_mode": { params: AgentQueueModeParams; result: AgentSessionResult };
  /** Returns a chat to the list. */
  "chat.unarchive": { params: AgentSessionParams; result: AgentSessionResult };
  /** Returns when a turn has ended or waits for a person, or after waitMs. */
  "chat.wait": { params: AgentWaitParams; result: AgentTurnResult };
  /** Returns the current settings and where each came from. */
  "config.get": { params: ConfigGetParams; result: ConfigGetResult };
  /** Returns a JSON Schema of all settings: an object with one property per key. Besides type, default, minimum, maximum, enum and description, a property has x-unit, x-env and x-restart. */
  "config.schema": { params: Record<string, never>; result: Record<string, unknown> };
  /** Writes settings to config.toml, all or none. An invalid value or an unknown key is Invalid; a key that is overridden by a variable or flag is Conflict. */
  "config.set": { params: ConfigSetParams; result: ConfigSetResult };
  /** Opens the session: it must be the first call on a WebSocket, and is optional if the pipe is already authenticated. The granted scopes are the requested ones that the token has. */
  "connect": { params: GatewayConnectParams; result: GatewayHello };
  /** Stores a tool, or another definition of the tool with that name, and asks for its approval. The image must be on this computer; the tool stays with exactly that image. */
  "container.add": { params: ContainertoolsAddParams; result: ContainertoolsTool };
  /** Allows a tool to run. A definition that changed since it was shown is a Conflict. If another definition of the tool was approved before, a copy of what it has stored is kept for 7 days; see RestoreState. */
  "container.approve": { params: ContainertoolsApproveParams; result: ContainertoolsTool };
  /** Removes what a tool stored between its runs. While it runs, that is a Conflict. */
  "container.clear_state": { params: ContainertoolsToolParams; result: Record<string, never> };
  /** Makes an image of a folder or a static program without network, or loads an image archive. */
  "container.image_import": { params: ContainertoolsImportImageParams; result: ContainerImage };
  /** Starts to get an image from its registry. It is the only way in which an image is fetched: runs never do. A pull of the same reference that is in progress is returned instead. */
  "container.image_pull": { params: ContainertoolsPullParams; result: ContainertoolsPullResult };
  /** Removes an image. One that a tool uses is a Conflict. */
  "container.image_remove": { params: ContainertoolsImageParams; result: ContainertoolsRemovedResult };
  /** Lists the images on this computer. */
  "container.images": { params: Record<string, never>; result: ContainertoolsImagesResult };
  /** Ends a run of the user. */
  "container.kill": { params: ContainertoolsRunIDParams; result: ContainertoolsKillResult };
  /** Ends a pull. What the engine has of the image until then is up to the engine. */
  "container.pull_cancel": { params: ContainertoolsJobParams; result: ContainertoolsCancelResult };
  /** Lists the caller's pulls since Helix was started, newest first. Only the last ones that have ended are kept. */
  "container.pulls": { params: Record<string, never>; result: ContainertoolsPullsResult };
  /** Removes containers that an earlier process of this data folder left over. Others are never touched. */
  "container.reap": { params: Record<string, never>; result: ContainertoolsRemovedResult };
  /** Looks for a container engine again. */
  "container.recheck": { params: Record<string, never>; result: ContainerStatus };
  /** Brings back what a tool had stored when its definition was last changed. That copy is kept for 7 days. What was stored since is lost. */
  "container.restore_state": { params: ContainertoolsToolParams; result: Record<string, never> };
  /** Ends a tool for ever: its runs end, its permissions are removed and its name is free. The history of its runs and its image stay. */
  "container.revoke": { params: ContainertoolsToolParams; result: ContainertoolsRevokeResult };
  /** Runs a tool and returns when its container has been removed. A program that fails is a result without success; a run that could not start is an error. */
  "container.run": { params: ContainertoolsRunParams; result: ContainertoolsRunResult };
  /** Runs a command in an image once, without making a tool of it. Only a person can: what a tool may do is approved, but this command is approved by whoever types it. The activity log has the whole command. */
  "container.run_image": { params: ContainertoolsRunImageParams; result: ContainertoolsRunResult };
  /** Switches an approved tool on or off. Switching it off ends its runs. */
  "container.set_enabled": { params: ContainertoolsEnableParams; result: ContainertoolsTool };
  /** Returns what is available on this computer, without looking again. */
  "container.status": { params: Record<string, never>; result: ContainerStatus };
  /** Lists the container tools that are not revoked. */
  "container.tools": { params: Record<string, never>; result: ContainertoolsToolsResult };
  /** Removes a volume whose tool no longer exists, with its files. */
  "container.volume_remove": { params: ContainertoolsVolumeParams; result: ContainertoolsRemovedResult };
  /** Lists the volumes of the caller's tools, and those whose tool no longer exists. These are removed 24 hours after they were first seen, and copies that RestoreState brings back 7 days after that. */
  "container.volumes": { params: Record<string, never>; result: ContainertoolsVolumesResult };
  /** Another name of schedules.create. Creates a schedule. */
  "cron.add": { params: SchedulerCreateParams; result: SchedulerSchedule };
  /** Another name of schedules.create. Creates a schedule. */
  "cron.create": { params: SchedulerCreateParams; result: SchedulerSchedule };
  /** Another name of schedules.list. Lists the user's schedules. */
  "cron.list": { params: SchedulerListParams; result: SchedulerListResult };
  /** Another name of schedules.delete. Deletes a schedule. It can be restored for 30 days. Active runs continue. */
  "cron.remove": { params: SchedulerScheduleParams; result: SchedulerDeleteResult };
  /** Another name of schedules.run_now. Starts a schedule's target now, even if the schedule is paused. The next due time is not affected. */
  "cron.run": { params: SchedulerRunNowParams; result: SchedulerRunNowResult };
  /** Another name of schedules.runs. Lists runs, newest first. */
  "cron.runs": { params: SchedulerRunsParams; result: SchedulerRunsResult };
  /** Another name of schedules.status. Returns the status of the scheduler. */
  "cron.status": { params: Record<string, never>; result: SchedulerStatusResult };
  /** Another name of schedules.update. Changes a schedule. It never fires a time before the edit. If the edit changes the times, those that were due and not claimed yet are recorded as missed. */
  "cron.update": { params: SchedulerUpdateParams; result: SchedulerSchedule };
  /** Another name of discovery.request. Adds a request for a capability to the queue; one for the same is not added twice. Nothing is imported until a person accepts a candidate. */
  "discover_tool": { params: DiscoveryRequestParams; result: DiscoveryRequestResult };
  /** Imports the candidate that a person chose. Like every import, it gives no permission. */
  "discovery.accept": { params: DiscoveryAcceptParams; result: DiscoveryAcceptResult };
  /** Allows the tool to run with the hosts of its definition. A definition that changed since it was shown is a Conflict. A tool without samples can't be verified and is active at once; one with samples becomes active when those that change nothing have passed, which is tried now. A tool that is disabled, here or on another device, stays so. */
  "discovery.approve": { params: DiscoveryApproveParams; result: DiscoveryStatusResult };
  /** Ends a run. A run that has ended is NotFound. */
  "discovery.cancel": { params: DiscoveryCancelParams; result: Record<string, never> };
  /** Another name of discovery.reject. Ends a request without a tool. */
  "discovery.cancel_request": { params: DiscoveryRejectParams; result: DiscoveryRequestResult };
  /** Adds a catalog and reads it. Its entries are only found: importing one needs an approval like any import. A list on the web needs the setting discovery.online. */
  "discovery.catalog_add": { params: DiscoveryCatalogAddParams; result: DiscoveryCatalogsResult };
  /** Reads a catalog again. If that fails, its entries stay and the catalog has the error. */
  "discovery.catalog_refresh": { params: DiscoveryCatalogParams; result: DiscoveryCatalogsResult };
  /** Removes a catalog. Tools that were imported from it stay. */
  "discovery.catalog_remove": { params: DiscoveryCatalogParams; result: DiscoveryCatalogsResult };
  /** Lists the catalogs of the user. */
  "discovery.catalogs": { params: Record<string, never>; result: DiscoveryCatalogsResult };
  /** Removes the credential of a scheme. Tokens of OAuth are revoked at the server that issued them, if it offers that. */
  "discovery.clear_auth": { params: DiscoveryClearAuthParams; result: DiscoveryAuthResult };
  /** Returns one run with its input and output. */
  "discovery.execution": { params: DiscoveryCancelParams; result: DiscoveryExecution };
  /** Returns the log of runs, without inputs and outputs. */
  "discovery.executions": { params: DiscoveryExecutionsParams; result: DiscoveryExecutionsResult };
  /** Returns a tool with its definition and which of its credentials are set up. */
  "discovery.get": { params: DiscoveryToolParams; result: DiscoveryToolResult };
  /** Another name of discovery.import_manifest. Imports a tool from a manifest in YAML or JSON that names an API description. It accepts three shapes and stores one. Only the execution type http can be imported. */
  "discovery.import": { params: DiscoveryImportManifestParams; result: DiscoveryImportResult };
  /** Imports a tool from a manifest in YAML or JSON that names an API description. It accepts three shapes and stores one. Only the execution type http can be imported. */
  "discovery.import_manifest": { params: DiscoveryImportManifestParams; result: DiscoveryImportResult };
  /** Makes a tool of operations of an inspected description. It waits for approval: an import gives no permission. The same operations of the same description change nothing. */
  "discovery.import_openapi": { params: DiscoveryImportOpenAPIParams; result: DiscoveryImportResult };
  /** Reads an API description and returns what it contains. It changes nothing but keeps the description for a day, so that operations can be listed and imported. */
  "discovery.inspect_openapi": { params: DiscoverySource; result: DiscoveryInspection };
  /** Installs an approved tool on this device: it tries the samples that change nothing, and the tool becomes active if they pass. A tool that is installed already is tried again. */
  "discovery.install": { params: DiscoveryToolParams; result: DiscoveryJobResult };
  /** Returns the user's tools from API descriptions. */
  "discovery.list": { params: DiscoveryListParams; result: DiscoveryListResult };
  /** Prepares a sign-in with OAuth and PKCE, and returns the address that the user opens. Its end is announced by discovery.auth_changed. */
  "discovery.oauth_start": { params: DiscoveryOAuthStartParams; result: OauthFlow };
  /** Lists the operations of an inspected description, or of a tool. */
  "discovery.operations": { params: DiscoveryOperationsParams; result: DiscoveryOperationsResult };
  /** Lists the requests for capabilities. */
  "discovery.queue": { params: DiscoveryQueueParams; result: DiscoveryQueueResult };
  /** Returns a request with its candidates. */
  "discovery.queue_get": { params: DiscoveryRequestIDParams; result: DiscoveryRequest };
  /** Ends a request without a tool. */
  "discovery.reject": { params: DiscoveryRejectParams; result: DiscoveryRequestResult };
  /** Adds a request for a capability to the queue; one for the same is not added twice. Nothing is imported until a person accepts a candidate. */
  "discovery.request": { params: DiscoveryRequestParams; result: DiscoveryRequestResult };
  /** Ends a tool for ever: its runs end, its permissions and credentials are removed, and its name is free. The history of its runs stays. */
  "discovery.revoke": { params: DiscoveryRevokeParams; result: DiscoveryRevokeResult };
  /** Runs one operation of a tool and returns when it has ended. A status of 400 or above is a result without success. With dryRun it builds the request and sends nothing. */
  "discovery.run": { params: DiscoveryRunParams; result: DiscoveryRunResult };
  /** Finds tools and APIs by words: in the directory that comes with Helix, in the user's catalogs and among the user's tools, and by meaning once all of them are embedded. It uses no network. The same words give the same list. */
  "discovery.search": { params: DiscoverySearchParams; result: DiscoverySearchResult };
  /** Stores the credential of a scheme. It is encrypted with the key in the keyring, sent only to the hosts of the tool, and never returned. */
  "discovery.set_auth": { params: DiscoveryAuthParams; result: DiscoveryAuthResult };
  /** Switches an approved tool on or off. Switching it off ends its runs. */
  "discovery.set_enabled": { params: DiscoveryEnableParams; result: DiscoveryStatusResult };
  /** Replaces the definition of a tool and keeps its ID, name, credentials and history. Of an API description it takes the operations that the tool has. It must be approved again, and until then doesn't run. The same definition changes nothing. */
  "discovery.upgrade": { params: DiscoveryUpgradeParams; result: DiscoveryUpgradeResult };
  /** Tries the samples of a tool under its permissions and limits. If one fails, the tool can't run on this device until they pass. A sample that changes something is tried only with sideEffects. */
  "discovery.verify": { params: DiscoveryVerifyParams; result: DiscoveryJobResult };
  /** Returns the scenarios included in the program. */
  "eval.list": { params: Record<string, never>; result: EvalListResult };
  /** Returns the results so far, and how they differ from earlier ones. */
  "eval.result": { params: EvalResultParams; result: EvalResult };
  /** Starts an evaluation. */
  "eval.run": { params: EvalRunParams; result: EvalRunResult };
  /** Subscribes to topics, sends every stored event after afterSeq, in order, and then continues with live events. The replayed events are sent before the response. If some events are no longer stored, or the epoch has changed, nothing is replayed and gap is true; live events follow nevertheless. */
  "events.resume": { params: GatewayResumeParams; result: GatewayResumeResult };
  /** Adds topics to this session. Events arrive as notifications in the order of their seq. A session starts with no topics. */
  "events.subscribe": { params: GatewayTopicsParams; result: GatewayEventsState };
  /** Removes topics exactly as they were subscribed; unknown ones are ignored. */
  "events.unsubscribe": { params: GatewayTopicsParams; result: GatewayEventsState };
  /** Another name of services.list. Returns the current state of each service of this build. */
  "get_rust_exe_status": { params: Record<string, never>; result: GatewayServiceList };
  /** Returns the recovery code, which opens the sealed values when the keyring is lost. It is Unavailable while locked. */
  "keys.export_recovery": { params: Record<string, never>; result: StorageRecoveryResult };
  /** Unlocks with a recovery code. If the keyring and the key file are empty, the key is stored there; if they hold another root key, for example after a backup of another computer was restored, the data keys are wrapped with that one. A mistyped code is Invalid, with a message that says where; a code of other data is Denied. */
  "keys.import_recovery": { params: StorageImportRecoveryParams; result: StorageKeysStatus };
  /** Moves a root key from its file to the keyring. If the keyring refuses it, the call is Unavailable and changes nothing. */
  "keys.move_to_keyring": { params: Record<string, never>; result: StorageKeysStatus };
  /** Retires the data key and creates a new one. Rows are encrypted with it in the background. */
  "keys.rotate": { params: Record<string, never>; result: StorageRotateResult };
  /** Returns where the root key is stored and which data keys exist. */
  "keys.status": { params: Record<string, never>; result: StorageKeysStatus };
  /** Reads the keyring again, for example after the person unlocked it. It is Unavailable if no key found now unlocks the data. */
  "keys.unlock": { params: Record<string, never>; result: StorageKeysStatus };
  /** Adds an MCP server. A person who may answer approvals thereby approves its command or URL; for others a question waits in Approvals. Its tools still need approval. */
  "mcp.add": { params: McpAddParams; result: McpSaveResult };
  /** Approves what an MCP server runs or connects to, and some of its tools. Calls of these tools are allowed until a definition changes or the permission is revoked. If the entry or the list is no longer what was shown, the error is Conflict and nothing is approved. */
  "mcp.approve_server": { params: McpApproveParams; result: McpApproveResult };
  /** Removes the tokens of a server and revokes them at its authorization server. */
  "mcp.auth_clear": { params: McpNameParams; result: McpAuthClearResult };
  /** Prepares a sign-in at an MCP server with OAuth and returns the address that the user opens. Its end is announced by mcp.auth_changed. */
  "mcp.auth_start": { params: McpAuthStartParams; result: OauthFlow };
  /** Calls a tool of an MCP server, which is started if necessary. A call that was refused before it started is an error. */
  "mcp.call": { params: McpCallParams; result: McpCallResult };
  /** Makes a call for another MCP program. It reaches only what is exposed, as it was exposed. It does not wait for a person: a missing permission is an error whose text names the question. */
  "mcp.call_exposed": { params: McpExposedCallParams; result: McpExposedCallResult };
  /** Writes MCP servers in the mcpServers form, without the values of secrets. */
  "mcp.export": { params: McpExportParams; result: McpExportResult };
  /** Lets other MCP programs call a callable, or no longer. Its current definition is pinned: after a change it must be exposed again. */
  "mcp.expose": { params: McpExposeParams; result: McpExposedResult };
  /** Lists what other MCP programs may call, and where. */
  "mcp.exposed": { params: Record<string, never>; result: McpExposedResult };
  /** Shows the MCP servers in a configuration of another program, and adds those that are named. Values that look like secrets are stored as secrets. The configuration is not changed. */
  "mcp.import": { params: McpImportParams; result: McpImportResult };
  /** Returns what an MCP server wrote to standard error, and the protocol messages without their content, since Helix started. */
  "mcp.logs": { params: McpLogsParams; result: McpLogsResult };
  /** Returns a prompt of an MCP server, filled in with arguments. */
  "mcp.prompt": { params: McpPromptParams; result: McpPromptResult };
  /** Lists the prompts of an MCP server, which is started if necessary. */
  "mcp.prompts": { params: McpNameParams; result: McpPromptsResult };
  /** Returns the content of a resource of an MCP server, up to 1 MiB. */
  "mcp.read_resource": { params: McpResourceParams; result: McpResourceResult };
  /** Stops and removes an MCP server with its tools. Its sign-in ends. mcp.undo restores the rest. */
  "mcp.remove": { params: McpNameParams; result: McpRemoveResult };
  /** Lists the resources of an MCP server, which is started if necessary. */
  "mcp.resources": { params: McpNameParams; result: McpResourcesResult };
  /** Stops an MCP server and starts it again. */
  "mcp.restart": { params: McpNameParams; result: McpStateResult };
  /** Returns one MCP server with its entry. */
  "mcp.server": { params: McpNameParams; result: McpServerResult };
  /** Lists the caller's MCP servers. */
  "mcp.servers": { params: McpServersParams; result: McpServersResult };
  /** Lists the configurations of other programs on this computer that contain MCP servers. Nothing is imported. */
  "mcp.sources": { params: Record<string, never>; result: McpSourcesResult };
  /** Starts an MCP server, even if it failed repeatedly, and returns when it is ready. */
  "mcp.start": { params: McpNameParams; result: McpStateResult };
  /** Stops an MCP server and everything that it started. The next call starts it again. */
  "mcp.stop": { params: McpNameParams; result: McpStateResult };
  /** Checks an MCP server step by step: its variables and program, start with handshake, list of tools, and whether it answers. */
  "mcp.test": { params: McpNameParams; result: McpTestResult };
  /** Lists the tools of the caller's MCP servers, as last seen. Texts are what the servers say. A server that was never listed is started first if it is named. */
  "mcp.tools": { params: McpToolsParams; result: McpToolsResult };
  /** Restores a removed MCP server with its approvals. */
  "mcp.undo": { params: McpUndoParams; result: McpServerResult };
  /** Changes the entry of an MCP server. If what it runs or connects to changes, it is stopped and its tools are suspended until mcp.approve_server. */
  "mcp.update": { params: McpUpdateParams; result: McpSaveResult };
  /** Stores one memory. With Dedupe, a text that already exists is not stored again; the existing memory gets the missing tags and is returned with Deduplicated set. If the caller is a program or an agent and the text was returned to one in the last day, nothing is stored: the memory that the text repeats is reinforced, and the result has no item. */
  "memory.add": { params: MemoryAddParams; result: MemoryAddResult };
  /** Stores several memories. A rejected item has its Error set and does not stop the others. */
  "memory.add_batch": { params: MemoryAddBatchParams; result: MemoryAddBatchResult };
  /** Projects the newest texts onto a plane, their first two principal components, and assigns each to its topic. Maps are cached while the texts do not change. */
  "memory.cluster_map": { params: SynthesisMapParams; result: SynthesisMapResult };
  /** Returns turns of one conversation, in order: the page at the offset, or the page with the turn AroundSeq in its middle. */
  "memory.conversation": { params: MemoryConversationParams; result: MemoryConversationResult };
  /** Lists conversations, latest first; those without a time come last. */
  "memory.conversations": { params: MemoryPageParams; result: MemoryConversationsResult };
  /** Moves memories to the trash, where they stay for 30 days, and removes them from search. Ids that do not exist are skipped; if none exists the error is NotFound. */
  "memory.delete": { params: MemoryIDsParams; result: MemoryCountResult };
  /** Moves a conversation to the trash and removes its turns from search. */
  "memory.delete_conversation": { params: MemoryConversationIDParams; result: MemoryCountResult };
  /** Moves a document to the trash and removes its parts from search. */
  "memory.delete_document": { params: MemoryDocumentParams; result: MemoryCountResult };
  /** Marks names that Helix took for a person's as names of something else, such as a company, a place or a pet. Lists of people omit them immediately, patterns with the next synthesis, and later runs preserve it. It can be undone, and reverted at any time with Restore. */
  "memory.dismiss_people": { params: SynthesisDismissPeopleParams; result: SynthesisDismissPeopleResult };
  /** Returns parts of one document, in order: the page at the offset, or the page with the part aroundSeq in its middle. */
  "memory.document": { params: MemoryDocumentViewParams; result: MemoryDocumentView };
  /** Returns the state of semantic search. While another model is being prepared, the counts are those of that model. */
  "memory.embedding_status": { params: Record<string, never>; result: MemoryEmbeddingStatus };
  /** Writes the items that match the filters to a blob: memories, then the turns of conversations, then the parts of documents, each in order. jsonl has one object per line, which an import can read; markdown is for people. */
  "memory.export": { params: MemoryExportParams; result: MemoryExportResult };
  /** Returns one memory. Touch means that the person opened it, which reinforces it. */
  "memory.get": { params: MemoryGetParams; result: MemoryItem };
  /** Returns a pattern with its evidence and the series of its chart. */
  "memory.get_pattern": { params: SynthesisPatternParams; result: SynthesisPattern };
  /** Lists earlier texts of a memory, newest first: at most 50, of the last year. */
  "memory.history": { params: MemoryHistoryParams; result: MemoryHistoryResult };
  /** Starts an import and returns its job immediately. A source that cannot be opened, or has no known format, is an error here. Jobs of one user run one after another. */
  "memory.import": { params: MemoryImportParams; result: MemoryJobResult };
  /** Stops an import. Records that it has stored are kept. An import that has ended is not changed. */
  "memory.import_cancel": { params: MemoryJobParams; result: MemoryImportStatus };
  /** Reports what an import would add, without changing anything. It reads for at most four seconds; the result for a larger source is marked as partial. */
  "memory.import_preview": { params: MemoryImportParams; result: MemoryPreviewResult };
  /** Returns the status of an import. */
  "memory.import_status": { params: MemoryJobParams; result: MemoryImportStatus };
  /** Lists imports, newest first, except those of watched folders, which memory.watch_list returns. */
  "memory.imports": { params: MemoryPageParams; result: MemoryImportsResult };
  /** Returns a page of memories. With a cursor it continues after the page that returned the cursor, at the same cost for every page; an offset counts from the start. */
  "memory.list": { params: MemoryListParams; result: MemoryListResult };
  /** Lists documents, most recently changed first. */
  "memory.list_documents": { params: MemoryPageParams; result: MemoryDocumentsResult };
  /** Lists patterns. Rejected and superseded ones are omitted unless their status is requested. */
  "memory.list_patterns": { params: SynthesisPatternsParams; result: SynthesisPatternsResult };
  /** Lists the people in the newest 10,000 texts. Names of the same person are merged automatically and by your corrections. */
  "memory.list_people": { params: SynthesisPeopleParams; result: SynthesisPeopleResult };
  /** Lists recommendations for patterns that are still valid. */
  "memory.list_recommendations": { params: SynthesisRecommendationsParams; result: SynthesisRecommendationsResult };
  /** Merges several people into one. Lists of people change immediately, patterns with the next synthesis, and later runs preserve it. It can be undone. */
  "memory.merge_people": { params: SynthesisMergePeopleParams; result: SynthesisMergePeopleResult };
  /** Records the person's verdict on a pattern. Confirm keeps its description and raises its confidence; reject hides it and similar ones in the future; clear undoes both. */
  "memory.pattern_feedback": { params: SynthesisFeedbackParams; result: SynthesisFeedbackResult };
  /** Pins or unpins memories. Pinning reinforces them. */
  "memory.pin": { params: MemoryPinParams; result: MemoryItemsResult };
  /** Permanently deletes memories, whether they are in the trash or not, and conversations and documents that are in the trash. Only a tombstone remains. */
  "memory.purge": { params: MemoryIDsParams; result: MemoryCountResult };
  /** Recomputes the caller's vectors, retries those that failed, pauses or resumes the work, or prepares another model, which becomes active once it is ready. Naming the active model cancels the preparation of another. */
  "memory.reembed": { params: MemoryReembedParams; result: MemoryEmbeddingStatus };
  /** Returns items of any kind that are similar to one item, best first, without the item itself. */
  "memory.related": { params: SearchRelatedParams; result: SearchResult };
  /** Changes the name of a person. The names used in texts remain aliases. Lists of people change immediately, patterns with the next synthesis, and later runs preserve it. It can be undone. */
  "memory.rename_person": { params: SynthesisRenamePersonParams; result: SynthesisRenamePersonResult };
  /** Restores memories, conversations and documents from the trash by their ids. Tags, pin, salience and vector are preserved. */
  "memory.restore": { params: MemoryIDsParams; result: MemoryCountResult };
  /** Returns the items that match a query, best first; see search.Index. */
  "memory.search": { params: SearchParams; result: SearchResult };
  /** Is Search with reasons, neighbors, groups and facets. */
  "memory.search_enhanced": { params: SearchEnhancedParams; result: SearchEnhancedResult };
  /** Sets the tier of memories. Only a person can set critical. */
  "memory.set_salience": { params: MemorySalienceParams; result: MemoryItemsResult };
  /** Sets whether texts from a source are quoted to models as untrusted: a conversation, a document, or everything of one importer. Only a person can mark a source as trusted. */
  "memory.set_untrusted": { params: MemoryTrustParams; result: MemoryCountResult };
  /** Assigns some aliases of a person to another person. Lists of people change immediately, patterns with the next synthesis, and later runs preserve it. It can be undone. */
  "memory.split_person": { params: SynthesisSplitPersonParams; result: SynthesisSplitPersonResult };
  /** Counts the items, excluding the trash. It uses the catalog of search, so the first call after the start may wait until that is loaded. */
  "memory.stats": { params: Record<string, never>; result: MemoryStats };
  /** Cancels a job and drops its results; earlier patterns are not changed. A job that has ended is not changed. */
  "memory.synthesis_cancel": { params: SynthesisJobParams; result: SynthesisJob };
  /** Lists jobs, newest first. */
  "memory.synthesis_history": { params: SynthesisHistoryParams; result: SynthesisHistoryResult };
  /** Returns exactly what would leave this computer if a request ran; with the local engine, nothing. */
  "memory.synthesis_preview": { params: SynthesisSynthesizeParams; result: SynthesisPreview };
  /** Schedules a synthesis of everything that is stored. There is one schedule per type; a new request changes it. */
  "memory.synthesis_schedule": { params: SynthesisScheduleParams; result: SynthesisScheduleResult };
  /** Returns the status of a job. */
  "memory.synthesis_status": { params: SynthesisJobParams; result: SynthesisJob };
  /** Starts a job that finds patterns, and waits up to waitMs for its end. If an equal request is running, it returns that job. */
  "memory.synthesize": { params: SynthesisSynthesizeParams; result: SynthesisSynthesizeResult };
  /** Adds tags to memories and removes others. A tag in both lists is added. Adding a tag that a memory has, or removing one that it lacks, changes nothing. */
  "memory.tag": { params: MemoryTagParams; result: MemoryItemsResult };
  /** Undoes an action. A token can be used once, within ten minutes. Rows that were changed again meanwhile are left alone; if that is all of them, the error is a Conflict. */
  "memory.undo": { params: MemoryUndoParams; result: MemoryCountResult };
  /** Changes a memory unless it has been edited since the given version. In that case the error is a Conflict whose details contain the current memory, and nothing changes. The previous state is kept; see History. */
  "memory.update": { params: MemoryUpdateParams; result: MemoryUpdateResult };
  /** Sets the status of a recommendation. */
  "memory.update_recommendation": { params: SynthesisRecommendationParams; result: SynthesisRecommendation };
  /** Replaces the content of a document. Parts that did not change keep their ids and vectors. It computes the vectors of new parts first, for at most 15 seconds; the remaining ones, or all of them after a failure, are computed in the background. */
  "memory.upsert_chunks": { params: MemoryUpsertParams; result: MemoryUpsertResult };
  /** Starts to watch a folder of notes: it is imported, and imported again whenever notes are added, changed or deleted. The documents of deleted notes move to the trash. WatchAdd returns immediately; the import runs in the background. */
  "memory.watch_add": { params: MemoryWatchAddParams; result: MemoryWatchedFolder };
  /** Lists the watched folders of the caller. */
  "memory.watch_list": { params: Record<string, never>; result: MemoryWatchListResult };
  /** Stops importing the changes of a folder until memory.watch_resume. A running import continues. */
  "memory.watch_pause": { params: MemoryWatchParams; result: MemoryWatchedFolder };
  /** Stops watching a folder. Documents imported from it are kept. */
  "memory.watch_remove": { params: MemoryWatchParams; result: MemoryWatchedFolder };
  /** Resumes watching a folder, and retries failed imports. */
  "memory.watch_resume": { params: MemoryWatchParams; result: MemoryWatchedFolder };
  /** Another name of memory.delete. Moves memories to the trash, where they stay for 30 days, and removes them from search. Ids that do not exist are skipped; if none exists the error is NotFound. */
  "memory_delete": { params: MemoryIDsParams; result: MemoryCountResult };
  /** Another name of memory.add. Stores one memory. With Dedupe, a text that already exists is not stored again; the existing memory gets the missing tags and is returned with Deduplicated set. If the caller is a program or an agent and the text was returned to one in the last day, nothing is stored: the memory that the text repeats is reinforced, and the result has no item. */
  "memory_save": { params: MemoryAddParams; result: MemoryAddResult };
  /** Another name of memory.search. Returns the items that match a query, best first; see search.Index. */
  "memory_search": { params: SearchParams; result: SearchResult };
  /** Another name of memory.update. Changes a memory unless it has been edited since the given version. In that case the error is a Conflict whose details contain the current memory, and nothing changes. The previous state is kept; see History. */
  "memory_update": { params: MemoryUpdateParams; result: MemoryUpdateResult };
  /** Another name of discovery.inspect_openapi. Reads an API description and returns what it contains. It changes nothing but keeps the description for a day, so that operations can be listed and imported. */
  "openapi.inspect": { params: DiscoverySource; result: DiscoveryInspection };
  /** Compares two definitions of a callable. */
  "permissions.diff": { params: PermissionDiffParams; result: PermissionDiffResult };
  /** Lists grants, suspended ones first, and denials. */
  "permissions.list": { params: PermissionListParams; result: PermissionListResult };
  /** Returns what a run of a callable would need and what of it is granted, without running anything. */
  "permissions.preview": { params: PermissionPreviewParams; result: PermissionPreviewResult };
  /** Revokes grants. Runs that use them end within a second; the questions of the subject remain. The token in the result restores the grants within 10 s, which requires the scope approve like every extension of permissions. */
  "permissions.revoke": { params: PermissionRevokeParams; result: PermissionRevokeResult };
  /** Counts or estimates the tokens of a text or a conversation for a model. */
  "providers.count_tokens": { params: ProvidersCountParams; result: ProvidersCountResult };
  /** Looks for model servers on this computer. */
  "providers.detect": { params: Record<string, never>; result: ProvidersDetectResult };
  /** Returns one entry. */
  "providers.get": { params: ProvidersNameParams; result: ProvidersView };
  /** Returns the registry with the state of each service. It makes no call. */
  "providers.list": { params: Record<string, never>; result: ProvidersListResult };
  /** Lists the models that the catalog has for the services in the registry. */
  "providers.models": { params: ProvidersModelsParams; result: ProvidersModelsResult };
  /** Removes an entry and its key. */
  "providers.remove": { params: ProvidersNameParams; result: Record<string, never> };
  /** Returns the models of each role. */
  "providers.roles": { params: Record<string, never>; result: ProvidersRolesResult };
  /** Adds or changes an entry, and stores its key. */
  "providers.set": { params: ProvidersSetParams; result: ProvidersView };
  /** Sets the models of a role. */
  "providers.set_role": { params: ProvidersSetRoleParams; result: ProvidersRoleView };
  /** Tests a service step by step. It costs nothing unless Call is set. */
  "providers.test": { params: ProvidersTestParams; result: ProvidersTestResult };
  /** Creates an entry from a pattern, with its evidence, and confirms the pattern. If there is already an entry for a person of that name, its text is not changed and the evidence is linked to it. */
  "psychology.accept_proposal": { params: PsychologyProposalParams; result: PsychologyEntry };
  /** Lists threshold crossings and the last runs. */
  "psychology.decay_history": { params: PsychologyHistoryParams; result: PsychologyHistoryResult };
  /** Computes the retention of all memories, entries and layers of the caller. It is idempotent, because retention depends only on the time since the last reinforcement. In mode hard it moves items that have been at their floor for the grace period to the trash. */
  "psychology.decay_run": { params: PsychologyRunParams; result: PsychologyRunResult };
  /** Moves entries to the trash. Undo and restore_from_decay restore them for 30 days. */
  "psychology.delete_entry": { params: PsychologyIDsParams; result: PsychologyUndoResult };
  /** Rejects a pattern, so that it is not proposed again. */
  "psychology.dismiss_proposal": { params: PsychologyProposalParams; result: PsychologyUndoResult };
  /** Returns a method that lists the entries of a layer by their own time: when it was felt, when a goal is due, when a change began, else when the entry was created. */
  "psychology.emotional_map": { params: PsychologyViewParams; result: PsychologyViewResult };
  /** Writes the files atomically below the folder of the person's own files; with Zip it creates one file to download instead. Entries that cannot be read are counted. */
  "psychology.export": { params: PsychologyExportParams; result: PsychologyExportResult };
  /** Lists memories and entries that will soon fall below 0.3, and those with planned reviews, soonest first. */
  "psychology.fading": { params: PsychologyFadingParams; result: PsychologyFadingResult };
  /** Returns how a memory, an entry or a layer will decay, and what pinning, another tier or reviews would change. Its current value equals that of all other methods. */
  "psychology.forecast": { params: PsychologyForecastParams; result: PsychologyForecastResult };
  /** Returns the seven layers with their entries. */
  "psychology.get_all_layers": { params: Record<string, never>; result: PsychologyLayersResult };
  /** Returns a layer with its entries, newest first. */
  "psychology.get_layer": { params: PsychologyLayerParams; result: PsychologyLayer };
  /** Returns how complete layers are, and which entries cannot be read. */
  "psychology.get_layer_status": { params: PsychologyStatusParams; result: PsychologyStatusResult };
  /** Another name of memory.list_patterns. Lists patterns. Rejected and superseded ones are omitted unless their status is requested. */
  "psychology.get_memory_patterns": { params: SynthesisPatternsParams; result: SynthesisPatternsResult };
  /** Returns the caller's settings. */
  "psychology.get_settings": { params: Record<string, never>; result: PsychologySettings };
  /** Returns the soul: what the assistant should know about the person and how it should speak. If the person has edited the file, the new text becomes a revision. */
  "psychology.get_soul": { params: Record<string, never>; result: PsychologySoul };
  /** Returns a method that lists the entries of a layer by their own time: when it was felt, when a goal is due, when a change began, else when the entry was created. */
  "psychology.goals": { params: PsychologyViewParams; result: PsychologyViewResult };
  /** Reads the files of an export, from below the folder of the person's own files or from a file packed by Export. Everything is validated before anything is written. Existing entries are replaced by those in the file. The soul is not imported, because only a person may change it. */
  "psychology.import": { params: PsychologyImportParams; result: PsychologyCounts };
  /** Summarizes the seven layers. */
  "psychology.overview": { params: Record<string, never>; result: PsychologyOverview };
  /** Pins entries or memories so that they keep their current retention, or unpins them so that they decay from it. */
  "psychology.pin": { params: PsychologyPinParams; result: PsychologyItemsResult };
  /** Stores when a person plans to review a memory or an entry. Forecasts take the plan into account, and the list of fading items includes what is due. The plan itself reinforces nothing. It can be undone. */
  "psychology.plan_reviews": { params: PsychologyPlanReviewsParams; result: PsychologyPlanReviewsResult };
  /** Returns a method that lists the entries of a layer by their own time: when it was felt, when a goal is due, when a change began, else when the entry was created. */
  "psychology.purpose": { params: PsychologyViewParams; result: PsychologyViewResult };
  /** Records an interaction with a person and explains its effect. With replaces, it corrects an earlier one, and trust is recomputed from the corrected log. */
  "psychology.record_interaction": { params: PsychologyInteractionParams; result: PsychologyInteractionResult };
  /** Records that entries or memories were reviewed, confirmed, edited or used, which restores part of the lost retention and restarts the decay. A use counts once an hour. */
  "psychology.reinforce": { params: PsychologyReinforceParams; result: PsychologyItemsResult };
  /** Restores and reinforces items that decay, or a person, moved to the trash. */
  "psychology.restore_from_decay": { params: PsychologyRestoreParams; result: PsychologyUndoResult };
  /** Another name of psychology.decay_run. Computes the retention of all memories, entries and layers of the caller. It is idempotent, because retention depends only on the time since the last reinforcement. In mode hard it moves items that have been at their floor for the grace period to the trash. */
  "psychology.run_decay": { params: PsychologyRunParams; result: PsychologyRunResult };
  /** Starts a job that finds patterns, and waits up to waitMs for its end. If an equal request is running, it returns that job. */
  "psychology.run_synthesis": { params: SynthesisSynthesizeParams; result: SynthesisSynthesizeResult };
  /** Sets the tier of entries or memories. Only a person can set critical. */
  "psychology.set_salience": { params: PsychologySalienceParams; result: PsychologyItemsResult };
  /** Lists the revisions of the soul, newest first. */
  "psychology.soul_history": { params: PsychologyPageParams; result: PsychologySoulHistoryResult };
  /** Returns a method that lists the entries of a layer by their own time: when it was felt, when a goal is due, when a change began, else when the entry was created. */
  "psychology.transformation": { params: PsychologyViewParams; result: PsychologyViewResult };
  /** Returns the people with their current trust and the requirements of the next stage, and the last interactions of one person. */
  "psychology.trust_map": { params: PsychologyTrustMapParams; result: PsychologyTrustMapResult };
  /** Undoes an action on entries or memories within ten minutes. Items that have changed since are not restored. */
  "psychology.undo": { params: MemoryUndoParams; result: PsychologyUndoResult };
  /** Changes the text that a person wrote for a layer, its initial strength, or whether it decays. */
  "psychology.update_layer": { params: PsychologyUpdateLayerParams; result: PsychologyLayer };
  /** Changes settings. Retentions are not recomputed before the next run. */
  "psychology.update_settings": { params: PsychologySettingsParams; result: PsychologySettings };
  /** Replaces the soul. Only a person in a session of their own may do that. */
  "psychology.update_soul": { params: PsychologyUpdateSoulParams; result: PsychologySoul };
  /** Adds an entry or, with an id, replaces its data. An edit reinforces it. */
  "psychology.upsert_entry": { params: PsychologyUpsertParams; result: PsychologyEntry };
  /** Returns the OpenRPC 1.3.2 document of every method and event. */
  "rpc.discover": { params: Record<string, never>; result: unknown };
  /** Measures for a few seconds how fast code starts, runs and is stopped on this computer. The results are meant for people; they are compared with other engines by make bench- */
  "sandbox.bench": { params: Record<string, never>; result: SandboxBenchResult };
  /** Deletes compiled code that is kept between starts. Active runs continue; the next start of each module compiles it again. */
  "sandbox.clear_cache": { params: Record<string, never>; result: WasmtoolsClearedCache };
  /** Runs a file once, without storing it or a row of the run. The audit log records the run and every grant. Only a session that may approve can call it. */
  "sandbox.run": { params: ToolsRunCodeParams; result: ToolsExecuteSkillResult };
  /** Returns the status of the engine that runs untrusted code: its version, tiers, pool and cache, and the limits of each profile. */
  "sandbox.status": { params: Record<string, never>; result: WasmtoolsSandboxStatus };
  /** Returns past and future due times in a range of days. A day is 24 hours, starting at the time of day of From. A day with more than 200 marks has one count per schedule and kind instead. */
  "schedules.calendar": { params: SchedulerCalendarParams; result: SchedulerCalendarResult };
  /** Cancels a run. If its target does not end it within 10 seconds it is closed regardless. The result is the current state. */
  "schedules.cancel_run": { params: SchedulerRunParams; result: SchedulerRun };
  /** Creates a schedule. */
  "schedules.create": { params: SchedulerCreateParams; result: SchedulerSchedule };
  /** Deletes a schedule. It can be restored for 30 days. Active runs continue. */
  "schedules.delete": { params: SchedulerScheduleParams; result: SchedulerDeleteResult };
  /** Returns one schedule. */
  "schedules.get": { params: SchedulerScheduleParams; result: SchedulerSchedule };
  /** Lists the user's schedules. */
  "schedules.list": { params: SchedulerListParams; result: SchedulerListResult };
  /** Returns the notifications that no client has shown yet, oldest first. */
  "schedules.notices": { params: Record<string, never>; result: SchedulerNoticesResult };
  /** Stops a schedule from firing. Times that were due and not claimed yet are recorded as missed. */
  "schedules.pause": { params: SchedulerScheduleParams; result: SchedulerSchedule };
  /** Stops all of the caller's schedules from firing. Active runs continue. Until is when the pause ends automatically. */
  "schedules.pause_all": { params: SchedulerPauseAllParams; result: SchedulerPauseAllResult };
  /** Returns the due times of a cadence, with the effects of clock changes. */
  "schedules.preview": { params: SchedulerPreviewParams; result: SchedulerPreviewResult };
  /** Restores a deleted schedule. A schedule whose times have all passed is restored without a next time. */
  "schedules.restore": { params: SchedulerScheduleParams; result: SchedulerSchedule };
  /** Makes a schedule fire again, starting with its next time, and resets its failure count. */
  "schedules.resume": { params: SchedulerScheduleParams; result: SchedulerSchedule };
  /** Makes the caller's schedules fire again, starting with their next times. */
  "schedules.resume_all": { params: Record<string, never>; result: SchedulerPauseAllResult };
  /** Starts a schedule's target now, even if the schedule is paused. The next due time is not affected. */
  "schedules.run_now": { params: SchedulerRunNowParams; result: SchedulerRunNowResult };
  /** Returns the output of a run as text. */
  "schedules.run_output": { params: SchedulerRunOutputParams; result: SchedulerRunOutputResult };
  /** Lists runs, newest first. */
  "schedules.runs": { params: SchedulerRunsParams; result: SchedulerRunsResult };
  /** Returns the status of the scheduler. */
  "schedules.status": { params: Record<string, never>; result: SchedulerStatusResult };
  /** Marks notifications as shown and returns the others. If two clients take the same notification, the second one does not find it. */
  "schedules.take_notices": { params: SchedulerTakeNoticesParams; result: SchedulerNoticesResult };
  /** Makes this device the home of a schedule. With takeover it gets the lease from the hub immediately, whoever held it; if the hub does not answer, nothing changes. */
  "schedules.take_over": { params: SchedulerScheduleParams; result: SchedulerSchedule };
  /** Lists the schedules that Helix offers. Those whose target is not in this build are marked. */
  "schedules.templates": { params: Record<string, never>; result: SchedulerTemplatesResult };
  /** Changes a schedule. It never fires a time before the edit. If the edit changes the times, those that were due and not claimed yet are recorded as missed. */
  "schedules.update": { params: SchedulerUpdateParams; result: SchedulerSchedule };
  /** Removes a secret; an unknown name is NotFound. */
  "secrets.delete": { params: StorageSecretsDeleteParams; result: Record<string, never> };
  /** Returns the names of the caller's secrets. A value is never returned. */
  "secrets.list": { params: StorageSecretsListParams; result: StorageSecretsListResult };
  /** Stores a value under a name and replaces a former one. */
  "secrets.set": { params: StorageSecretsSetParams; result: Record<string, never> };
  /** Returns the current state of each service of this build. */
  "services.list": { params: Record<string, never>; result: GatewayServiceList };
  /** Stops and starts a service. */
  "services.restart": { params: GatewayServiceParams; result: GatewayServiceList };
  /** Starts a service; starting a running one has no effect. */
  "services.start": { params: GatewayServiceParams; result: GatewayServiceList };
  /** Stops a service and waits until it has ended; stopping a stopped one has no effect. */
  "services.stop": { params: GatewayServiceParams; result: GatewayServiceList };
  /** Describes the caller's own session. */
  "session.get": { params: Record<string, never>; result: GatewaySessionInfo };
  /** Ends one of the user's sessions. Its running calls are canceled; jobs that have returned an id continue. */
  "sessions.close": { params: GatewaySessionParams; result: Record<string, never> };
  /** Lists the user's open sessions. */
  "sessions.list": { params: GatewayPageParams; result: GatewaySessionList };
  /** Returns a URL that lets one browser sign in, once, within a minute. */
  "sessions.ticket": { params: GatewayTicketParams; result: GatewayTicket };
  /** Runs a command in a session and returns when it has ended. Its output also comes as the event shell.output. Only a person can run one; the audit log has the whole command. */
  "shell.exec": { params: ShellExecParams; result: ShellExecResult };
  /** Ends a session with everything that runs in it. */
  "shell.kill": { params: ShellSessionParams; result: ShellKillResult };
  /** Returns the shell sessions of the user, oldest first. */
  "shell.list": { params: Record<string, never>; result: ShellListResult };
  /** Starts a shell session: a container without network that sees /shared and /tmp/workspace, the shared and temporary folders of the workspace. It ends after 30 minutes without a command. */
  "shell.spawn": { params: ShellSpawnParams; result: ShellSpawnResult };
  /** Returns the output of one of the last commands of a session, also while it runs. With the seq of the last event that was seen, nothing is missing and nothing comes twice. */
  "shell.stream": { params: ShellStreamParams; result: ShellStreamResult };
  /** Answers a question of a run, or of a nested run that it is waiting for. */
  "skills.answer": { params: SkillsAnswerParams; result: SkillsExecution };
  /** Stops a run of a skill of either kind. For a run that has ended it returns the status. */
  "skills.cancel": { params: SkillsCancelParams; result: BackendCancelSkillResult };
  /** Lists what steps can call on this installation. Kinds that are not available are omitted. */
  "skills.catalog": { params: SkillsCatalogParams; result: SkillsCatalogResult };
  /** Copies the caller's own or a public skill. The copy is private and disabled. */
  "skills.clone_composite": { params: SkillsSkillParams; result: SkillsMeta };
  /** Saves a new skill. A definition with errors is stored as a disabled draft; one that cannot be read completely is Invalid with all problems as details. */
  "skills.create_composite": { params: SkillsSaveParams; result: SkillsMeta };
  /** Creates a skill of the caller from a template, together with the tools and the other skills that it calls, unless the caller already has these. If the name is taken a number is appended. */
  "skills.create_from_template": { params: SkillsFromTemplateParams; result: SkillsMeta };
  /** Installs a module as a WASM tool of the caller and enables it. If the report contains errors, the error is Invalid with the report as details, and nothing is stored. If the name is taken, the error is a Conflict. Capabilities that the module requests are not granted by this. */
  "skills.create_wasm": { params: WasmtoolsCreateWasmParams; result: WasmtoolsCreateWasmResult };
  /** Deletes a skill. It can be restored for 30 days. Active runs continue. */
  "skills.delete_composite": { params: SkillsSkillParams; result: SkillsDeleteResult };
  /** Moves a WASM tool to the trash, revokes its grants and ends its runs. skills.restore_wasm restores it, without the grants. */
  "skills.delete_wasm": { params: WasmtoolsSkillID; result: WasmtoolsDeleteWasmResult };
  /** Compares two definitions step by step, of one skill or of two, and the capabilities that they need. */
  "skills.diff_versions": { params: SkillsDiffParams; result: SkillsDiffResult };
  /** Returns the run document of a run, as a help for mapping. */
  "skills.document": { params: SkillsRunParams; result: SkillsDocumentResult };
  /** Runs a skill with the same engine but without effects. The results of calls come from the mocks, the outcomes recorded by an earlier run, real calls that are read-only, or the output schema. A step without any of these ends the dry run. */
  "skills.dry_run": { params: SkillsDryRunParams; result: SkillsExecuteResult };
  /** Evaluates a path, a template or a condition on a document. Problems with the expression are part of the result rather than an error, so that they can be shown during typing. For a path, the result lists the first 200 matches with their locations. */
  "skills.evaluate": { params: SkillsEvaluateParams; result: SkillsEvaluateResult };
  /** Returns the events of a run. */
  "skills.events": { params: SkillsEventsParams; result: SkillsEventsResult };
  /** Runs a WASM tool or a composite skill, whichever has the id. */
  "skills.execute": { params: BackendExecuteSkillParams; result: unknown };
  /** Runs a skill and waits until it ends or waits for a person. The run continues even if the caller stops waiting. */
  "skills.execute_composite": { params: SkillsExecuteParams; result: SkillsExecuteResult };
  /** Returns the share file of a skill of the caller, signed with this device's key unless that is locked. Tools are referenced by name, because ids are meaningless on other installations. */
  "skills.export": { params: SkillsExportParams; result: SkillsExportResult };
  /** Returns one run with its steps. */
  "skills.get_execution": { params: SkillsRunParams; result: SkillsExecution };
  /** Returns one skill with its definition, the caller's own or a public one. */
  "skills.get_metadata": { params: SkillsSkillParams; result: SkillsMeta };
  /** Another name of skills.get_metadata. Returns one skill with its definition, the caller's own or a public one. */
  "skills.get_skill_metadata": { params: SkillsSkillParams; result: SkillsMeta };
  /** Returns one version with its body. */
  "skills.get_version": { params: SkillsVersionParams; result: SkillsVersion };
  /** Returns a WASM tool of the caller and, on request, the report about its module. */
  "skills.get_wasm": { params: WasmtoolsGetWasmParams; result: WasmtoolsGetWasmResult };
  /** Lists runs, newest first. Dry runs are excluded. */
  "skills.history": { params: SkillsHistoryParams; result: SkillsHistoryResult };
  /** Imports a share file, or the one that a link refers to. The skill is disabled: enabling it accepts its permission preview. A definition that is not valid here, because a tool is missing, becomes a draft. A file with a wrong checksum or signature is rejected. */
  "skills.import": { params: SkillsImportParams; result: SkillsImportResult };
  /** Lists the user's skills, newest first. Definitions are omitted: steps is empty, see stepCount. */
  "skills.list_composite": { params: SkillsListParams; result: SkillsListResult };
  /** Another name of skills.list_composite. Lists the user's skills, newest first. Definitions are omitted: steps is empty, see stepCount. */
  "skills.list_user_skills": { params: SkillsListParams; result: SkillsListResult };
  /** Lists the versions of a skill, newest first and without their bodies. */
  "skills.list_versions": { params: SkillsSkillParams; result: SkillsVersionsResult };
  /** Returns a page of the caller's WASM tools, most recently changed first. */
  "skills.list_wasm": { params: WasmtoolsListWasmParams; result: WasmtoolsListWasmResult };
  /** Excludes a run from pruning, or includes it again. */
  "skills.pin": { params: SkillsPinParams; result: SkillsExecution };
  /** Returns what a run would need, without asking anyone. The steps of a nested skill are listed at its first call. */
  "skills.preview_rights": { params: SkillsPreviewRightsParams; result: SkillsRightsPreview };
  /** Deletes the caller's runs that have ended, except pinned ones. */
  "skills.purge_history": { params: SkillsPurgeParams; result: SkillsPurgeResult };
  /** Applies a run's recorded outcomes to the engine again and compares its decisions with the recorded ones, byte for byte. */
  "skills.replay": { params: SkillsRunParams; result: SkillsReplayResult };
  /** Runs a skill again from a step, reusing the results of the steps before it. The original run is not changed. */
  "skills.restart": { params: SkillsRestartParams; result: SkillsRestartResult };
  /** Restores a deleted skill. If its name has been taken meanwhile a number is appended. A skill that is not deleted is not changed. */
  "skills.restore_composite": { params: SkillsSkillParams; result: SkillsMeta };
  /** Restores a deleted WASM tool from the trash. If its name has been taken meanwhile a number is appended. */
  "skills.restore_wasm": { params: WasmtoolsSkillID; result: WasmtoolsWasmSkillResult };
  /** Makes an old definition the current one, as a new version. Rolling back to the current definition changes nothing. If the definition is no longer valid, because something that it calls is missing, the skill is disabled. */
  "skills.rollback": { params: SkillsRollbackParams; result: SkillsMeta };
  /** Searches public skills, most used first. The query has no wildcards. */
  "skills.search_public": { params: SkillsSearchPublicParams; result: SkillsSearchPublicResult };
  /** Creates a link to the current version of a skill, with the tools that it calls. */
  "skills.share": { params: SkillsShareParams; result: SkillsShare };
  /** Lists the caller's shares, of one skill or of all. */
  "skills.shares": { params: SkillsSharesParams; result: SkillsSharesResult };
  /** Signs the current definition of a WASM tool with this device's key, by which the user vouches for the module. It then runs in process until it changes. */
  "skills.sign_wasm": { params: WasmtoolsSkillID; result: LifecycleSignResult };
  /** Returns the status of a run, or lists the installed skills. */
  "skills.status": { params: SkillsStatusParams; result: SkillsStatusResult };
  /** Lists the skills that can be used as templates. They have no external dependencies. */
  "skills.templates": { params: Record<string, never>; result: SkillsTemplatesResult };
  /** Ends a share immediately. If the hub can't be reached, nothing changes. */
  "skills.unshare": { params: SkillsUnshareParams; result: Record<string, never> };
  /** Changes a skill. A change to the definition creates a version. Omitted fields outside the definition (name, description, tags, icon, isEnabled, visibility) are not changed. With steps the whole definition is replaced, without them it is not changed. */
  "skills.update_composite": { params: SkillsSaveParams; result: SkillsMeta };
  /** Changes a WASM tool of the caller. A change of the definition suspends the grants of the previous one and drops a signature that does not cover the new one; new bytes also increment the version. Active runs continue with the previous definition. */
  "skills.update_wasm": { params: WasmtoolsUpdateWasmParams; result: WasmtoolsUpdateWasmResult };
  /** Receives a module in parts, for modules that are too large for one call, and stores it in the blob store with the last part. A blob that no WASM tool refers to is deleted after a day. */
  "skills.upload_wasm": { params: WasmtoolsUploadWasmParams; result: WasmtoolsUploadWasmResult };
  /** Validates a definition and reports all problems at once. */
  "skills.validate_composite": { params: SkillsValidateParams; result: SkillsValidateResult };
  /** Checks a module like an installation, without storing anything. */
  "skills.validate_wasm": { params: WasmtoolsValidateWasmParams; result: WasmtoolsWasmReport };
  /** Returns a page of the runs of a WASM tool, newest first. */
  "skills.wasm_executions": { params: ToolsSkillExecutionsParams; result: ToolsSkillExecutionsResult };
  /** Another name of services.start. Starts a service; starting a running one has no effect. */
  "start_memory_synthesis": { params: Omit<GatewayServiceParams, "name"> & { name?: "memory-synthesis" }; result: GatewayServiceList };
  /** Another name of services.start. Starts a service; starting a running one has no effect. */
  "start_psychology_decay": { params: Omit<GatewayServiceParams, "name"> & { name?: "psychology-decay" }; result: GatewayServiceList };
  /** Another name of services.start. Starts a service; starting a running one has no effect. */
  "start_skill_sandbox": { params: Omit<GatewayServiceParams, "name"> & { name?: "skill-sandbox" }; result: GatewayServiceList };
  /** Another name of services.start. Starts a service; starting a running one has no effect. */
  "start_sync_coordinator": { params: Omit<GatewayServiceParams, "name"> & { name?: "sync-coordinator" }; result: GatewayServiceList };
  /** Another name of services.start. Starts a service; starting a running one has no effect. */
  "start_voice_pipeline": { params: Omit<GatewayServiceParams, "name"> & { name?: "voice-pipeline" }; result: GatewayServiceList };
  /** Another name of services.stop. Stops a service and waits until it has ended; stopping a stopped one has no effect. */
  "stop_all_rust_exes": { params: Omit<GatewayServiceParams, "name"> & { name?: "*" }; result: GatewayServiceList };
  /** Another name of services.stop. Stops a service and waits until it has ended; stopping a stopped one has no effect. */
  "stop_rust_exe": { params: GatewayServiceParams; result: GatewayServiceList };
  /** Writes the database, blobs, settings and the user's files to one zip file while Helix keeps working. It reads the file back and verifies it before it returns. */
  "storage.backup": { params: StorageBackupParams; result: StorageBackupResult };
  /** Lists backups and pre-migration snapshots, newest first. */
  "storage.backups": { params: StorageBackupsParams; result: StorageBackupsResult };
  /** Looks for damage. The full check also reads every index and every blob. A damaged database enters recovery mode. */
  "storage.check": { params: StorageCheckParams; result: StorageCheckResult };
  /** Writes the caller's data as JSON lines and Markdown, readable without Helix. It contains no secrets and no keys. */
  "storage.export": { params: StorageExportParams; result: StorageExportResult };
  /** Adds the rows of an export to the caller's data. Ids are kept; rows that already exist are skipped and counted. The import is one transaction, so it is applied completely or not at all. */
  "storage.import": { params: StorageImportParams; result: StorageImportResult };
  /** Removes the hold that Rollback left and migrates the data to this version's schema. All sessions end if anything changed. */
  "storage.migrate": { params: Record<string, never>; result: StorageMigrateResult };
  /** Removes what exceeds the age or number that the retention settings allow. It never touches memories, tools, skills or memos. */
  "storage.prune": { params: StoragePruneParams; result: StoragePruneResult };
  /** Replaces the current data with a backup and keeps the current data in a folder replaced-<time>. All sessions end. */
  "storage.restore": { params: StorageRestoreParams; result: StorageRestoreResult };
  /** Restores the snapshot made before a migration, and blocks further migrations until Migrate is called. All sessions end. */
  "storage.rollback": { params: StorageRollbackParams; result: StorageRestoreResult };
  /** Copies every readable row of a damaged database into a new one. The new one replaces the database if nothing was lost or the caller accepts the loss. It works in recovery mode only; the damaged files are kept. */
  "storage.salvage": { params: StorageSalvageParams; result: StorageSalvageResult };
  /** Abandons a database that is missing or damaged and creates an empty one. The existing files are moved to a folder replaced-<time>. It works in recovery mode only. */
  "storage.start_new": { params: Record<string, never>; result: StorageStartNewResult };
  /** Returns sizes, free space, schema, checks, backups and the caller's rows by table. */
  "storage.status": { params: Record<string, never>; result: StorageStatusResult };
  /** Reads a whole backup and runs every check that a restore would. */
  "storage.verify_backup": { params: StorageVerifyBackupParams; result: StorageVerifyBackupResult };
  /** Changes a synced item like a Delta frame sent to the relay. */
  "sync.change": { params: CloudsyncChangeParams; result: CloudsyncChangeResult };
  /** Lists conflicts: fields that two devices changed concurrently. */
  "sync.conflicts": { params: CloudsyncConflictsParams; result: CloudsyncConflictsResult };
  /** Exchanges changes with the hub immediately. */
  "sync.coordinate": { params: CloudsyncCoordinateParams; result: CloudsyncCoordinateResult };
  /** Lists the items that could not be synced, with the reasons. */
  "sync.dead_letters": { params: Record<string, never>; result: CloudsyncDeadLettersResult };
  /** Lists the devices of this person. It reads them from the hub. */
  "sync.devices": { params: Record<string, never>; result: CloudsyncDevicesResult };
  /** Writes an item that could not be synced to a file and then drops it from the dead letters. An outgoing item stays in the local database and is sent again when it next changes. An incoming item arrives again when another device next changes it. */
  "sync.discard_dead_letter": { params: CloudsyncRetryParams; result: CloudsyncDiscardResult };
  /** Ends the connection to the hub and keeps all rows on this device. */
  "sync.disconnect": { params: Record<string, never>; result: Record<string, never> };
  /** Joins the hub of the person who made the link or the recovery code. Existing data of this device is assigned to that person and merged with the data on the hub. */
  "sync.enroll": { params: CloudsyncEnrollParams; result: CloudsyncSetupResult };
  /** Creates a recovery code, with which a device can join when no other device is left. It replaces the previous code. */
  "sync.export_recovery": { params: Record<string, never>; result: CloudsyncRecoveryResult };
  /** Creates a link with which another device can join. The link works once and expires after ten minutes. */
  "sync.invite": { params: CloudsyncInviteParams; result: CloudsyncInviteResult };
  /** Stops the exchange of changes until Resume. */
  "sync.pause": { params: Record<string, never>; result: CloudsyncStatusResult };
  /** Reports which devices of this person are online. */
  "sync.presence": { params: Record<string, never>; result: CloudsyncPresenceResult };
  /** Another name of trash.purge. Permanently deletes items in the trash. Items that cannot be deleted are listed with the reason; if none can, the call fails. */
  "sync.purge": { params: TrashItemsParams; result: TrashPurgeResult };
  /** Changes the name of a device, which all devices of the person show. */
  "sync.rename_device": { params: CloudsyncRenameParams; result: Record<string, never> };
  /** Writes the chosen value and closes the conflict on all devices. Several conflicts are resolved in transactions of at most 100; if the call is canceled, the resolved ones stay so. */
  "sync.resolve": { params: CloudsyncResolveParams; result: CloudsyncResolveResult };
  /** Another name of sync.resolve. Writes the chosen value and closes the conflict on all devices. Several conflicts are resolved in transactions of at most 100; if the call is canceled, the resolved ones stay so. */
  "sync.resolve_conflict": { params: CloudsyncResolveParams; result: CloudsyncResolveResult };
  /** Another name of trash.restore. Restores items. If the name of an item has been taken meanwhile a number is appended. Items that cannot be restored are listed with the reason; if none can, the call fails. */
  "sync.restore": { params: TrashItemsParams; result: TrashRestoreResult };
  /** Continues after a Pause. */
  "sync.resume": { params: Record<string, never>; result: CloudsyncStatusResult };
  /** Sends an item that the hub rejected again with the next exchange. It has no effect on an item that this device could not store; those are retried automatically. */
  "sync.retry_dead_letter": { params: CloudsyncRetryParams; result: Record<string, never> };
  /** Ends a device's access to the hub immediately. The data on that device stays there. */
  "sync.revoke_device": { params: CloudsyncRevokeParams; result: Record<string, never> };
  /** Creates a new key for future writes, sends it to the other devices, encrypted for each of them, and queues the rows on the hub to be encrypted again. Data encrypted with older keys stays readable. */
  "sync.rotate_key": { params: Record<string, never>; result: CloudsyncRotateKeyResult };
  /** Tests the hub's row-level security. For each table of the hub and each verb, it checks with direct SQL statements what the owner, another device of the owner, another user, a revoked device and a role without a device may do. It also tries forged claims and roles. */
  "sync.selftest": { params: CloudsyncSelftestParams; result: CloudsyncSelftestResult };
  /** Turns a database into the hub of this person, verifies with the self-test that it keeps users apart, and connects this device. If it is this device's hub already, Setup updates its schema. */
  "sync.setup": { params: CloudsyncSetupParams; result: CloudsyncSetupResult };
  /** Sends a code to the person's e-mail address, with which Setup connects this device. */
  "sync.sign_in": { params: CloudsyncProject; result: Record<string, never> };
  /** Reports how much the devices of this person exchanged with the hub each day. */
  "sync.statistics": { params: CloudsyncStatisticsParams; result: CloudsyncStatisticsResult };
  /** Reports the state of sync. It never contacts the hub. */
  "sync.status": { params: Record<string, never>; result: CloudsyncStatusResult };
  /** Another name of trash.list. Lists the items in the trash, latest first. */
  "sync.trash": { params: TrashListParams; result: TrashListResult };
  /** Reopens the conflicts of a call and restores the items' previous values. Items that have changed since are skipped; if all have, it fails. */
  "sync.undo_resolve": { params: CloudsyncUndoResolveParams; result: CloudsyncResolveResult };
  /** Returns version, uptime, memory and what is degraded. */
  "system.status": { params: Record<string, never>; result: GatewaySystemStatus };
  /** Ends the program gracefully: running calls get some seconds to finish. */
  "system.stop": { params: Record<string, never>; result: Record<string, never> };
  /** Creates a token for another program. Only its hash is stored. */
  "tokens.create": { params: GatewayTokenParams; result: GatewayNewToken };
  /** Lists the user's tokens. The root token is not included. */
  "tokens.list": { params: GatewayTokenListParams; result: GatewayTokenList };
  /** Revokes a token permanently and closes its sessions within a second. */
  "tokens.revoke": { params: GatewayTokenIDParams; result: Record<string, never> };
  /** Replaces the root token in its store and closes every session that the old one opened, directly or through a ticket. The new one is not returned: the command line reads it from the store. */
  "tokens.rotate_root": { params: Record<string, never>; result: Record<string, never> };
  /** Returns entries of the audit log about one tool, one run or all tools, newest first, and whether the chain is intact. */
  "tools.audit": { params: ToolsAuditParams; result: ToolsAuditResult };
  /** Stops a run of the caller, which ends with error class canceled. An unknown or finished run is not an error. */
  "tools.cancel": { params: ToolsCancelParams; result: ToolsCancelResult };
  /** Returns what a tool requests, and what of it has been granted or denied. */
  "tools.capabilities": { params: ToolsToolID; result: ToolsCapabilitiesResult };
  /** Copies a tool of the caller or a public one. The copy is private and has no grants, secrets or state. It keeps the signature, because the definition is the same; the first edit drops it. */
  "tools.clone": { params: ToolsCloneParams; result: ToolsToolResult };
  /** Stores a new tool of the caller and enables it. If the static checks find errors, the error is Invalid with the Validation as details, and nothing is stored. If the name is taken, the error is a Conflict. */
  "tools.create": { params: ToolsCreateParams; result: ToolsCreateResult };
  /** Another name of tools.create. Stores a new tool of the caller and enables it. If the static checks find errors, the error is Invalid with the Validation as details, and nothing is stored. If the name is taken, the error is a Conflict. */
  "tools.create_custom": { params: ToolsCreateParams; result: ToolsCreateResult };
  /** Moves a tool to the trash. Its grants are revoked and its shares end immediately; clones are not affected. Restore restores the tool without the grants. */
  "tools.delete": { params: ToolsToolID; result: ToolsDeleteResult };
  /** Another name of tools.delete. Moves a tool to the trash. Its grants are revoked and its shares end immediately; clones are not affected. Restore restores the tool without the grants. */
  "tools.delete_custom": { params: ToolsToolID; result: ToolsDeleteResult };
  /** Compares two versions of a tool. */
  "tools.diff": { params: ToolsDiffParams; result: ToolsDiffResult };
  /** Another name of tools.execute_custom. Runs a stored tool, or code as a draft, for the user. */
  "tools.execute": { params: ToolsExecuteParams; result: ToolsExecuteResult };
  /** Runs a stored tool, or code as a draft, for the user. */
  "tools.execute_custom": { params: ToolsExecuteParams; result: ToolsExecuteResult };
  /** Exports tools as a bundle. Each tool keeps its signature; an unsigned one is signed with this device's key, unless sign is false or the key is locked. */
  "tools.export": { params: ToolsExportParams; result: ToolsExportResult };
  /** Returns a tool with all its fields, the caller's own or a public one; with Version, the definition of that version. */
  "tools.get": { params: ToolsGetParams; result: ToolsToolResult };
  /** Returns what a caller needs to run a tool. */
  "tools.get_metadata": { params: ToolsToolID; result: ToolsMetadata };
  /** Reviews or adds the tools of a bundle, an address or a share. It adds either all or none. */
  "tools.import": { params: ToolsImportParams; result: ToolsImportResult };
  /** Returns a page of the caller's own tools. */
  "tools.list": { params: ToolsListParams; result: ToolsListResult };
  /** Another name of tools.list. Returns a page of the caller's own tools. */
  "tools.list_custom": { params: ToolsListParams; result: ToolsListResult };
  /** Another name of tools.search. Returns a page of public tools, most used first. It searches name, description and tags; the query has no wildcards. */
  "tools.marketplace": { params: ToolsSearchParams; result: ToolsSearchResult };
  /** Another name of tools.get_metadata. Returns what a caller needs to run a tool. */
  "tools.metadata": { params: ToolsToolID; result: ToolsMetadata };
  /** Returns the review of a shared tool. It adds and runs nothing. */
  "tools.resolve_share": { params: ToolsResolveShareParams; result: ToolsResolveShareResult };
  /** Restores a deleted tool from the trash. If its name has been taken meanwhile a number is appended. */
  "tools.restore": { params: ToolsToolID; result: ToolsToolResult };
  /** Creates a new version with the definition of an earlier one. Grants that were bound to that definition and have neither been revoked nor expired become active again. */
  "tools.rollback": { params: ToolsRollbackParams; result: ToolsRollbackResult };
  /** Another name of tools.execute_custom. Runs a stored tool, or code as a draft, for the user. */
  "tools.run": { params: ToolsExecuteParams; result: ToolsExecuteResult };
  /** Returns a page of public tools, most used first. It searches name, description and tags; the query has no wildcards. */
  "tools.search": { params: ToolsSearchParams; result: ToolsSearchResult };
  /** Deletes a secret. Active runs lose it at their next call. */
  "tools.secret_delete": { params: ToolsSecretName; result: Record<string, never> };
  /** Stores or replaces a secret. Its value is encrypted with the key in the keyring and is never returned by any method. */
  "tools.secret_set": { params: ToolsSecretSetParams; result: Record<string, never> };
  /** Lists the secrets without their values. */
  "tools.secrets": { params: Record<string, never>; result: ToolsSecretsResult };
  /** Enables or disables a tool. Active runs continue. */
  "tools.set_enabled": { params: ToolsSetEnabledParams; result: ToolsToolResult };
  /** Creates a link to one version of a tool. Later edits of the tool do not change the share. */
  "tools.share": { params: ToolsShareParams; result: ToolsShareResult };
  /** Lists the caller's shares, of one tool or of all. */
  "tools.shares": { params: ToolsSharesParams; result: ToolsSharesResult };
  /** Signs the current definition of a tool with this device's key and stores the signature. It fails with Unavailable while the key is locked. */
  "tools.sign": { params: ToolsToolID; result: LifecycleSignResult };
  /** Lists the keys that have signed tools here, and this device's own. */
  "tools.signers": { params: Record<string, never>; result: ToolsSignersResult };
  /** Lists the values and files that a tool has stored. */
  "tools.state": { params: ToolsToolID; result: ToolsStateResult };
  /** Removes one entry or all of a tool's state. StateRestore restores it within a minute. */
  "tools.state_clear": { params: ToolsStateClearParams; result: ToolsStateClearResult };
  /** Undoes a clearing. Entries that the tool has stored since under the same keys are kept. */
  "tools.state_restore": { params: ToolsStateRestoreParams; result: ToolsStateClearResult };
  /** Lists the small tools that can be used as templates. */
  "tools.templates": { params: Record<string, never>; result: ToolsTemplatesResult };
  /** Names a key and sets whether tools signed with it may run like the user's own. Without trust, such tools are refused from their next start on. */
  "tools.trust_signer": { params: ToolsTrustSignerParams; result: ToolsSignerResult };
  /** Ends a share immediately. If the hub can't be reached, nothing changes. */
  "tools.unshare": { params: ToolsUnshareParams; result: Record<string, never> };
  /** Changes a tool. A change of its definition creates a version, drops the signature and suspends the grants of the old definition; other changes do none of these. */
  "tools.update": { params: ToolsUpdateParams; result: ToolsUpdateResult };
  /** Another name of tools.update. Changes a tool. A change of its definition creates a version, drops the signature and suspends the grants of the old definition; other changes do none of these. */
  "tools.update_custom": { params: ToolsUpdateParams; result: ToolsUpdateResult };
  /** Returns a page of finished runs and a summary of all that match. */
  "tools.usage": { params: ToolsUsageParams; result: ToolsUsageResult };
  /** Another name of tools.usage. Returns a page of finished runs and a summary of all that match. */
  "tools.usage_history": { params: ToolsUsageParams; result: ToolsUsageResult };
  /** Runs the static checks without saving anything. */
  "tools.validate": { params: ToolsValidateParams; result: ToolsValidation };
  /** Returns a page of a tool's history, newest first. */
  "tools.versions": { params: ToolsVersionsParams; result: ToolsVersionsResult };
  /** Permanently deletes everything in the trash, or everything of some kinds. */
  "trash.empty": { params: TrashEmptyParams; result: TrashPurgeResult };
  /** Lists the items in the trash, latest first. */
  "trash.list": { params: TrashListParams; result: TrashListResult };
  /** Permanently deletes items in the trash. Items that cannot be deleted are listed with the reason; if none can, the call fails. */
  "trash.purge": { params: TrashItemsParams; result: TrashPurgeResult };
  /** Restores items. If the name of an item has been taken meanwhile a number is appended. Items that cannot be restored are listed with the reason; if none can, the call fails. */
  "trash.restore": { params: TrashItemsParams; result: TrashRestoreResult };
  /** Signs an address for the sound of a recording. */
  "voice.audio_url": { params: VoiceAudioURLParams; result: GatewayBlobURL };
  /** Ends the recording and moves it to the trash. */
  "voice.cancel": { params: VoiceStopParams; result: VoiceCancelResult };
  /** Answers a pending command. Only a command that is accepted in time runs. */
  "voice.confirm": { params: VoiceConfirmParams; result: VoiceConfirmResult };
  /** Adds a command. */
  "voice.create_command": { params: VoiceCreateCommandParams; result: VoiceCommand };
  /** Moves a command to the trash. */
  "voice.delete_command": { params: VoiceCommandParams; result: VoiceCommand };
  /** Moves a memo to the trash, with its recording and transcripts. */
  "voice.delete_memo": { params: VoiceMemoParams; result: VoiceMemo };
  /** Lists the microphones. Having none is not an error. */
  "voice.devices": { params: Record<string, never>; result: VoiceDevicesResult };
  /** Stores a corrected text as a new version. Unchanged words keep their times; new words share the time of the words that they replace. */
  "voice.edit_transcript": { params: VoiceEditParams; result: VoiceTranscript };
  /** Lists the engines and whether they are available. */
  "voice.engines": { params: Record<string, never>; result: VoiceEnginesResult };
  /** Returns a memo with its full text. */
  "voice.get_memo": { params: VoiceMemoParams; result: VoiceMemo };
  /** Returns a conversation with what was said. Turns whose recording was deleted are left out. */
  "voice.get_session": { params: VoiceSessionParams; result: VoiceSession };
  /** Returns the caller's settings. */
  "voice.get_settings": { params: Record<string, never>; result: VoiceSettings };
  /** Returns the current text of a recording, its words with their times, and a list of all versions. */
  "voice.get_transcript": { params: VoiceRecordingParams; result: VoiceTranscript };
  /** Downloads a model and checks it. If the call is canceled, what was downloaded is kept, and the next call continues. Remove the model to delete that too. */
  "voice.install_model": { params: VoiceModelParams; result: VoiceEnginesResult };
  /** Lists the caller's commands, with why any of them can't run. */
  "voice.list_commands": { params: Record<string, never>; result: VoiceCommandList };
  /** Lists memos, newest first. */
  "voice.list_memos": { params: VoiceListParams; result: VoiceListResult };
  /** Lists recordings that others left. */
  "voice.list_voicemail": { params: VoicemailParams; result: VoicemailList };
  /** Marks a message as heard or archived, or takes that back. */
  "voice.mark_voicemail": { params: VoiceMarkVoicemailParams; result: Voicemail };
  /** Stops recording. The device stays open for 30 s. */
  "voice.pause": { params: VoiceStopParams; result: VoiceStopResult };
  /** Transcribes a recording while the caller waits. Unless Discard is set, the recording is stored first, and its job stays in the queue if the caller disconnects. */
  "voice.process": { params: VoiceProcessParams; result: VoiceProcessResult };
  /** Lists the jobs that are pending, running or failed. */
  "voice.queue": { params: Record<string, never>; result: VoiceQueueResult };
  /** Ends the download of a model, if there is one, and deletes its file. */
  "voice.remove_model": { params: VoiceModelParams; result: VoiceEnginesResult };
  /** Restores a memo from the trash. */
  "voice.restore_memo": { params: VoiceMemoParams; result: VoiceMemo };
  /** Continues a paused recording. */
  "voice.resume": { params: VoiceStopParams; result: VoiceStopResult };
  /** Makes a failed or pending job due immediately. */
  "voice.retry": { params: VoiceJobParams; result: VoiceTranscribeResult };
  /** Finds recordings whose text, title or tags contain all words, and the times at which they are said. */
  "voice.search_transcripts": { params: VoiceSearchParams; result: VoiceSearchResult };
  /** Removes a job from the queue. The recording stays without a transcript. */
  "voice.skip": { params: VoiceJobParams; result: VoiceTranscribeResult };
  /** Begins a recording. */
  "voice.start": { params: VoiceStartParams; result: VoiceStartResult };
  /** Returns the state of the microphone and of the queue. */
  "voice.status": { params: Record<string, never>; result: VoiceStatusResult };
  /** Ends the recording, stores it and queues its transcription. A recording of less than 250 ms is moved to the trash. */
  "voice.stop": { params: VoiceStopParams; result: VoiceStopResult };
  /** Returns what would happen if a text were said. It runs nothing. */
  "voice.test_command": { params: VoiceTestCommandParams; result: VoiceMatchResult };
  /** Starts a recording, or stops the active one. */
  "voice.toggle": { params: VoiceToggleParams; result: VoiceToggleResult };
  /** Queues another transcription of a recording. Earlier transcripts are kept. */
  "voice.transcribe": { params: VoiceTranscribeParams; result: VoiceTranscribeResult };
  /** Restores a canceled recording. */
  "voice.undo_cancel": { params: VoiceUndoParams; result: VoiceMemo };
  /** Changes a command. */
  "voice.update_command": { params: VoiceUpdateCommandParams; result: VoiceCommand };
  /** Changes the title or the tags of a memo. */
  "voice.update_memo": { params: VoiceUpdateParams; result: VoiceMemo };
  /** Changes settings. They apply to later recordings and transcriptions. */
  "voice.update_settings": { params: VoiceSettingsParams; result: VoiceSettings };
  /** Stores a recording as a memo and queues its transcription. A file that can't be decoded is kept, together with the reason. */
  "voice.upload_memo": { params: VoiceUploadParams; result: VoiceUploadResult };
  /** Returns the waveform of a recording or a part of it. */
  "voice.waveform": { params: VoiceWaveformParams; result: VoiceWaveform };
  /** Returns the workspace of the caller. */
  "workspace.status": { params: Record<string, never>; result: CoretoolsStatus };
  /** Undoes one change to a file, using the token that the call returned. If the file has changed since, the error is a Conflict and the file is not touched. */
  "workspace.undo": { params: CoretoolsUndoParams; result: CoretoolsUndone };
}

/** Every event: the data it carries. */
export interface Events {
  /** Changed is agent.changed: budgets, personas or skill documents changed. */
  "agent.changed": AgentChanged;
  /** Changed is published when background work was paused or may continue. */
  "app.background_changed": PauseChanged;
  /** PinsChanged is published when the pinned skills or their order changed. */
  "app.pins_changed": SkillsPinsChanged;
  /** ApprovalChanged is the event approvals.changed. */
  "approvals.changed": PermissionApprovalChanged;
  /** Appended is published for each committed entry. */
  "audit.appended": AuditAppended;
  /** Changed is published when the state of a channel changes. */
  "channels.changed": ChannelsChanged;
  /** Message is published when a message was received or sent. */
  "channels.message": ChannelsMessage;
  /** Rejected is published when messages were refused. */
  "channels.rejected": ChannelsRejected;
  /** AssistantDelta is chat.assistant_delta: text to insert at a byte offset of the attempt's answer. */
  "chat.assistant_delta": AgentAssistantDelta;
  /** AttemptDiscarded is chat.attempt_discarded: discard the text of the attempt. */
  "chat.attempt_discarded": AgentAttemptDiscarded;
  /** BudgetEvent is chat.budget. */
  "chat.budget": AgentBudgetEvent;
  /** MediaAttachment is chat.media_attachment: a file shown by the model. */
  "chat.media_attachment": AgentMediaAttachment;
  /** NoticeEvent is chat.notice: a sentence for people, or a question that a turn waits for. */
  "chat.notice": AgentNoticeEvent;
  /** ReasoningDelta is chat.reasoning_delta. */
  "chat.reasoning_delta": AgentReasoningDelta;
  /** SessionChanged is chat.session_changed. */
  "chat.session_changed": AgentSessionChanged;
  /** SessionCreated is chat.session_created. */
  "chat.session_created": AgentSessionCreated;
  /** ToolFinished is chat.tool_finished. */
  "chat.tool_finished": AgentToolFinished;
  /** ToolStarted is chat.tool_started. */
  "chat.tool_started": AgentToolStarted;
  /** TurnCanceled is chat.turn_cancelled. */
  "chat.turn_cancelled": AgentTurnCanceled;
  /** TurnCompleted is chat.turn_completed. */
  "chat.turn_completed": AgentTurnCompleted;
  /** TurnFailed is chat.turn_failed. */
  "chat.turn_failed": AgentTurnFailed;
  /** TurnProgress is chat.turn_progress. */
  "chat.turn_progress": AgentTurnProgress;
  /** TurnStarted is chat.turn_started. */
  "chat.turn_started": AgentTurnStarted;
  /** Changed is published when settings have changed. */
  "config.changed": ConfigChanged;
  /** Pull is the job of getting an image from its registry. It is also the event container.pull. */
  "container.pull": ContainertoolsPull;
  /** RunChanged is the event container.run: a run has entered a phase. */
  "container.run": ContainertoolsRunChanged;
  /** StatusChanged is the event container.status_changed: an engine was found or lost. */
  "container.status_changed": ContainertoolsStatusChanged;
  /** AuthChanged is the event discovery.auth_changed: a credential was stored or removed. */
  "discovery.auth_changed": DiscoveryAuthChanged;
  /** Changed is the event discovery.changed: a tool was imported, or its state changed. */
  "discovery.changed": DiscoveryChanged;
  /** ExecutionChanged is the event discovery.execution: a run has started or ended. */
  "discovery.execution": DiscoveryExecutionChanged;
  /** JobChanged is the event discovery.job: an installation or verification got on. */
  "discovery.job": DiscoveryJobChanged;
  /** RequestChanged is the event discovery.request_changed. */
  "discovery.request_changed": DiscoveryRequestChanged;
  /** EventsGap tells a client that was too slow which events were dropped. It may request them with events.resume while they are still stored, or reload what it shows. */
  "events.gap": GatewayEventsGap;
  /** AuthChanged is published when a sign-in has ended, or its tokens were removed. */
  "mcp.auth_changed": McpAuthChanged;
  /** Changed is published when the state of a server changes. */
  "mcp.changed": McpChanged;
  /** LogAdded is published when a server's log has a new line. */
  "mcp.log": McpLogAdded;
  /** Progress is published when a server reports the progress of a call. */
  "mcp.progress": McpProgress;
  /** ToolsChanged is published when a list shows other tools than the last. */
  "mcp.tools_changed": McpToolsChanged;
  /** Changed is the event memory.changed. Op is add, update, delete, restore, purge, import or documents. IDs has at most 100 ids; Many is set if there are more. */
  "memory.changed": MemoryChanged;
  /** EmbeddingProgress is the event memory.embedding_progress, at most 4 per second. */
  "memory.embedding_progress": MemoryEmbeddingProgress;
  /** ImportDone is the event memory.import_done. */
  "memory.import_done": MemoryImportDone;
  /** ImportProgress is the event memory.import_progress, at most 4 per second. */
  "memory.import_progress": MemoryImportProgress;
  /** PatternsChanged lists patterns that were created or changed; empty if there are many. */
  "memory.patterns_changed": SynthesisPatternsChanged;
  /** Done is sent when a job has ended. */
  "memory.synthesis_done": SynthesisDone;
  /** Progress is sent while a job runs. */
  "memory.synthesis_progress": SynthesisProgress;
  /** WatchChanged is the event memory.watch_changed: the state of a watched folder changed, or the folder was removed. */
  "memory.watch_changed": MemoryWatchChanged;
  /** Changed is the event permissions.changed. */
  "permissions.changed": PermissionChanged;
  /** CatalogChanged is published when another catalog becomes active. */
  "providers.catalog_changed": ProvidersCatalogChanged;
  /** Changed is published when an entry, what is known about it, or the models of a role have changed. */
  "providers.changed": ProvidersChanged;
  /** Changed is the event that entries, layers, the soul or settings have changed. */
  "psychology.changed": PsychologyChanged;
  /** Done is the event that a run has ended. */
  "psychology.decay_done": PsychologyDone;
  /** FadingSoon is the event that something has faded below 0.3, at most once a day. */
  "psychology.fading": PsychologyFadingSoon;
  /** SandboxChanged is published when the state of the sandbox changes. */
  "sandbox.status_changed": WasmtoolsSandboxChanged;
  /** Changed is the event schedules.changed. */
  "schedules.changed": SchedulerChanged;
  /** Notification is the event schedules.notification. */
  "schedules.notification": SchedulerNotification;
  /** RunEvent is the event schedules.run_event. */
  "schedules.run_event": SchedulerRunEvent;
  /** ServicesChanged reports that a service started, stopped or failed. */
  "services.changed": GatewayServicesChanged;
  /** SessionsChanged reports that a session of the user was opened or closed. */
  "sessions.changed": GatewaySessionsChanged;
  /** Output is the event shell.output: a command has written something. */
  "shell.output": ShellOutput;
  /** Changed is the event skills.changed. */
  "skills.changed": SkillsChanged;
  /** SkillExecutionChanged reports the progress of a run of a WASM tool. Seq counts from 1 within a run. Status is running until the last report. Progress is the fraction of the time limit that has passed, 0 to 1. Waiting is queued or approval while the run has not started. Log is a line written by the WASM tool. */
  "skills.execution_changed": ToolsSkillExecutionChanged;
  /** Notification is the event skills.notification: a skill shows a notification. */
  "skills.notification": SkillsNotification;
  /** RunEvent is one event of a run, also the event skills.run_event. Seq has no gaps. */
  "skills.run_event": SkillsRunEvent;
  /** WasmChanged is published when a WASM tool of the user changes. Kind is created, updated, enabled, disabled, deleted, restored, signed or used. */
  "skills.wasm_changed": WasmtoolsWasmChanged;
  /** BackupProgress is the event storage.backup_progress for backup, restore, migration, export, import and salvage. Done and Total are bytes, or rows if Unit says so. */
  "storage.backup_progress": StorageBackupProgress;
  /** Changed is the event storage.changed: rows of Table were changed by storage itself (import, restore, prune) or by sync. Many means that there are too many ids to list. */
  "storage.changed": StorageChanged;
  /** LowSpace is the event storage.low_space; Low is false when there is room again. */
  "storage.low_space": StorageLowSpace;
  /** Recovery is the event storage.recovery. A nil State means that recovery mode ended. */
  "storage.recovery": StorageRecovery;
  /** ConflictsChanged is published when conflicts were added or resolved. */
  "sync.conflict": CloudsyncConflictsChanged;
  /** DeadLettersChanged is published when a dead letter was added, retried or discarded. */
  "sync.dead_letter": CloudsyncDeadLettersChanged;
  /** Applied is published when rows from other devices were stored. */
  "sync.delta": CloudsyncApplied;
  /** Progress is the progress of the first copy. */
  "sync.progress": CloudsyncProgress;
  /** StatusChanged is published when the state or the error changes. */
  "sync.status": CloudsyncStatusChanged;
  /** SystemStopping reports that Helix is about to end the session. */
  "system.stopping": GatewaySystemStopping;
  /** TokensChanged reports that the user's list of tokens changed. */
  "tokens.changed": GatewayTokensChanged;
  /** Changed is published when a tool of the user changes. Kind is created, updated, enabled, disabled, deleted, restored, signed, shared, unshared, state, secrets or signers. ToolID is zero if the change does not concern a single tool. */
  "tools.changed": ToolsChanged;
  /** Execution reports the progress of a run. Seq counts from 1 within a run, so that a client can order the reports. State is running, success, failure, timeout or canceled. Progress is the fraction of the time limit that has passed, 0 to 1. Log is a line written by the tool. */
  "tools.execution": ToolsExecution;
  /** Suspended is published when a change of definition suspends a tool's grants. */
  "tools.suspended": ToolsSuspended;
  /** Changed is the event trash.changed: items were permanently deleted. Moving an item to the trash or restoring it is published by its own domain. */
  "trash.changed": TrashChanged;
  /** CommandHeard is published when a recording of the mode command was transcribed, and when a pending command is answered or expires. */
  "voice.command": VoiceCommandHeard;
  /** LevelChanged is published 20 times a second during a recording. */
  "voice.level": VoiceLevelChanged;
  /** ModelProgress is published while a model is downloaded, at most four times per second, and when that ends. */
  "voice.model_progress": VoiceModelProgress;
  /** PartialHeard is published with texts of a recording in progress. A text that is not final is replaced by the next one. They are a preview: when the recording has ended, it is transcribed as a whole. */
  "voice.partial": VoicePartialHeard;
  /** QueueChanged is published when the queue changes. */
  "voice.queue": VoiceQueueChanged;
  /** StateChanged is published when the microphone or the active recording changes. */
  "voice.state": VoiceStateChanged;
  /** Transcribed is published when the transcription status of a recording changes. */
  "voice.transcript": VoiceTranscribed;
}

/** A scope that a session may hold. */
export type Scope = "none" | "read" | "write" | "approve" | "admin";

/** What the client must know of each method besides its types. */
export const METHODS = [
  { name: "agent.add_skill", scope: "write", costly: false },
  { name: "agent.budgets", scope: "read", costly: false },
  { name: "agent.ledger", scope: "read", costly: false },
  { name: "agent.persona", scope: "read", costly: false },
  { name: "agent.personas", scope: "read", costly: false },
  { name: "agent.remove_skill", scope: "write", costly: false },
  { name: "agent.replay", scope: "read", costly: false },
  { name: "agent.set_budget", scope: "admin", costly: false },
  { name: "agent.set_persona", scope: "write", costly: false },
  { name: "agent.set_skill", scope: "approve", costly: false },
  { name: "agent.skill", scope: "read", costly: false },
  { name: "agent.skills", scope: "read", costly: false },
  { name: "agent.status", scope: "read", costly: false },
  { name: "agent.to_skill", scope: "write", costly: false },
  { name: "agent.tools", scope: "read", costly: false },
  { name: "agent.tree", scope: "read", costly: false },
  { name: "app.activate", scope: "write", costly: false },
  { name: "app.focused", scope: "write", costly: false },
  { name: "app.pause_background", scope: "write", costly: false },
  { name: "app.pin_skill", scope: "write", costly: false },
  { name: "app.set_autostart", scope: "write", costly: false },
  { name: "app.set_hotkey", scope: "write", costly: false },
  { name: "app.state", scope: "read", costly: false },
  { name: "approvals.decide", scope: "approve", costly: false },
  { name: "approvals.get", scope: "read", costly: false },
  { name: "approvals.list", scope: "read", costly: false },
  { name: "audit.accept", scope: "admin", costly: false, deadlineMs: 3600000 },
  { name: "audit.device_key", scope: "read", costly: false },
  { name: "audit.erase_details", scope: "admin", costly: false, deadlineMs: 3600000 },
  { name: "audit.export", scope: "admin", costly: false, deadlineMs: 3600000 },
  { name: "audit.get", scope: "read", costly: false },
  { name: "audit.list", scope: "read", costly: false },
  { name: "audit.verify", scope: "read", costly: false, deadlineMs: 3600000 },
  { name: "blobs.url", scope: "read", costly: false },
  { name: "callables.call", scope: "write", costly: true, deadlineMs: 240000 },
  { name: "callables.list", scope: "read", costly: false },
  { name: "catalog.fetch", scope: "admin", costly: true, deadlineMs: 240000 },
  { name: "catalog.show", scope: "read", costly: false },
  { name: "catalog.verify", scope: "read", costly: false },
  { name: "channels.add", scope: "admin", costly: false },
  { name: "channels.allow", scope: "approve", costly: false },
  { name: "channels.disallow", scope: "write", costly: false },
  { name: "channels.drop", scope: "write", costly: false },
  { name: "channels.get", scope: "read", costly: false },
  { name: "channels.list", scope: "read", costly: false },
  { name: "channels.pair", scope: "approve", costly: false },
  { name: "channels.queue", scope: "read", costly: false },
  { name: "channels.rejected", scope: "read", costly: false },
  { name: "channels.remove", scope: "admin", costly: false },
  { name: "channels.retry", scope: "write", costly: false },
  { name: "channels.routes", scope: "read", costly: false },
  { name: "channels.send", scope: "write", costly: false },
  { name: "channels.senders", scope: "read", costly: false },
  { name: "channels.sessions", scope: "read", costly: false },
  { name: "channels.set_enabled", scope: "write", costly: false },
  { name: "channels.set_route", scope: "write", costly: false },
  { name: "channels.test", scope: "write", costly: false },
  { name: "channels.unbind", scope: "write", costly: false },
  { name: "channels.undo", scope: "admin", costly: false },
  { name: "channels.update", scope: "admin", costly: false },
  { name: "chat.archive", scope: "write", costly: false },
  { name: "chat.attach", scope: "write", costly: false },
  { name: "chat.cancel", scope: "write", costly: false },
  { name: "chat.cancel_active_turn", scope: "write", costly: false, aliasOf: "chat.cancel" },
  { name: "chat.cancel_all", scope: "write", costly: false },
  { name: "chat.cancel_all_active_turns", scope: "write", costly: false, aliasOf: "chat.cancel_all" },
  { name: "chat.context", scope: "read", costly: false },
  { name: "chat.cost", scope: "read", costly: false },
  { name: "chat.create", scope: "write", costly: false },
  { name: "chat.create_session", scope: "write", costly: false, aliasOf: "chat.create" },
  { name: "chat.delete", scope: "write", costly: false },
  { name: "chat.events", scope: "read", costly: false },
  { name: "chat.export", scope: "read", costly: false },
  { name: "chat.fork", scope: "write", costly: false },
  { name: "chat.get", scope: "read", costly: false },
  { name: "chat.health_check", scope: "read", costly: false, aliasOf: "agent.status" },
  { name: "chat.import", scope: "write", costly: true },
  { name: "chat.list", scope: "read", costly: false },
  { name: "chat.list_sessions", scope: "read", costly: false, aliasOf: "chat.list" },
  { name: "chat.messages", scope: "read", costly: false },
  { name: "chat.pin", scope: "write", costly: false },
  { name: "chat.rename", scope: "write", costly: false },
  { name: "chat.restore", scope: "write", costly: false },
  { name: "chat.retry", scope: "write", costly: true },
  { name: "chat.search", scope: "read", costly: false },
  { name: "chat.send", scope: "write", costly: true },
  { name: "chat.send_turn", scope: "write", costly: true, aliasOf: "chat.send" },
  { name: "chat.set_mode", scope: "write", costly: false },
  { name: "chat.set_queue_mode", scope: "write", costly: false },
  { name: "chat.unarchive", scope: "write", costly: false },
  { name: "chat.wait", scope: "read", costly: false, deadlineMs: 240000 },
  { name: "config.get", scope: "read", costly: false },
  { name: "config.schema", scope: "read", costly: false },
  { name: "config.set", scope: "admin", costly: false },
  { name: "connect", scope: "none", costly: false },
  { name: "container.add", scope: "write", costly: false },
  { name: "container.approve", scope: "approve", costly: false, deadlineMs: 3600000 },
  { name: "container.clear_state", scope: "write", costly: false },
  { name: "container.image_import", scope: "write", costly: true, deadlineMs: 3600000 },
  { name: "container.image_pull", scope: "approve", costly: true },
  { name: "container.image_remove", scope: "write", costly: false },
  { name: "container.images", scope: "read", costly: false },
  { name: "container.kill", scope: "write", costly: false },
  { name: "container.pull_cancel", scope: "write", costly: false },
  { name: "container.pulls", scope: "read", costly: false },
  { name: "container.reap", scope: "write", costly: false },
  { name: "container.recheck", scope: "write", costly: false, deadlineMs: 240000 },
  { name: "container.restore_state", scope: "write", costly: false, deadlineMs: 3600000 },
  { name: "container.revoke", scope: "write", costly: false },
  { name: "container.run", scope: "write", costly: true, deadlineMs: 3600000 },
  { name: "container.run_image", scope: "approve", costly: true, deadlineMs: 3600000 },
  { name: "container.set_enabled", scope: "write", costly: false },
  { name: "container.status", scope: "read", costly: false },
  { name: "container.tools", scope: "read", costly: false },
  { name: "container.volume_remove", scope: "write", costly: false },
  { name: "container.volumes", scope: "read", costly: false },
  { name: "cron.add", scope: "write", costly: false, aliasOf: "schedules.create" },
  { name: "cron.create", scope: "write", costly: false, aliasOf: "schedules.create" },
  { name: "cron.list", scope: "read", costly: false, aliasOf: "schedules.list" },
  { name: "cron.remove", scope: "write", costly: false, aliasOf: "schedules.delete" },
  { name: "cron.run", scope: "write", costly: false, aliasOf: "schedules.run_now" },
  { name: "cron.runs", scope: "read", costly: false, aliasOf: "schedules.runs" },
  { name: "cron.status", scope: "read", costly: false, aliasOf: "schedules.status" },
  { name: "cron.update", scope: "write", costly: false, aliasOf: "schedules.update" },
  { name: "discover_tool", scope: "write", costly: false, aliasOf: "discovery.request" },
  { name: "discovery.accept", scope: "write", costly: true, deadlineMs: 240000 },
  { name: "discovery.approve", scope: "approve", costly: false },
  { name: "discovery.cancel", scope: "write", costly: false },
  { name: "discovery.cancel_request", scope: "write", costly: false, aliasOf: "discovery.reject" },
  { name: "discovery.catalog_add", scope: "write", costly: true, deadlineMs: 240000 },
  { name: "discovery.catalog_refresh", scope: "write", costly: true, deadlineMs: 240000 },
  { name: "discovery.catalog_remove", scope: "write", costly: false },
  { name: "discovery.catalogs", scope: "read", costly: false },
  { name: "discovery.clear_auth", scope: "write", costly: false },
  { name: "discovery.execution", scope: "read", costly: false },
  { name: "discovery.executions", scope: "read", costly: false },
  { name: "discovery.get", scope: "read", costly: false },
  { name: "discovery.import", scope: "write", costly: true, aliasOf: "discovery.import_manifest", deadlineMs: 240000 },
  { name: "discovery.import_manifest", scope: "write", costly: true, deadlineMs: 240000 },
  { name: "discovery.import_openapi", scope: "write", costly: true, deadlineMs: 240000 },
  { name: "discovery.inspect_openapi", scope: "write", costly: true, deadlineMs: 240000 },
  { name: "discovery.install", scope: "write", costly: true },
  { name: "discovery.list", scope: "read", costly: false },
  { name: "discovery.oauth_start", scope: "approve", costly: false },
  { name: "discovery.operations", scope: "read", costly: false },
  { name: "discovery.queue", scope: "read", costly: false },
  { name: "discovery.queue_get", scope: "read", costly: false },
  { name: "discovery.reject", scope: "write", costly: false },
  { name: "discovery.request", scope: "write", costly: false },
  { name: "discovery.revoke", scope: "write", costly: false },
  { name: "discovery.run", scope: "write", costly: true, deadlineMs: 3600000 },
  { name: "discovery.search", scope: "read", costly: false },
  { name: "discovery.set_auth", scope: "approve", costly: false },
  { name: "discovery.set_enabled", scope: "write", costly: false },
  { name: "discovery.upgrade", scope: "write", costly: true, deadlineMs: 240000 },
  { name: "discovery.verify", scope: "write", costly: true },
  { name: "eval.list", scope: "read", costly: false },
  { name: "eval.result", scope: "read", costly: false, deadlineMs: 240000 },
  { name: "eval.run", scope: "write", costly: true },
  { name: "events.resume", scope: "read", costly: false },
  { name: "events.subscribe", scope: "read", costly: false },
  { name: "events.unsubscribe", scope: "read", costly: false },
  { name: "get_rust_exe_status", scope: "read", costly: false, aliasOf: "services.list" },
  { name: "keys.export_recovery", scope: "admin", costly: false },
  { name: "keys.import_recovery", scope: "admin", costly: false },
  { name: "keys.move_to_keyring", scope: "admin", costly: false },
  { name: "keys.rotate", scope: "admin", costly: false },
  { name: "keys.status", scope: "admin", costly: false },
  { name: "keys.unlock", scope: "admin", costly: false },
  { name: "mcp.add", scope: "write", costly: false },
  { name: "mcp.approve_server", scope: "approve", costly: false },
  { name: "mcp.auth_clear", scope: "write", costly: false, deadlineMs: 240000 },
  { name: "mcp.auth_start", scope: "approve", costly: false, deadlineMs: 240000 },
  { name: "mcp.call", scope: "write", costly: true, deadlineMs: 660000 },
  { name: "mcp.call_exposed", scope: "write", costly: true, deadlineMs: 660000 },
  { name: "mcp.export", scope: "read", costly: false },
  { name: "mcp.expose", scope: "admin", costly: false },
  { name: "mcp.exposed", scope: "read", costly: false },
  { name: "mcp.import", scope: "write", costly: false },
  { name: "mcp.logs", scope: "read", costly: false },
  { name: "mcp.prompt", scope: "write", costly: false, deadlineMs: 240000 },
  { name: "mcp.prompts", scope: "read", costly: false, deadlineMs: 240000 },
  { name: "mcp.read_resource", scope: "write", costly: false, deadlineMs: 240000 },
  { name: "mcp.remove", scope: "write", costly: false },
  { name: "mcp.resources", scope: "read", costly: false, deadlineMs: 240000 },
  { name: "mcp.restart", scope: "write", costly: false, deadlineMs: 240000 },
  { name: "mcp.server", scope: "read", costly: false },
  { name: "mcp.servers", scope: "read", costly: false },
  { name: "mcp.sources", scope: "read", costly: false },
  { name: "mcp.start", scope: "write", costly: false, deadlineMs: 240000 },
  { name: "mcp.stop", scope: "write", costly: false },
  { name: "mcp.test", scope: "write", costly: false, deadlineMs: 240000 },
  { name: "mcp.tools", scope: "read", costly: false, deadlineMs: 240000 },
  { name: "mcp.undo", scope: "write", costly: false },
  { name: "mcp.update", scope: "write", costly: false },
  { name: "memory.add", scope: "write", costly: false },
  { name: "memory.add_batch", scope: "write", costly: false },
  { name: "memory.cluster_map", scope: "read", costly: true },
  { name: "memory.conversation", scope: "read", costly: false },
  { name: "memory.conversations", scope: "read", costly: false },
  { name: "memory.delete", scope: "write", costly: false },
  { name: "memory.delete_conversation", scope: "write", costly: false },
  { name: "memory.delete_document", scope: "write", costly: false },
  { name: "memory.dismiss_people", scope: "write", costly: false },
  { name: "memory.document", scope: "read", costly: false },
  { name: "memory.embedding_status", scope: "read", costly: false },
  { name: "memory.export", scope: "read", costly: true, deadlineMs: 240000 },
  { name: "memory.get", scope: "read", costly: false },
  { name: "memory.get_pattern", scope: "read", costly: false },
  { name: "memory.history", scope: "read", costly: false },
  { name: "memory.import", scope: "write", costly: true },
  { name: "memory.import_cancel", scope: "write", costly: false },
  { name: "memory.import_preview", scope: "write", costly: true, deadlineMs: 240000 },
  { name: "memory.import_status", scope: "read", costly: false },
  { name: "memory.imports", scope: "read", costly: false },
  { name: "memory.list", scope: "read", costly: false },
  { name: "memory.list_documents", scope: "read", costly: false },
  { name: "memory.list_patterns", scope: "read", costly: false },
  { name: "memory.list_people", scope: "read", costly: true },
  { name: "memory.list_recommendations", scope: "read", costly: false },
  { name: "memory.merge_people", scope: "write", costly: false },
  { name: "memory.pattern_feedback", scope: "write", costly: false },
  { name: "memory.pin", scope: "write", costly: false },
  { name: "memory.purge", scope: "admin", costly: false },
  { name: "memory.reembed", scope: "write", costly: false },
  { name: "memory.related", scope: "read", costly: false },
  { name: "memory.rename_person", scope: "write", costly: false },
  { name: "memory.restore", scope: "write", costly: false },
  { name: "memory.search", scope: "read", costly: false },
  { name: "memory.search_enhanced", scope: "read", costly: false },
  { name: "memory.set_salience", scope: "write", costly: false },
  { name: "memory.set_untrusted", scope: "write", costly: false },
  { name: "memory.split_person", scope: "write", costly: false },
  { name: "memory.stats", scope: "read", costly: false },
  { name: "memory.synthesis_cancel", scope: "write", costly: false },
  { name: "memory.synthesis_history", scope: "read", costly: false },
  { name: "memory.synthesis_preview", scope: "read", costly: false },
  { name: "memory.synthesis_schedule", scope: "write", costly: false },
  { name: "memory.synthesis_status", scope: "read", costly: false },
  { name: "memory.synthesize", scope: "write", costly: true },
  { name: "memory.tag", scope: "write", costly: false },
  { name: "memory.undo", scope: "write", costly: false },
  { name: "memory.update", scope: "write", costly: false },
  { name: "memory.update_recommendation", scope: "write", costly: false },
  { name: "memory.upsert_chunks", scope: "write", costly: true },
  { name: "memory.watch_add", scope: "write", costly: true },
  { name: "memory.watch_list", scope: "read", costly: false },
  { name: "memory.watch_pause", scope: "write", costly: false },
  { name: "memory.watch_remove", scope: "write", costly: false },
  { name: "memory.watch_resume", scope: "write", costly: false },
  { name: "memory_delete", scope: "write", costly: false, aliasOf: "memory.delete" },
  { name: "memory_save", scope: "write", costly: false, aliasOf: "memory.add" },
  { name: "memory_search", scope: "read", costly: false, aliasOf: "memory.search" },
  { name: "memory_update", scope: "write", costly: false, aliasOf: "memory.update" },
  { name: "openapi.inspect", scope: "write", costly: true, aliasOf: "discovery.inspect_openapi", deadlineMs: 240000 },
  { name: "permissions.diff", scope: "read", costly: false },
  { name: "permissions.list", scope: "read", costly: false },
  { name: "permissions.preview", scope: "read", costly: false },
  { name: "permissions.revoke", scope: "write", costly: false },
  { name: "providers.count_tokens", scope: "read", costly: false },
  { name: "providers.detect", scope: "write", costly: true },
  { name: "providers.get", scope: "read", costly: false },
  { name: "providers.list", scope: "read", costly: false },
  { name: "providers.models", scope: "read", costly: false },
  { name: "providers.remove", scope: "admin", costly: false },
  { name: "providers.roles", scope: "read", costly: false },
  { name: "providers.set", scope: "admin", costly: false },
  { name: "providers.set_role", scope: "write", costly: false },
  { name: "providers.test", scope: "write", costly: true, deadlineMs: 240000 },
  { name: "psychology.accept_proposal", scope: "write", costly: false },
  { name: "psychology.decay_history", scope: "read", costly: false },
  { name: "psychology.decay_run", scope: "write", costly: true },
  { name: "psychology.delete_entry", scope: "write", costly: false },
  { name: "psychology.dismiss_proposal", scope: "write", costly: false },
  { name: "psychology.emotional_map", scope: "read", costly: false },
  { name: "psychology.export", scope: "read", costly: false },
  { name: "psychology.fading", scope: "read", costly: false },
  { name: "psychology.forecast", scope: "read", costly: false },
  { name: "psychology.get_all_layers", scope: "read", costly: false },
  { name: "psychology.get_layer", scope: "read", costly: false },
  { name: "psychology.get_layer_status", scope: "read", costly: false },
  { name: "psychology.get_memory_patterns", scope: "read", costly: false, aliasOf: "memory.list_patterns" },
  { name: "psychology.get_settings", scope: "read", costly: false },
  { name: "psychology.get_soul", scope: "read", costly: false },
  { name: "psychology.goals", scope: "read", costly: false },
  { name: "psychology.import", scope: "write", costly: false },
  { name: "psychology.overview", scope: "read", costly: false },
  { name: "psychology.pin", scope: "write", costly: false },
  { name: "psychology.plan_reviews", scope: "write", costly: false },
  { name: "psychology.purpose", scope: "read", costly: false },
  { name: "psychology.record_interaction", scope: "write", costly: false },
  { name: "psychology.reinforce", scope: "write", costly: false },
  { name: "psychology.restore_from_decay", scope: "write", costly: false },
  { name: "psychology.run_decay", scope: "write", costly: true, aliasOf: "psychology.decay_run" },
  { name: "psychology.run_synthesis", scope: "write", costly: true },
  { name: "psychology.set_salience", scope: "write", costly: false },
  { name: "psychology.soul_history", scope: "read", costly: false },
  { name: "psychology.transformation", scope: "read", costly: false },
  { name: "psychology.trust_map", scope: "read", costly: false },
  { name: "psychology.undo", scope: "write", costly: false },
  { name: "psychology.update_layer", scope: "write", costly: false },
  { name: "psychology.update_settings", scope: "write", costly: false },
  { name: "psychology.update_soul", scope: "write", costly: false },
  { name: "psychology.upsert_entry", scope: "write", costly: false },
  { name: "rpc.discover", scope: "read", costly: false },
  { name: "sandbox.bench", scope: "write", costly: true, deadlineMs: 240000 },
  { name: "sandbox.clear_cache", scope: "write", costly: false },
  { name: "sandbox.run", scope: "approve", costly: true, deadlineMs: 240000 },
  { name: "sandbox.status", scope: "read", costly: false },
  { name: "schedules.calendar", scope: "read", costly: false },
  { name: "schedules.cancel_run", scope: "write", costly: false },
  { name: "schedules.create", scope: "write", costly: false },
  { name: "schedules.delete", scope: "write", costly: false },
  { name: "schedules.get", scope: "read", costly: false },
  { name: "schedules.list", scope: "read", costly: false },
  { name: "schedules.notices", scope: "read", costly: false },
  { name: "schedules.pause", scope: "write", costly: false },
  { name: "schedules.pause_all", scope: "write", costly: false },
  { name: "schedules.preview", scope: "read", costly: false },
  { name: "schedules.restore", scope: "write", costly: false },
  { name: "schedules.resume", scope: "write", costly: false },
  { name: "schedules.resume_all", scope: "write", costly: false },
  { name: "schedules.run_now", scope: "write", costly: false },
  { name: "schedules.run_output", scope: "read", costly: false },
  { name: "schedules.runs", scope: "read", costly: false },
  { name: "schedules.status", scope: "read", costly: false },
  { name: "schedules.take_notices", scope: "write", costly: false },
  { name: "schedules.take_over", scope: "write", costly: false },
  { name: "schedules.templates", scope: "read", costly: false },
  { name: "schedules.update", scope: "write", costly: false },
  { name: "secrets.delete", scope: "admin", costly: false },
  { name: "secrets.list", scope: "admin", costly: false },
  { name: "secrets.set", scope: "admin", costly: false },
  { name: "services.list", scope: "read", costly: false },
  { name: "services.restart", scope: "write", costly: false },
  { name: "services.start", scope: "write", costly: false },
  { name: "services.stop", scope: "write", costly: false },
  { name: "session.get", scope: "read", costly: false },
  { name: "sessions.close", scope: "admin", costly: false },
  { name: "sessions.list", scope: "admin", costly: false },
  { name: "sessions.ticket", scope: "admin", costly: false },
  { name: "shell.exec", scope: "write", costly: false, deadlineMs: 3600000 },
  { name: "shell.kill", scope: "write", costly: false },
  { name: "shell.list", scope: "read", costly: false },
  { name: "shell.spawn", scope: "write", costly: true, deadlineMs: 240000 },
  { name: "shell.stream", scope: "read", costly: false },
  { name: "skills.answer", scope: "approve", costly: false },
  { name: "skills.cancel", scope: "write", costly: false },
  { name: "skills.catalog", scope: "read", costly: false },
  { name: "skills.clone_composite", scope: "write", costly: false },
  { name: "skills.create_composite", scope: "write", costly: false },
  { name: "skills.create_from_template", scope: "write", costly: false },
  { name: "skills.create_wasm", scope: "write", costly: true, deadlineMs: 240000 },
  { name: "skills.delete_composite", scope: "write", costly: false },
  { name: "skills.delete_wasm", scope: "write", costly: false },
  { name: "skills.diff_versions", scope: "read", costly: false },
  { name: "skills.document", scope: "read", costly: false },
  { name: "skills.dry_run", scope: "write", costly: true, deadlineMs: 240000 },
  { name: "skills.evaluate", scope: "read", costly: false },
  { name: "skills.events", scope: "read", costly: false },
  { name: "skills.execute", scope: "write", costly: true, deadlineMs: 240000 },
  { name: "skills.execute_composite", scope: "write", costly: true, deadlineMs: 240000 },
  { name: "skills.export", scope: "read", costly: false },
  { name: "skills.get_execution", scope: "read", costly: false },
  { name: "skills.get_metadata", scope: "read", costly: false },
  { name: "skills.get_skill_metadata", scope: "read", costly: false, aliasOf: "skills.get_metadata" },
  { name: "skills.get_version", scope: "read", costly: false },
  { name: "skills.get_wasm", scope: "read", costly: false },
  { name: "skills.history", scope: "read", costly: false },
  { name: "skills.import", scope: "write", costly: false },
  { name: "skills.list_composite", scope: "read", costly: false },
  { name: "skills.list_user_skills", scope: "read", costly: false, aliasOf: "skills.list_composite" },
  { name: "skills.list_versions", scope: "read", costly: false },
  { name: "skills.list_wasm", scope: "read", costly: false },
  { name: "skills.pin", scope: "write", costly: false },
  { name: "skills.preview_rights", scope: "read", costly: false },
  { name: "skills.purge_history", scope: "admin", costly: false },
  { name: "skills.replay", scope: "read", costly: false },
  { name: "skills.restart", scope: "write", costly: false },
  { name: "skills.restore_composite", scope: "write", costly: false },
  { name: "skills.restore_wasm", scope: "write", costly: false },
  { name: "skills.rollback", scope: "write", costly: false },
  { name: "skills.search_public", scope: "read", costly: false },
  { name: "skills.share", scope: "write", costly: false },
  { name: "skills.shares", scope: "read", costly: false },
  { name: "skills.sign_wasm", scope: "approve", costly: false },
  { name: "skills.status", scope: "read", costly: false },
  { name: "skills.templates", scope: "read", costly: false },
  { name: "skills.unshare", scope: "write", costly: false },
  { name: "skills.update_composite", scope: "write", costly: false },
  { name: "skills.update_wasm", scope: "write", costly: false, deadlineMs: 240000 },
  { name: "skills.upload_wasm", scope: "write", costly: false },
  { name: "skills.validate_composite", scope: "read", costly: false },
  { name: "skills.validate_wasm", scope: "read", costly: true, deadlineMs: 240000 },
  { name: "skills.wasm_executions", scope: "read", costly: false },
  { name: "start_memory_synthesis", scope: "write", costly: false, aliasOf: "services.start" },
  { name: "start_psychology_decay", scope: "write", costly: false, aliasOf: "services.start" },
  { name: "start_skill_sandbox", scope: "write", costly: false, aliasOf: "services.start" },
  { name: "start_sync_coordinator", scope: "write", costly: false, aliasOf: "services.start" },
  { name: "start_voice_pipeline", scope: "write", costly: false, aliasOf: "services.start" },
  { name: "stop_all_rust_exes", scope: "write", costly: false, aliasOf: "services.stop" },
  { name: "stop_rust_exe", scope: "write", costly: false, aliasOf: "services.stop" },
  { name: "storage.backup", scope: "admin", costly: false, deadlineMs: 3600000 },
  { name: "storage.backups", scope: "read", costly: false },
  { name: "storage.check", scope: "admin", costly: false, deadlineMs: 3600000 },
  { name: "storage.export", scope: "admin", costly: false, deadlineMs: 3600000 },
  { name: "storage.import", scope: "admin", costly: false, deadlineMs: 3600000 },
  { name: "storage.migrate", scope: "admin", costly: false, deadlineMs: 3600000 },
  { name: "storage.prune", scope: "write", costly: false, deadlineMs: 3600000 },
  { name: "storage.restore", scope: "admin", costly: false, deadlineMs: 3600000 },
  { name: "storage.rollback", scope: "admin", costly: false, deadlineMs: 3600000 },
  { name: "storage.salvage", scope: "admin", costly: false, deadlineMs: 3600000 },
  { name: "storage.start_new", scope: "admin", costly: false, deadlineMs: 3600000 },
  { name: "storage.status", scope: "read", costly: false },
  { name: "storage.verify_backup", scope: "read", costly: false, deadlineMs: 3600000 },
  { name: "sync.change", scope: "write", costly: false },
  { name: "sync.conflicts", scope: "read", costly: false },
  { name: "sync.coordinate", scope: "write", costly: false, deadlineMs: 3600000 },
  { name: "sync.dead_letters", scope: "read", costly: false },
  { name: "sync.devices", scope: "read", costly: false },
  { name: "sync.discard_dead_letter", scope: "write", costly: false },
  { name: "sync.disconnect", scope: "admin", costly: false },
  { name: "sync.enroll", scope: "admin", costly: false, deadlineMs: 240000 },
  { name: "sync.export_recovery", scope: "admin", costly: false },
  { name: "sync.invite", scope: "admin", costly: false },
  { name: "sync.pause", scope: "write", costly: false },
  { name: "sync.presence", scope: "read", costly: false },
  { name: "sync.purge", scope: "admin", costly: false, aliasOf: "trash.purge", deadlineMs: 3600000 },
  { name: "sync.rename_device", scope: "admin", costly: false },
  { name: "sync.resolve", scope: "write", costly: false, deadlineMs: 3600000 },
  { name: "sync.resolve_conflict", scope: "write", costly: false, aliasOf: "sync.resolve", deadlineMs: 3600000 },
  { name: "sync.restore", scope: "write", costly: false, aliasOf: "trash.restore" },
  { name: "sync.resume", scope: "write", costly: false },
  { name: "sync.retry_dead_letter", scope: "write", costly: false },
  { name: "sync.revoke_device", scope: "admin", costly: false },
  { name: "sync.rotate_key", scope: "admin", costly: false },
  { name: "sync.selftest", scope: "admin", costly: false, deadlineMs: 240000 },
  { name: "sync.setup", scope: "admin", costly: false, deadlineMs: 240000 },
  { name: "sync.sign_in", scope: "admin", costly: false },
  { name: "sync.statistics", scope: "read", costly: false },
  { name: "sync.status", scope: "read", costly: false },
  { name: "sync.trash", scope: "read", costly: false, aliasOf: "trash.list" },
  { name: "sync.undo_resolve", scope: "write", costly: false, deadlineMs: 3600000 },
  { name: "system.status", scope: "read", costly: false },
  { name: "system.stop", scope: "admin", costly: false },
  { name: "tokens.create", scope: "admin", costly: false },
  { name: "tokens.list", scope: "admin", costly: false },
  { name: "tokens.revoke", scope: "admin", costly: false },
  { name: "tokens.rotate_root", scope: "admin", costly: false },
  { name: "tools.audit", scope: "read", costly: false },
  { name: "tools.cancel", scope: "write", costly: false },
  { name: "tools.capabilities", scope: "read", costly: false },
  { name: "tools.clone", scope: "write", costly: false },
  { name: "tools.create", scope: "write", costly: false },
  { name: "tools.create_custom", scope: "write", costly: false, aliasOf: "tools.create" },
  { name: "tools.delete", scope: "write", costly: false },
  { name: "tools.delete_custom", scope: "write", costly: false, aliasOf: "tools.delete" },
  { name: "tools.diff", scope: "read", costly: false },
  { name: "tools.execute", scope: "write", costly: true, aliasOf: "tools.execute_custom", deadlineMs: 240000 },
  { name: "tools.execute_custom", scope: "write", costly: true, deadlineMs: 240000 },
  { name: "tools.export", scope: "read", costly: false },
  { name: "tools.get", scope: "read", costly: false },
  { name: "tools.get_metadata", scope: "read", costly: false },
  { name: "tools.import", scope: "write", costly: true },
  { name: "tools.list", scope: "read", costly: false },
  { name: "tools.list_custom", scope: "read", costly: false, aliasOf: "tools.list" },
  { name: "tools.marketplace", scope: "read", costly: false, aliasOf: "tools.search" },
  { name: "tools.metadata", scope: "read", costly: false, aliasOf: "tools.get_metadata" },
  { name: "tools.resolve_share", scope: "read", costly: false },
  { name: "tools.restore", scope: "write", costly: false },
  { name: "tools.rollback", scope: "write", costly: false },
  { name: "tools.run", scope: "write", costly: true, aliasOf: "tools.execute_custom", deadlineMs: 240000 },
  { name: "tools.search", scope: "read", costly: false },
  { name: "tools.secret_delete", scope: "write", costly: false },
  { name: "tools.secret_set", scope: "approve", costly: false },
  { name: "tools.secrets", scope: "read", costly: false },
  { name: "tools.set_enabled", scope: "write", costly: false },
  { name: "tools.share", scope: "write", costly: false },
  { name: "tools.shares", scope: "read", costly: false },
  { name: "tools.sign", scope: "write", costly: false },
  { name: "tools.signers", scope: "read", costly: false },
  { name: "tools.state", scope: "read", costly: false },
  { name: "tools.state_clear", scope: "write", costly: false },
  { name: "tools.state_restore", scope: "write", costly: false },
  { name: "tools.templates", scope: "read", costly: false },
  { name: "tools.trust_signer", scope: "approve", costly: false },
  { name: "tools.unshare", scope: "write", costly: false },
  { name: "tools.update", scope: "write", costly: false },
  { name: "tools.update_custom", scope: "write", costly: false, aliasOf: "tools.update" },
  { name: "tools.usage", scope: "read", costly: false },
  { name: "tools.usage_history", scope: "read", costly: false, aliasOf: "tools.usage" },
  { name: "tools.validate", scope: "read", costly: false },
  { name: "tools.versions", scope: "read", costly: false },
  { name: "trash.empty", scope: "admin", costly: false, deadlineMs: 3600000 },
  { name: "trash.list", scope: "read", costly: false },
  { name: "trash.purge", scope: "admin", costly: false, deadlineMs: 3600000 },
  { name: "trash.restore", scope: "write", costly: false },
  { name: "voice.audio_url", scope: "read", costly: true, deadlineMs: 240000 },
  { name: "voice.cancel", scope: "write", costly: false },
  { name: "voice.confirm", scope: "write", costly: false },
  { name: "voice.create_command", scope: "write", costly: false },
  { name: "voice.delete_command", scope: "write", costly: false },
  { name: "voice.delete_memo", scope: "write", costly: false },
  { name: "voice.devices", scope: "read", costly: false },
  { name: "voice.edit_transcript", scope: "write", costly: false },
  { name: "voice.engines", scope: "read", costly: false },
  { name: "voice.get_memo", scope: "read", costly: false },
  { name: "voice.get_session", scope: "read", costly: false },
  { name: "voice.get_settings", scope: "read", costly: false },
  { name: "voice.get_transcript", scope: "read", costly: false },
  { name: "voice.install_model", scope: "admin", costly: false, deadlineMs: 43200000 },
  { name: "voice.list_commands", scope: "read", costly: false },
  { name: "voice.list_memos", scope: "read", costly: false },
  { name: "voice.list_voicemail", scope: "read", costly: false },
  { name: "voice.mark_voicemail", scope: "write", costly: false },
  { name: "voice.pause", scope: "write", costly: false },
  { name: "voice.process", scope: "write", costly: true, deadlineMs: 3600000 },
  { name: "voice.queue", scope: "read", costly: false },
  { name: "voice.remove_model", scope: "admin", costly: false },
  { name: "voice.restore_memo", scope: "write", costly: false },
  { name: "voice.resume", scope: "write", costly: false },
  { name: "voice.retry", scope: "write", costly: false },
  { name: "voice.search_transcripts", scope: "read", costly: false },
  { name: "voice.skip", scope: "write", costly: false },
  { name: "voice.start", scope: "write", costly: false },
  { name: "voice.status", scope: "read", costly: false },
  { name: "voice.stop", scope: "write", costly: false },
  { name: "voice.test_command", scope: "read", costly: false },
  { name: "voice.toggle", scope: "write", costly: false },
  { name: "voice.transcribe", scope: "write", costly: true },
  { name: "voice.undo_cancel", scope: "write", costly: false },
  { name: "voice.update_command", scope: "write", costly: false },
  { name: "voice.update_memo", scope: "write", costly: false },
  { name: "voice.update_settings", scope: "write", costly: false },
  { name: "voice.upload_memo", scope: "write", costly: true, deadlineMs: 240000 },
  { name: "voice.waveform", scope: "read", costly: true, deadlineMs: 240000 },
  { name: "workspace.status", scope: "read", costly: false },
  { name: "workspace.undo", scope: "write", costly: false },
] as const satisfies readonly { name: keyof Methods; scope: Scope; costly: boolean; aliasOf?: keyof Methods; deadlineMs?: number }[];

/** The scope that each method requires. */
export const scopes = Object.fromEntries(METHODS.map((m) => [m.name, m.scope])) as Record<keyof Methods, Scope>;

/** The names of all events. */
export const EVENTS = [
  "agent.changed",
  "app.background_changed",
  "app.pins_changed",
  "approvals.changed",
  "audit.appended",
  "channels.changed",
  "channels.message",
  "channels.rejected",
  "chat.assistant_delta",
  "chat.attempt_discarded",
  "chat.budget",
  "chat.media_attachment",
  "chat.notice",
  "chat.reasoning_delta",
  "chat.session_changed",
  "chat.session_created",
  "chat.tool_finished",
  "chat.tool_started",
  "chat.turn_cancelled",
  "chat.turn_completed",
  "chat.turn_failed",
  "chat.turn_progress",
  "chat.turn_started",
  "config.changed",
  "container.pull",
  "container.run",
  "container.status_changed",
  "discovery.auth_changed",
  "discovery.changed",
  "discovery.execution",
  "discovery.job",
  "discovery.request_changed",
  "events.gap",
  "mcp.auth_changed",
  "mcp.changed",
  "mcp.log",
  "mcp.progress",
  "mcp.tools_changed",
  "memory.changed",
  "memory.embedding_progress",
  "memory.import_done",
  "memory.import_progress",
  "memory.patterns_changed",
  "memory.synthesis_done",
  "memory.synthesis_progress",
  "memory.watch_changed",
  "permissions.changed",
  "providers.catalog_changed",
  "providers.changed",
  "psychology.changed",
  "psychology.decay_done",
  "psychology.fading",
  "sandbox.status_changed",
  "schedules.changed",
  "schedules.notification",
  "schedules.run_event",
  "services.changed",
  "sessions.changed",
  "shell.output",
  "skills.changed",
  "skills.execution_changed",
  "skills.notification",
  "skills.run_event",
  "skills.wasm_changed",
  "storage.backup_progress",
  "storage.changed",
  "storage.low_space",
  "storage.recovery",
  "sync.conflict",
  "sync.dead_letter",
  "sync.delta",
  "sync.progress",
  "sync.status",
  "system.stopping",
  "tokens.changed",
  "tools.changed",
  "tools.execution",
  "tools.suspended",
  "trash.changed",
  "voice.command",
  "voice.level",
  "voice.model_progress",
  "voice.partial",
  "voice.queue",
  "voice.state",
  "voice.transcript",
] as const satisfies readonly (keyof Events)[];
