package backend

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/agent/eval"
	"helix/backend/callable"
	"helix/backend/config"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/memory"
	"helix/backend/memory/search"
	"helix/backend/permission"
	"helix/backend/picks"
	"helix/backend/providers"
	"helix/backend/skills"
	"helix/backend/storage"
	"helix/backend/synthesis"
)

// openAgent creates the agent service on top of models, callables, permissions and memory.
func (b *Backend) openAgent(ctx context.Context, paths config.Paths, conf config.Config) {
	b.scrub = b.newScrubbers(paths).text
	telemetry := b.openTelemetry(conf)
	b.Agent = agent.New(b.DB, b.Bus, agent.Options{
		Models: b.Providers, Gate: b.Permission, Callables: b.Callables, Ledger: b.Ledger,
		Memory: agentMemory{b.Memory}, Skills: agentSkills{b}, Files: b.CoreTools, Soul: b.agentSoul, UserDir: paths.User, ClaudeSkills: func() bool { return b.Config.Current().AgentClaudeSkills }, Workspaces: workspaces(paths), Scrub: b.scrub, Private: conf.StoragePrivate, Ended: b.turnEnded, Telemetry: telemetry, Logger: b.log,
	})
	b.Callables.Add(b.Agent.Provider())
	gate := b.callGate()
	b.builtins.Add(b.Agent.Callables(func(ctx context.Context, r *callable.Request) (func(), error) {
		pass, err := gate.Pass(ctx, r, callable.Reach{Name: agent.CompleteName, Subject: callable.BuiltinSubject(agent.CompleteName), Tier: permission.SideEffecting, Action: "model.called"})
		if err != nil {
			return nil, err
		}
		return pass.End, nil
	})...)
	b.subjects[agent.CompleteName] = agent.CompleteSource{}
	b.Permission.Register(string(agent.Kind), b.Agent, b.Agent.Rerun)
	b.Permission.RegisterAnswerer(string(agent.Kind), b.Agent.Answer)
	b.closing("agent", b.Agent.Close)
	b.Eval = eval.New(b.DB, b.Providers, Version)
	b.closing("evaluations", b.Eval.Close)
	if b.DB.Recovery() == nil { // before memory removes plain text remains from the files
		if err := b.Agent.CheckWords(ctx); err != nil {
			b.log.Warn("chats may not be found by their words", "err", err)
		}
	}
}

// agentSoul returns the part of the person's soul file that agents may read.
func (b *Backend) agentSoul(ctx context.Context) (string, error) {
	settings, err := b.Psychology.Settings(ctx, struct{}{})
	if err != nil || !settings.Enabled || !settings.AgentMayRead {
		return "", err
	}
	soul, err := b.Psychology.GetSoul(ctx, struct{}{})
	if err != nil || soul.Version == 0 {
		return "", err
	}
	return soul.Text, nil
}

// agentMemory gives the agent access to the person's memory.
type agentMemory struct{ s *memory.Service }

// source is the name of chats as a source of conversations.
const source = "agent"

const (
	recalledItems = 6
	recalledBytes = 6000 // about 2,000 tokens
	maxCited      = 20   // ids of an answer that may be those of memories
)

// Recall implements agent.Memory.
func (m agentMemory) Recall(ctx context.Context, session uuid.UUID, text string) (string, error) {
	query := []rune(text)
	out, err := m.s.Find(ctx, search.Params{Query: string(query[:min(len(query), 1000)]), Limit: 2 * recalledItems})
	if err != nil {
		return "", err
	}
	own, err := m.s.ConversationOf(ctx, source, session.String())
	if err != nil {
		return "", err
	}
	var b strings.Builder
	var used []search.Hit
	for _, h := range out.Results {
		if len(used) == recalledItems {
			break
		}
		if slices.ContainsFunc(h.Evidence, func(e search.Evidence) bool { return e.ConversationID != nil && *e.ConversationID == own }) {
			continue // it is already in the history
		}
		line := fmt.Sprintf("- %s", strings.ReplaceAll(h.Snippet, "\n", " "))
		if h.OccurredAt != nil {
			line += " (" + h.OccurredAt.Format(time.DateOnly) + ")"
		}
		line += fmt.Sprintf(" [%s %s]", h.Kind, h.ID)
		if h.Untrusted {
			line += " [from outside]"
		}
		if b.Len()+len(line) > recalledBytes {
			break
		}
		b.WriteString(line + "\n")
		used = append(used, h)
	}
	return b.String(), m.s.LogRecall(ctx, session.String(), used)
}

// cited matches the ids that Recall gives to memories.
var cited = regexp.MustCompile(`\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)

// Said implements agent.Memory. The memories that an answer cites are reinforced.
func (m agentMemory) Said(ctx context.Context, tx *storage.Tx, session uuid.UUID, role, id, text string, at time.Time) error {
	if role == "assistant" {
		var ids []uuid.UUID
		for _, c := range cited.FindAllString(text, maxCited) {
			ids = append(ids, uuid.MustParse(c))
		}
		if err := m.s.CiteTx(ctx, tx, ids); err != nil {
			return err
		}
	}
	_, err := m.s.AppendTx(ctx, tx, memory.Said{Source: source, Conversation: session.String(), Turns: []memory.SaidTurn{{ID: id, Role: role, Text: text, At: &at}}})
	return err
}

// agentSkills stores and dry-runs the skills that are created from runs.
func (m agentMemory) Shown(ctx context.Context, tx *storage.Tx, session uuid.UUID, prompt bool, text string) error {
	kind := memory.ShownTool
	if prompt {
		kind = memory.ShownPrompt
	}
	return m.s.LogShown(ctx, tx, session.String(), kind, text)
}

type agentSkills struct{ b *Backend }

// SaveDraft implements agent.Skills. Names are unique, so a taken one gets a number.
func (x agentSkills) SaveDraft(ctx context.Context, definition json.RawMessage, note string) (agent.DraftSkill, error) {
	checked, err := x.b.Skills.ValidateComposite(ctx, skills.ValidateParams{Skill: definition})
	if err != nil {
		return agent.DraftSkill{}, err
	}
	out := agent.DraftSkill{Valid: checked.Valid, Problems: []string{}}
	for _, p := range checked.Errors {
		out.Problems = append(out.Problems, p.Message)
	}
	var fields map[string]any
	if err := json.Unmarshal(definition, &fields); err != nil {
		return out, err
	}
	name := fmt.Sprint(fields["name"])
	for n := 2; ; n++ {
		made, err := x.b.Skills.CreateComposite(ctx, skills.SaveParams{Skill: definition, Note: note})
		if err == nil {
			out.ID, out.Name = made.SkillID, made.Name
			return out, nil
		}
		if !fault.Is(err, fault.Conflict) || n > 20 {
			return out, err
		}
		fields["name"] = fmt.Sprintf("%s %d", name, n)
		if definition, err = json.Marshal(fields); err != nil {
			return out, err
		}
	}
}

// Rehearse implements agent.Skills.
func (x agentSkills) Rehearse(ctx context.Context, id uuid.UUID, input json.RawMessage, outputs map[string]json.RawMessage) (map[string]json.RawMessage, string, error) {
	p := skills.DryRunParams{SkillID: &id, Input: input, Mocks: map[string]skills.Mock{}}
	for step, out := range outputs {
		p.Mocks[step] = skills.Mock{Output: out}
	}
	r, err := x.b.Skills.DryRun(ctx, p)
	if err != nil {
		return nil, "", err
	}
	inputs, problem := map[string]json.RawMessage{}, ""
	for _, s := range r.StepResults {
		if s.WouldDo != nil {
			inputs[s.StepID] = s.WouldDo.Input
		}
	}
	if r.Error != nil {
		problem = r.Error.Message
	}
	return inputs, problem, nil
}

// patternModel gives synthesis access to the model of its role.
type patternModel struct{ b *Backend }

// Destination implements synthesis.Model.
func (m patternModel) Destination(ctx context.Context) (synthesis.Destination, error) {
	i, err := m.b.Providers.Prepare(ctx, providers.Request{Role: providers.RoleSynthesis})
	d := synthesis.Destination{Model: string(i.Ref), Host: i.Host, Local: i.Local, Window: i.Window}
	if i.Prices.Known() {
		d.Price = func(input, output int64) float64 {
			cost, _ := i.Prices.Cost(providers.Usage{Input: input, Output: output})
			return float64(cost) / 1e6
		}
	}
	return d, err
}

// Ask implements synthesis.Model.
func (m patternModel) Ask(ctx context.Context, to synthesis.Destination, rules, text string, schema json.RawMessage) (json.RawMessage, synthesis.Spent, error) {
	r, err := m.b.Agent.Ask(ctx, agent.AskParams{Role: providers.RoleSynthesis, Pin: &providers.Pin{Model: providers.ModelRef(to.Model), Host: to.Host}, Purpose: "synthesis", Rules: rules, Text: text, Schema: schema})
	u := r.Usage
	return r.Value, synthesis.Spent{InputTokens: u.Input + u.CacheRead + u.CacheWrite, OutputTokens: u.Output, CostUSD: float64(r.CostMicros) / 1e6}, err
}

// Scrub implements synthesis.Model.
func (m patternModel) Scrub(ctx context.Context, text string) string { return m.b.scrub(ctx, text) }

// exportChat is chat.export; its file can then be downloaded.
func (b *Backend) exportChat(ctx context.Context, p agent.ExportParams) (agent.ExportResult, error) {
	r, err := b.Agent.Export(ctx, p)
	if err == nil {
		kind := "text/markdown; charset=utf-8"
		if p.Format == agent.FormatLines {
			kind = "application/x-ndjson"
		}
		b.downloads.Add(ctx, r.Blob, kind)
	}
	return r, err
}

// attach is chat.attach. A path must be the token of an uploaded or chosen file: naming a file of
// this computer is not enough to attach it.
func (b *Backend) attach(ctx context.Context, p agent.AttachParams) (agent.AttachResult, error) {
	if p.Path != "" && !strings.HasPrefix(p.Path, picks.Prefix) {
		return agent.AttachResult{}, fault.InvalidField("path", fault.CodeInvalid, "This is not the token of an upload. Send the content as base64.")
	}
	p.Name = cmp.Or(p.Name, b.Picks.Name(p.Path))
	return pathParam(b, false, func(p *agent.AttachParams) *string { return &p.Path }, b.Agent.Attach)(ctx, p)
}

// importChat is chat.import. It creates a chat from an export in JSON lines, completely or not at
// all. The chat gets new ids and has no permissions; its texts are untrusted.
func (b *Backend) importChat(ctx context.Context, p agent.ImportParams) (agent.SessionResult, error) {
	who, _ := identity.From(ctx)
	switch {
	case (p.Blob == "") == (p.Path == ""):
		return agent.SessionResult{}, fault.Invalidf("Give blob or path.")
	case p.Blob != "":
		sum, err := hex.DecodeString(p.Blob)
		if err != nil || len(sum) != 32 {
			return agent.SessionResult{}, fault.Invalidf("blob must be 64 hex characters.")
		}
		f, _, err := b.downloads.Open(ctx, [32]byte(sum))
		if err != nil {
			return agent.SessionResult{}, err
		}
		defer f.Close()
		return b.Agent.Import(ctx, "", f)
	case !strings.HasPrefix(p.Path, picks.Prefix) && !who.Scopes.Has(identity.Admin):
		return agent.SessionResult{}, fault.Deniedf("Only a person can name a file of this computer. Upload it instead.")
	}
	name := cmp.Or(b.Picks.Name(p.Path), filepath.Base(p.Path))
	path, err := b.Picks.Resolve(ctx, p.Path, false)
	if err != nil {
		return agent.SessionResult{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return agent.SessionResult{}, fault.NotFoundf("Couldn't open %s. Nothing was imported.", name).WithCause(err)
	}
	defer f.Close()
	return b.Agent.Import(ctx, name, f)
}
