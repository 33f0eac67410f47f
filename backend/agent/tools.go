package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/providers"
	"helix/backend/schema"
	"helix/backend/storage"
)

const (
	maxToolName   = 64
	maxToolText   = 1024     // of a tool's description
	toolOutputMax = 16 << 10 // bytes of a result that the model reads
	deferAbove    = 0.10     // fraction of the window; beyond it, only core tools are declared and tool_search finds the others
	loadedAtOnce  = 8
)

// The states of calls.
const (
	statusDone    = "done"
	statusFailed  = "failed"
	statusDenied  = "denied"
	statusSkipped = "skipped"
)

// The answers to a question about an unknown outcome.
const (
	choiceHappened = "happened"
	choiceAgain    = "again"
	choiceStop     = "stop"
)

// tool is something the model of a session may call: a callable, or a part of the agent itself.
type tool struct {
	decl    providers.ToolDecl
	info    callable.Info // its Kind is "" for a part of the agent
	tier    permission.Tier
	own     func(ctx context.Context, l *live, call *toolIntent, args json.RawMessage) (ownResult, error)
	core    bool // always declared, never deferred
	fenced  bool // its results are quoted as data
	private bool // its results hold the person's own texts
	asks    bool // it asks for each call itself, so that a permission for the tool as a whole can't replace this
}

// ownResult is the result of a part of the agent, with the events to log.
type ownResult struct {
	value              any
	also               []payload
	private, untrusted bool // marks of its content
}

// origin returns where a tool comes from, for display.
func (t *tool) origin() string {
	if t.own != nil {
		return "agent"
	}
	return string(t.info.Kind)
}

// repeatable reports whether repeating a call is harmless.
func (t *tool) repeatable() bool { return t.info.Effects.ReadOnly || t.info.Effects.Idempotent }

// notForModels lists callables, by kind or name, that are not offered as tools: housekeeping, and
// steps that are useful only within a skill.
var notForModels = []string{"cleanup", "decay", string(Kind), "builtin:wait", "builtin:llm.complete"}

// renamed maps tools of memory to the names that other clients use.
var renamed = map[string]string{"memory.create": "memory_save"}

// privateTools are what the names of tools begin with whose results hold the person's own texts.
var privateTools = []string{"memory.", "file.", "vault.", "shell."}

// isCore reports whether callables of a kind are functions of this program.
func isCore(k callable.Kind) bool { return k == callable.Builtin || k == callable.Assistant }

// toolName converts the name of a callable to one that models accept: letters, digits, _ and -.
func toolName(i callable.Info) string {
	if name := renamed[i.Name]; name != "" && i.Kind == callable.Builtin {
		return name
	}
	slug := strings.Map(func(r rune) rune {
		switch {
		case r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)), r == '_', r == '-':
			return unicode.ToLower(r)
		}
		return '_'
	}, i.Name)
	if !isCore(i.Kind) {
		slug = string(i.Kind) + "_" + slug
	}
	if len(slug) > maxToolName {
		slug = slug[:maxToolName]
	}
	return slug
}

// tools lists what the model of a session may call, sorted by name.
func (s *Service) tools(ctx context.Context, st *State) ([]tool, error) {
	list, err := s.o.Callables.List(ctx)
	if err != nil {
		return nil, err
	}
	out := append(s.ownTools(), s.skillTools(st)...)
	taken := map[string]bool{}
	if st.Created.Kind != KindScheduled {
		out = slices.DeleteFunc(out, func(t tool) bool { return t.decl.Name == notifyName })
	}
	for _, t := range out {
		taken[t.decl.Name] = true
	}
	for _, i := range list {
		if i.Blocked != "" || slices.Contains(notForModels, string(i.Kind)) || slices.Contains(notForModels, i.String()) {
			continue
		}
		name := toolName(i)
		if taken[name] {
			sum := sha256.Sum256([]byte(i.String()))
			name = name[:min(len(name), maxToolName-7)] + "_" + hex.EncodeToString(sum[:3])
		}
		taken[name] = true
		text, _ := clip(cmp.Or(i.Description, i.Title, i.Name), maxToolText)
		t := tool{info: i, core: isCore(i.Kind), decl: providers.ToolDecl{Name: name, Description: text, Input: i.Input}}
		if !i.Effects.ReadOnly {
			t.tier = permission.SideEffecting
		}
		t.asks = isCore(i.Kind) && slices.ContainsFunc(i.Capabilities, func(c string) bool { return strings.HasPrefix(c, string(permission.Shell)+"(") })
		if t.asks || i.Name == "vault.copyto" {
			t.tier = permission.Privileged
		}
		t.private = isCore(i.Kind) && slices.ContainsFunc(privateTools, func(begin string) bool { return strings.HasPrefix(i.Name, begin) }) || i.Kind == "synthesis"
		out = append(out, t)
	}
	out = slices.DeleteFunc(out, func(t tool) bool {
		return st.Mode == ModeRead && t.tier > permission.ReadOnly || !st.Created.holds(t)
	})
	slices.SortFunc(out, func(a, b tool) int { return strings.Compare(a.decl.Name, b.decl.Name) })
	return out, nil
}

// holds reports whether a session may have a tool. A subagent has the tools of its brief; a persona
// has those of its settings, and tools that only change the session itself.
func (c *created) holds(t tool) bool {
	if !c.Limited || t.decl.Name == "result_read" || c.Parent == nil && t.own != nil && t.tier == permission.ReadOnly && t.decl.Name != delegateName {
		return true
	}
	return slices.ContainsFunc(c.Tools, func(name string) bool {
		begin, open := strings.CutSuffix(name, "*")
		return name == t.decl.Name || open && c.Parent == nil && strings.HasPrefix(t.decl.Name, begin)
	})
}

// declared returns the tools to declare in the requests of a new turn. If all of them would take too
// much of the window, only the core tools are declared and deferred lists the rest, which tool_search
// finds.
func declared(list []tool, window int) (out []providers.ToolDecl, deferred bool) {
	for _, t := range list {
		if t.decl.Name != toolSearchName {
			out = append(out, t.decl)
		}
	}
	if float64(estimateTools(out)) <= deferAbove*float64(window) {
		return out, false
	}
	out = nil
	for _, t := range list {
		if t.core || t.own != nil {
			out = append(out, t.decl)
		}
	}
	return out, true
}

// gateResult is the decision whether a call may be made.
type gateResult struct {
	allowed bool
	denied  string // why the call is denied
	pending uuid.UUID
}

// tierFor returns the current tier of a call. In a session with both private and untrusted text, the
// untrusted text may be steering the model, so calls that can send data out are one tier higher.
func (s *State) tierFor(t *tool) permission.Tier {
	tier := t.tier
	if s.Private && s.Untrusted && t.info.Effects.OpenWorld {
		tier = min(tier+1, permission.Privileged)
	}
	return tier
}

// gate decides whether a call may be made. Calls that only read are allowed; all others need
// approval. Modes and grants make approvals unnecessary, but never replace the permissions of the
// callable itself. A tool that asks for each call itself is not asked for here.
func (s *Service) gate(ctx context.Context, l *live, t *tool, c *callState, tier permission.Tier, attended bool) (gateResult, error) {
	if tier == permission.ReadOnly || t.asks || t.own != nil && tier < permission.SideEffecting {
		return gateResult{allowed: true}, nil
	}
	if l.mode() == ModeWork && tier == permission.SideEffecting && slices.Contains(workTools, t.decl.Name) {
		return gateResult{allowed: true}, nil
	}
	// An attended turn goes on by itself once its question is answered; a subagent's result is nobody's
	// once its parent has ended.
	var rerun json.RawMessage
	if !attended && l.state.Created.Parent == nil {
		var err error
		if rerun, err = json.Marshal(rerunPayload{l.state.Turn.ID}); err != nil {
			return gateResult{}, err
		}
	}
	d, err := s.o.Gate.Decide(ctx, permission.Request{
		Rerun: rerun, Subject: s.subject(l.state.Created.Agent), Cap: permission.ToolCall, Resource: t.decl.Name, Tier: tier,
		Caller: l.caller, RunID: l.state.Turn.ID, SessionID: l.id, RunKind: string(Kind), Call: questionKey(l, c, attended), Why: whyText(t, c, tier),
	})
	switch {
	case err != nil:
		return gateResult{}, err
	case d.Effect == permission.Allow:
		return gateResult{allowed: true}, nil
	case d.PendingID != uuid.Nil && attended:
		return gateResult{pending: d.PendingID}, nil
	case d.PendingID != uuid.Nil:
		return gateResult{denied: "Nobody is there to allow it. The question waits in Approvals.", pending: d.PendingID}, nil
	case d.Reason == permission.ReasonDeniedByUser:
		return gateResult{denied: "The person does not allow this tool."}, nil
	}
	return gateResult{denied: "It is not allowed here."}, nil
}

// workTools are the tools that the mode work allows without approval: they write only to the shared
// and temporary folders of the workspace.
var workTools = []string{"file_write", "file_edit", "file_delete", "attachment_save"}

// questionKey returns what tells a call apart from others of the same tool, so that an answer is for the
// arguments that the person saw. The question of an attended turn belongs to its chat alone.
func questionKey(l *live, c *callState, attended bool) string {
	call := hashOf([]byte(c.Args))
	if attended {
		call = l.id.String() + " " + call
	}
	return call
}

// whyText returns the text that an approval quotes: the arguments, and what data would leave this
// computer if that is the risk.
func whyText(t *tool, c *callState, tier permission.Tier) string {
	args, cut := clip(c.Args, 180)
	if cut {
		args += fmt.Sprintf("… (%d bytes, all of it is in the chat)", len(c.Args))
	}
	if tier > t.tier {
		return "This chat holds private text and text from outside, and this would send: " + args
	}
	return "With " + args
}

// Kind is the kind of agents, both as subjects of permissions and as callables.
const Kind callable.Kind = "agent"

// subject returns an agent as a subject of permissions. Its hash covers what may be granted to it and
// not its texts. The list of tools is read anew at each decision.
func (s *Service) subject(agent string) permission.Subject {
	return permission.Subject{Kind: string(Kind), ID: agent, DefinitionHash: sha256.Sum256([]byte("helix-agent-v1\x00" + agent))}
}

// Subject implements permission.Source.
func (s *Service) Subject(ctx context.Context, _, id string) (permission.SubjectInfo, error) {
	sub := s.subject(id)
	doc, err := json.Marshal(map[string]string{"agent": id})
	if err != nil {
		return permission.SubjectInfo{}, err
	}
	list, err := s.tools(ctx, &State{})
	if err != nil {
		return permission.SubjectInfo{}, err
	}
	out := permission.SubjectInfo{Name: agentTitle(id), State: permission.Active, DefinitionHash: sub.DefinitionHash, Definition: doc, Approved: true}
	for _, t := range list {
		out.Declared = append(out.Declared, permission.Want{Capability: permission.ToolCall, Resource: t.decl.Name})
	}
	return out, nil
}

func agentTitle(id string) string {
	if id == "" || id == DefaultAgent {
		return "Helix"
	}
	return id
}

// resolve finds the tool of a call and checks its arguments. problem is the text for the model if the
// call can't be made.
func (s *Service) resolve(ctx context.Context, l *live, c *callState) (t *tool, problem string) {
	i := slices.IndexFunc(l.toolList, func(t tool) bool { return t.decl.Name == c.Name })
	if i < 0 {
		return nil, fmt.Sprintf("There is no tool %q. %s", c.Name, nearestTools(l.toolList, c.Name))
	}
	t = &l.toolList[i]
	if c.BadArgs || !json.Valid([]byte(c.Args)) {
		return t, "The arguments are not valid JSON. Write one JSON object."
	}
	if len(t.decl.Input) > 0 {
		found, err := schema.CheckJSON(ctx, t.decl.Input, json.RawMessage(c.Args))
		if err != nil {
			return t, "The arguments can't be checked: " + fault.As(err).Message
		}
		if len(found) > 0 {
			var b strings.Builder
			b.WriteString("The arguments are not valid:")
			for _, f := range found[:min(len(found), 8)] {
				fmt.Fprintf(&b, "\n- %s: %s", cmp.Or(f.Path, "the whole"), f.Message)
			}
			return t, b.String()
		}
	}
	return t, ""
}

// nearestTools lists tools whose names share a word with a wrong name.
func nearestTools(list []tool, name string) string {
	var near []string
	for _, w := range strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) }) {
		for _, t := range list {
			if len(w) > 2 && strings.Contains(t.decl.Name, w) && !slices.Contains(near, t.decl.Name) && len(near) < 5 {
				near = append(near, t.decl.Name)
			}
		}
	}
	if len(near) == 0 {
		return "Use one of the tools of this request."
	}
	return "Similar: " + strings.Join(near, ", ") + "."
}

// present converts the result of a callable to what the model reads. A long result becomes a file
// with a handle.
func (s *Service) present(ctx context.Context, t *tool, out json.RawMessage, untrusted bool) (toolOutcome, error) {
	text := strings.TrimSpace(string(out))
	var plain string
	if json.Unmarshal(out, &plain) == nil {
		text = plain
	}
	if text == "" || text == "null" {
		text = "Done. It gave no output."
	}
	var undo struct {
		Token string `json:"undoToken"`
	}
	_ = json.Unmarshal(out, &undo) // most results have none
	text = s.o.Scrub(ctx, text)
	o := toolOutcome{Status: statusDone, Bytes: int64(len(text)), Private: t.private, Untrusted: untrusted, Undo: undo.Token}
	if len(text) > toolOutputMax {
		ref, err := s.db.Blobs().PutBytes(ctx, []byte(text))
		if err != nil {
			return o, err
		}
		o.Blob = ref.String()
		text, _ = clip(text, toolOutputMax)
		text += truncatedNote(o.Bytes, o.Blob[:handleLength])
	}
	if untrusted || t.fenced {
		text = fence(t.decl.Name, text)
	}
	o.Text = text
	return o, nil
}

// failure converts the error of a call to what the model reads.
func (s *Service) failure(ctx context.Context, err error) toolOutcome {
	f := fault.As(err)
	o := toolOutcome{Status: statusFailed, Kind: string(f.Kind), Text: s.o.Scrub(ctx, f.Message)}
	if r, ok := callable.RefusalOf(err); ok {
		if o.Kind = string(r.Reason); f.Kind == fault.Denied {
			o.Status = statusDenied
		}
		for _, p := range r.Problems {
			o.Text += fmt.Sprintf("\n- %s: %s", cmp.Or(p.Path, "the whole"), p.Message)
		}
	}
	return o
}

// callKeyOf returns the idempotency key of a call, which is the same for every attempt, also after a
// restart.
func callKeyOf(turn uuid.UUID, step int, id string) string {
	sum := sha256.Sum256([]byte(id))
	return fmt.Sprintf("agent-%s-%d-%s", turn, step, hex.EncodeToString(sum[:6]))
}

// titleOf and tierOf return how the transcript shows a tool.
func (s *Service) titleOf(l *live, name string) string {
	if i := slices.IndexFunc(l.toolList, func(t tool) bool { return t.decl.Name == name }); i >= 0 {
		t := l.toolList[i]
		line, _, _ := strings.Cut(cmp.Or(t.info.Title, t.decl.Description), "\n")
		text, _ := clip(line, 160)
		return text
	}
	return ""
}

func (s *Service) tierOf(l *live, name string) string {
	if i := slices.IndexFunc(l.toolList, func(t tool) bool { return t.decl.Name == name }); i >= 0 {
		return l.state.tierFor(&l.toolList[i]).String()
	}
	return ""
}

// Tools lists what the model of a session may call, and the tokens that each declaration takes.
func (s *Service) Tools(ctx context.Context, p ToolsParams) (out ToolsResult, err error) {
	st := &State{Mode: ModeAsk}
	out.Window = assumedWindow
	if p.SessionID != nil {
		l, err := s.session(ctx, *p.SessionID)
		if err != nil {
			return out, err
		}
		l.mu.Lock()
		copied := *l.state
		l.mu.Unlock()
		st = &copied
	}
	list, err := s.tools(ctx, st)
	if err != nil {
		return out, err
	}
	if i, err := s.o.Models.Describe(ctx, providers.Request{Role: st.role(), Model: st.Model}); err == nil {
		out.Window = i.Window
	}
	decls, _ := declared(list, out.Window)
	out.Tools = []ToolView{}
	for _, t := range list {
		v := ToolView{Name: t.decl.Name, Title: t.info.Title, Description: t.decl.Description, Origin: t.origin(), Tier: st.tierFor(&t).String(), Effect: "none", Egress: "none", Idempotent: t.repeatable(), Tokens: estimateTools([]providers.ToolDecl{t.decl}), State: "ready"}
		if t.tier > permission.ReadOnly {
			v.Effect = "local"
		}
		if t.info.Effects.OpenWorld {
			v.Egress = "open"
			if t.tier > permission.ReadOnly {
				v.Effect = "external"
			}
		}
		v.Deferred = !slices.ContainsFunc(decls, func(d providers.ToolDecl) bool { return d.Name == t.decl.Name })
		if !v.Deferred {
			out.Tokens += v.Tokens
		}
		out.Tools = append(out.Tools, v)
	}
	return out, nil
}

const (
	toolSearchName = "tool_search"
	notifyName     = "schedule_notify"
	notifyPrefix   = "notify_" // of a notice's kind; its level follows
)

// ownTools returns the tools that are parts of the agent: they only change the session.
func (s *Service) ownTools() []tool {
	def := func(name, text, input string, run func(ctx context.Context, l *live, args json.RawMessage) (ownResult, error)) tool {
		return tool{core: true, own: func(ctx context.Context, l *live, _ *toolIntent, args json.RawMessage) (ownResult, error) {
			return run(ctx, l, args)
		}, decl: providers.ToolDecl{Name: name, Description: text, Input: json.RawMessage(input)}, info: callable.Info{Name: name, Effects: callable.Effects{ReadOnly: true, Idempotent: true}}}
	}
	out := []tool{
		def("scratchpad_read", "Reads the notes of this conversation.", `{"type":"object","additionalProperties":false}`, func(_ context.Context, l *live, _ json.RawMessage) (ownResult, error) {
			return ownResult{value: map[string]any{"items": append([]string{}, l.state.Notes...)}}, nil
		}),
		def("scratchpad_write", "Adds a note that stays for this conversation, at most 240 characters. There is room for 32; the oldest leave.", `{"type":"object","additionalProperties":false,"required":["text"],"properties":{"text":{"type":"string","minLength":1,"maxLength":240}}}`,
			typed(func(_ context.Context, l *live, in struct{ Text string }) (ownResult, error) {
				items := append(slices.Clone(l.state.Notes), in.Text)
				items = items[max(0, len(items)-32):]
				return ownResult{value: map[string]any{"items": items}, also: []payload{&scratchpad{items}}}, nil
			})),
		def("scratchpad_clear", "Removes all notes of this conversation.", `{"type":"object","additionalProperties":false}`, func(context.Context, *live, json.RawMessage) (ownResult, error) {
			return ownResult{value: map[string]any{"items": []string{}}, also: []payload{&scratchpad{[]string{}}}}, nil
		}),
		def("history_search", "Finds earlier messages of this conversation by their words, also those that a summary replaced.", `{"type":"object","additionalProperties":false,"required":["query"],"properties":{"query":{"type":"string","minLength":1,"maxLength":400},"limit":{"type":"integer","minimum":1,"maximum":20}}}`,
			typed(func(ctx context.Context, l *live, in struct {
				Query string
				Limit int
			}) (ownResult, error) {
				out, err := s.searchHistory(ctx, SearchParams{Query: in.Query, SessionID: &l.id, Limit: cmp.Or(in.Limit, 10)})
				return ownResult{value: out}, err
			})),
		def("history_read", "Reads earlier messages of this conversation word for word, from a place (seq) on.", `{"type":"object","additionalProperties":false,"required":["seq"],"properties":{"seq":{"type":"integer","minimum":0},"limit":{"type":"integer","minimum":1,"maximum":20}}}`,
			typed(func(ctx context.Context, l *live, in struct {
				Seq   int64
				Limit int
			}) (ownResult, error) {
				list, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) ([]Message, error) {
					return s.messageRows(tx, `WHERE m.session_id = ? AND m.seq >= ? ORDER BY m.seq LIMIT ?`, l.id, in.Seq, cmp.Or(in.Limit, 10))
				})
				return ownResult{value: map[string]any{"messages": list}}, err
			})),
		def("result_read", "Reads on in a result or an attached file that was truncated, from a byte offset.", `{"type":"object","additionalProperties":false,"required":["handle","offset"],"properties":{"handle":{"type":"string","pattern":"^[0-9a-f]{16,64}$"},"offset":{"type":"integer","minimum":0}}}`,
			typed(func(ctx context.Context, l *live, in struct {
				Handle string
				Offset int64
			}) (ownResult, error) {
				text, size, err := s.readResult(ctx, l, in.Handle, in.Offset)
				return ownResult{value: map[string]any{"text": text, "offset": in.Offset, "next": in.Offset + int64(len(text)), "size": size}}, err
			})),
		def(toolSearchName, "Finds tools by what they do and makes up to 8 of them callable from the next step on.", `{"type":"object","additionalProperties":false,"required":["query"],"properties":{"query":{"type":"string","minLength":1,"maxLength":400}}}`,
			typed(func(ctx context.Context, l *live, in struct{ Query string }) (ownResult, error) {
				return s.searchTools(l, in.Query)
			})),
		def(notifyName, "Shows the person a notification when this scheduled task has ended. The last one counts.", `{"type":"object","additionalProperties":false,"required":["title","body"],"properties":{"title":{"type":"string","minLength":1,"maxLength":100},"body":{"type":"string","maxLength":1000},"level":{"type":"string","enum":["info","warning","error"]}}}`,
			typed(func(_ context.Context, _ *live, in struct{ Title, Body, Level string }) (ownResult, error) {
				return ownResult{value: map[string]any{"shown": true}, also: []payload{&noticed{Kind: notifyPrefix + cmp.Or(in.Level, "info"), Title: in.Title, Text: in.Body}}}, nil
			})),
		s.delegateTool(),
	}
	for i := range out {
		out[i].fenced = out[i].fenced || out[i].decl.Name == "result_read" // its content may come from outside
	}
	return append(out, s.mediaTools()...)
}

// typed decodes the arguments of a tool of the agent.
func typed[P any](run func(ctx context.Context, l *live, in P) (ownResult, error)) func(context.Context, *live, json.RawMessage) (ownResult, error) {
	return func(ctx context.Context, l *live, args json.RawMessage) (ownResult, error) {
		var in P
		if err := json.Unmarshal(args, &in); err != nil {
			return ownResult{}, fault.Invalidf("The arguments can't be read.").WithCause(err)
		}
		return run(ctx, l, in)
	}
}

// searchTools finds tools that are not declared yet, by words of their names and descriptions.
func (s *Service) searchTools(l *live, query string) (ownResult, error) {
	known := map[string]bool{}
	for _, d := range append(slices.Clone(l.state.Tools), l.state.Loaded...) {
		known[d.Name] = true
	}
	type hit struct {
		decl  providers.ToolDecl
		score int
	}
	var hits []hit
	for _, t := range l.toolList {
		text, score := strings.ToLower(t.decl.Name+" "+t.decl.Description), 0
		for _, w := range strings.Fields(strings.ToLower(query)) {
			if strings.Contains(text, w) {
				score += 1 + strings.Count(strings.ToLower(t.decl.Name), w)
			}
		}
		if score > 0 {
			hits = append(hits, hit{t.decl, score})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return b.score - a.score })
	var load []providers.ToolDecl
	names := []map[string]string{}
	for _, h := range hits[:min(len(hits), loadedAtOnce)] {
		names = append(names, map[string]string{"name": h.decl.Name, "description": h.decl.Description})
		if !known[h.decl.Name] {
			load = append(load, h.decl)
		}
	}
	out := ownResult{value: map[string]any{"tools": names}}
	if len(load) > 0 {
		out.also = []payload{&loadedTools{load}}
	}
	return out, nil
}

// readResult reads a long result or an attached text of this session from an offset on.
func (s *Service) readResult(ctx context.Context, l *live, handle string, offset int64) (string, int64, error) {
	a, err := s.blobOf(ctx, l.id, handle)
	if err != nil {
		return "", 0, err
	}
	text, err := s.readBlob(a.Blob)
	if err != nil {
		return "", 0, err
	}
	if offset >= int64(len(text)) {
		return "", int64(len(text)), nil
	}
	part, _ := clip(strings.ToValidUTF8(string(text[offset:]), ""), toolOutputMax-512)
	return part, int64(len(text)), nil
}
