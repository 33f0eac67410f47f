package eval

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/providers"
	"helix/backend/safehttp"
	"helix/backend/scrub"
	"helix/backend/storage"
)

// database is a database as the first start makes it, with its root key.
type database struct {
	file []byte
	key  rootKey
}

var created struct {
	sync.Mutex
	database
}

// newDatabase returns a database that is created once, because creating the schema takes longer
// than most scenarios. Each scenario runs on a copy. After an error, the next call tries again.
func newDatabase() (database, error) {
	created.Lock()
	defer created.Unlock()
	if created.file != nil {
		return created.database, nil
	}
	d, err := createDatabase()
	if err == nil {
		created.database = d
	}
	return d, err
}

func createDatabase() (d database, err error) {
	dir, err := os.MkdirTemp("", "helix-eval-")
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d.key = make(rootKey, storage.RootKeySize)
	if _, err := rand.Read(d.key); err != nil {
		return d, err
	}
	path := filepath.Join(dir, "helix.db")
	db, err := storage.Open(context.Background(), storage.Options{Path: path, Keys: storage.NewKeys(d.key), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return d, err
	}
	if err := db.Close(); err != nil {
		return d, err
	}
	d.file, err = os.ReadFile(path)
	return d, err
}

const turnLimit = 5 * time.Minute

// Metrics are figures of one run of a scenario, for comparison with other runs.
type Metrics struct {
	Steps        int              `json:"steps"`
	Calls        int              `json:"calls"` // of tools
	InputTokens  int64            `json:"inputTokens"`
	OutputTokens int64            `json:"outputTokens"`
	CostMicros   providers.Micros `json:"costMicros"`
	TookMs       int64            `json:"tookMs"`
}

// Outcome is the result of a scenario.
type Outcome struct {
	Scenario string   `json:"scenario"`
	Passed   bool     `json:"passed"`
	Problems []string `json:"problems"`
	Metrics  Metrics  `json:"metrics"`
}

// rootKey is a root key held in memory, because a scenario's database is removed when it ends.
type rootKey []byte

// Candidates implements storage.Root.
func (k rootKey) Candidates() [][]byte { return [][]byte{k} }

// Create implements storage.Root.
func (k rootKey) Create(context.Context) ([]byte, error) { return k, nil }

// Replace implements storage.Root.
func (rootKey) Replace(context.Context, []byte) error {
	return errors.New("the key of a scenario stays")
}

// Place implements storage.Root.
func (rootKey) Place([]byte) string { return "none" }

// memories recalls the same texts in each turn.
type memories []string

// Recall implements agent.Memory.
func (m memories) Recall(context.Context, uuid.UUID, string) (string, error) {
	var b strings.Builder
	for _, text := range m {
		b.WriteString("- " + text + "\n")
	}
	return b.String(), nil
}

// Said implements agent.Memory.
func (memories) Said(context.Context, *storage.Tx, uuid.UUID, string, string, string, time.Time) error {
	return nil
}

// Shown implements agent.Memory.
func (memories) Shown(context.Context, *storage.Tx, uuid.UUID, bool, string) error { return nil }

// effect is a call that a tool has carried out.
type effect struct {
	tool, key string
	writes    bool
}

// runner is a running scenario.
type runner struct {
	s    Scenario
	live agent.Models // nil: the script answers

	dir     string
	root    *os.Root
	agent   *agent.Service
	gate    *permission.Service
	session uuid.UUID
	turns   []agent.Turn
	events  []agent.LogEvent
	// different describes how the replay differs from the log; left holds the files at the end.
	different string
	left      map[string]string

	mu      sync.Mutex
	effects []effect
}

// Run runs a scenario with its script, or with live if that is not nil. An error means that the
// scenario couldn't be run; mistakes of the agent are in the outcome.
func Run(ctx context.Context, s Scenario, live agent.Models) (out Outcome, err error) {
	began := time.Now()
	r := &runner{s: s, live: live}
	if r.dir, err = os.MkdirTemp("", "helix-eval-"); err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()
	out = Outcome{Scenario: s.Name}
	if err := r.run(ctx); err != nil {
		return out, err
	}
	out.Problems = r.check()
	out.Passed = len(out.Problems) == 0
	out.Metrics = r.metrics()
	out.Metrics.TookMs = time.Since(began).Milliseconds()
	return out, nil
}

func (r *runner) run(ctx context.Context) (err error) {
	quiet, events := slog.New(slog.NewTextHandler(io.Discard, nil)), bus.New()
	begun, err := newDatabase()
	if err != nil {
		return err
	}
	path := filepath.Join(r.dir, "helix.db")
	if err := os.WriteFile(path, begun.file, 0o600); err != nil {
		return err
	}
	db, err := storage.Open(ctx, storage.Options{Path: path, Keys: storage.NewKeys(begun.key), Bus: events, Logger: quiet})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	person := identity.Identity{User: db.LocalUser().ID, Scopes: identity.Admin.Closed(), Client: identity.ClientTerminal, Session: uuid.New()}
	ctx = identity.With(ctx, person)
	if err := r.files(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.root.Close()) }()

	r.gate = permission.New(db, events, permission.Options{Logger: quiet})
	ledger := agent.NewLedger(db, events)
	client := safehttp.New(safehttp.Options{})
	defer client.Close()
	models, err := providers.New(db, providers.ServiceOptions{HTTP: client, Meter: ledger, AllowScripted: true, Logger: quiet})
	if err != nil {
		return err
	}
	if err := r.script(ctx, models); err != nil {
		return err
	}
	reg, tools := callable.NewRegistry(nil), callable.NewSet(callable.Builtin, nil)
	reg.Add(tools)
	r.tools(tools)
	var secrets []scrub.Secret
	for i, v := range r.s.Secrets {
		secrets = append(secrets, scrub.Secret{Name: fmt.Sprint("SECRET", i+1), Value: v})
	}
	scrubber := scrub.New(secrets, scrub.Options{})
	o := agent.Options{
		Models: models, Gate: r.gate, Callables: reg, Ledger: ledger, Memory: memories(r.s.Memories), Logger: quiet,
		Scrub: func(_ context.Context, text string) string { return scrubber.String(text) },
	}
	if r.live != nil {
		o.Models = r.live
	}
	r.agent = agent.New(db, events, o)
	defer func() { err = errors.Join(err, r.agent.Close()) }()
	r.gate.Register(string(agent.Kind), r.agent, nil)
	r.gate.RegisterAnswerer(string(agent.Kind), r.agent.Answer)
	return r.talk(ctx)
}

// script assigns the scripted model to all roles.
func (r *runner) script(ctx context.Context, models *providers.Service) error {
	text, err := r.s.script()
	if err != nil {
		return err
	}
	file := filepath.Join(r.dir, "script.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	if _, err := models.Set(ctx, providers.SetParams{Name: "script", Entry: providers.Entry{Type: providers.WireScripted, BaseURL: file}}); err != nil {
		return err
	}
	_, err = models.SetRole(ctx, providers.SetRoleParams{Role: providers.RoleChat, Chain: []providers.ModelRef{"script/model"}})
	return err
}

// talk sends the inputs one after another and answers the questions.
func (r *runner) talk(ctx context.Context) error {
	made, err := r.agent.Create(ctx, agent.CreateParams{Mode: cmp.Or(r.s.Mode, agent.ModeAsk), Budget: &r.s.Budget})
	if err != nil {
		return err
	}
	r.session = made.Session.ID
	for _, text := range r.s.Inputs {
		sent, err := r.agent.Send(ctx, agent.SendParams{SessionID: r.session, Text: text})
		if err != nil {
			return err
		}
		turn, err := r.finish(ctx, sent.TurnID)
		if err != nil {
			return err
		}
		r.turns = append(r.turns, turn)
	}
	for after := int64(0); ; {
		page, err := r.agent.Events(ctx, agent.EventsParams{SessionID: r.session, AfterSeq: after})
		if err != nil {
			return err
		}
		if len(page.Events) == 0 {
			return r.end(ctx)
		}
		r.events = append(r.events, page.Events...)
		after = page.Events[len(page.Events)-1].Seq
	}
}

// end collects the state after the last turn.
func (r *runner) end(ctx context.Context) error {
	same, err := r.agent.Replay(ctx, agent.ReplayParams{SessionID: r.session})
	if err != nil {
		return err
	}
	if !same.Identical {
		r.different = fmt.Sprintf("%+v", same.FirstDifference)
	}
	r.left = map[string]string{}
	for name := range r.s.Expect.Files {
		if text, err := r.root.ReadFile(filepath.FromSlash(name)); err == nil {
			r.left[name] = string(text)
		}
	}
	return nil
}

// finish waits for the end of a turn and answers its questions.
func (r *runner) finish(ctx context.Context, turn uuid.UUID) (agent.Turn, error) {
	ctx, cancel := context.WithTimeout(ctx, turnLimit)
	defer cancel()
	for {
		got, err := r.agent.Wait(ctx, agent.WaitParams{TurnID: turn, WaitMs: 120_000})
		if err != nil {
			return got.Turn, err
		}
		if got.Turn.FinishedAt != nil {
			return got.Turn, nil
		}
		for _, id := range got.Turn.Approvals {
			asked, err := r.gate.GetApproval(ctx, permission.GetApprovalParams{ID: id})
			if err != nil {
				return got.Turn, err
			}
			decision := "deny"
			if r.s.Approve {
				decision = "approve"
			}
			if asked.Approval.Status != "pending" {
				continue
			}
			if _, err := r.gate.AnswerApproval(ctx, permission.AnswerParams{ID: id, Decision: decision, DefinitionHash: asked.Approval.DefinitionHash}); err != nil {
				return got.Turn, err
			}
		}
		if ctx.Err() != nil {
			return got.Turn, fault.As(ctx.Err())
		}
	}
}

// files writes the scenario's files.
func (r *runner) files() (err error) {
	dir := filepath.Join(r.dir, "files")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if r.root, err = os.OpenRoot(dir); err != nil {
		return err
	}
	for name, text := range r.s.Files {
		if err := r.root.MkdirAll(filepath.Dir(filepath.FromSlash(name)), 0o700); err != nil {
			return err
		}
		if err := r.root.WriteFile(filepath.FromSlash(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// tools adds the tools of the scenario, and the file tools if it has files.
func (r *runner) tools(set *callable.Set) {
	add := func(name, description string, input json.RawMessage, effects callable.Effects, run func(raw json.RawMessage) (any, error)) {
		set.Add(callable.Func{Info: callable.Info{Name: name, Title: name, Description: description, Input: input, Effects: effects}, Run: func(_ context.Context, q callable.Request) (any, error) {
			r.mu.Lock()
			r.effects = append(r.effects, effect{name, q.Key, !effects.ReadOnly})
			r.mu.Unlock()
			return run(q.Input)
		}})
	}
	for _, t := range r.s.Tools {
		add(t.Name, t.Description, t.Input, callable.Effects{ReadOnly: t.Effect == "" || t.Effect == "read", Idempotent: t.Effect == "idempotent"}, func(raw json.RawMessage) (any, error) {
			for _, res := range t.Results {
				if strings.Contains(string(raw), res.Match) {
					if res.Error != "" {
						return nil, fault.Unavailablef("%s", res.Error)
					}
					return res.Output, nil
				}
			}
			return nil, fault.Invalidf("The scenario has no result for these arguments.")
		})
	}
	if r.s.Files == nil {
		return
	}
	one := json.RawMessage(`{"type":"object","required":["path"],"properties":{"path":{"type":"string"}},"additionalProperties":false}`)
	two := json.RawMessage(`{"type":"object","required":["path","text"],"properties":{"path":{"type":"string"},"text":{"type":"string"}},"additionalProperties":false}`)
	type params struct{ Path, Text string }
	parse := func(raw json.RawMessage) (p params, err error) { return p, json.Unmarshal(raw, &p) }
	add("file.list", "Lists the files of the folder with their sizes.", json.RawMessage(`{"type":"object","properties":{}}`), callable.Effects{ReadOnly: true}, func(json.RawMessage) (any, error) {
		list := map[string]int64{}
		err := fs.WalkDir(r.root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			list[path] = info.Size()
			return err
		})
		return list, err
	})
	add("file.read", "Reads a file.", one, callable.Effects{ReadOnly: true}, func(raw json.RawMessage) (any, error) {
		p, err := parse(raw)
		if err != nil {
			return nil, err
		}
		text, err := r.root.ReadFile(p.Path)
		if err != nil {
			return nil, fault.NotFoundf("There is no file %s.", p.Path)
		}
		return string(text), nil
	})
	add("file.write", "Writes a file.", two, callable.Effects{}, func(raw json.RawMessage) (any, error) {
		p, err := parse(raw)
		if err == nil {
			err = r.root.WriteFile(p.Path, []byte(p.Text), 0o600)
		}
		return "written", err
	})
}

func (r *runner) metrics() (m Metrics) {
	for _, t := range r.turns {
		m.Steps += t.Steps
		m.InputTokens += t.Usage.Prompt()
		m.OutputTokens += t.Usage.Output
		m.CostMicros += t.CostMicros
	}
	m.Calls = len(r.effects)
	return m
}
