package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/providers"
	"helix/backend/storage"
)

const (
	maxSystem   = 16 << 10
	maxSoul     = 8000 // characters
	maxPersonas = 200

	agentsDir    = "agents"
	settingsFile = "agent.toml"
	systemFile   = "SYSTEM.md"
	soulFile     = "SOUL.md"
)

// plainName matches the names of personas and skill documents, which also name folders.
var plainName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

func isPlainName(name string) bool { return len(name) <= 64 && plainName.MatchString(name) }

// PersonaSettings are the contents of an agent.toml. Fields that are zero keep the defaults.
type PersonaSettings struct {
	Title  string             `toml:"title" json:"title,omitempty"`
	Tools  []string           `toml:"tools" json:"tools,omitempty"` // names, a trailing * matches any ending; none: all
	Role   providers.Role     `toml:"role" json:"role,omitempty"`
	Model  providers.ModelRef `toml:"model" json:"model,omitempty"`
	Mode   string             `toml:"mode" json:"mode,omitempty"` // ask or read
	Budget struct {
		MaxTurns   int     `toml:"max_turns" json:"maxTurns,omitempty"`
		MaxTokens  int64   `toml:"max_tokens" json:"maxTokens,omitempty"`
		MaxCostUSD float64 `toml:"max_cost_usd" json:"maxCostUsd,omitempty"`
	} `toml:"budget" json:"budget"`
}

// persona is an agent as described by its files.
type persona struct {
	PersonaSettings
	name          string
	toml          string
	system, soul  string
	hash          string
	problems      []string
	there, broken bool // broken: its settings are invalid, so nothing may run as it
}

// userFiles opens the folder of the person's own files. A device has one such folder; other users
// have none.
func (s *Service) userFiles(ctx context.Context, write bool) (*os.Root, error) {
	if s.o.UserDir == "" || identity.UserID(ctx) != s.db.LocalUser().ID {
		return nil, fs.ErrNotExist
	}
	if write {
		if err := os.MkdirAll(s.o.UserDir, 0o700); err != nil {
			return nil, fault.Unavailablef("Couldn't create the folder %s.", s.o.UserDir).WithCause(err)
		}
	}
	return os.OpenRoot(s.o.UserDir)
}

// readText reads a text file of the person, or returns "" if it is missing. If the file can't be
// used, problem says why.
func readText(r *os.Root, name string, most int64) (text, problem string) {
	st, err := r.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", ""
	}
	base := path.Base(filepath.ToSlash(name))
	if err != nil {
		return "", fmt.Sprintf("%s can't be read. A link must not lead out of the folder.", base)
	}
	if !st.Mode().IsRegular() || st.Size() > most {
		return "", fmt.Sprintf("%s is not used: it is longer than %d KiB or no file.", base, most>>10)
	}
	raw, err := r.ReadFile(name)
	if err != nil || !utf8.Valid(raw) {
		return "", fmt.Sprintf("%s is not used: it is not text in UTF-8.", base)
	}
	return strings.TrimPrefix(string(raw), "\xef\xbb\xbf"), ""
}

// readPersona reads the files of an agent. The default agent works without any.
func (s *Service) readPersona(ctx context.Context, name string) (persona, error) {
	p := persona{name: name, there: name == DefaultAgent}
	if !isPlainName(name) {
		return p, fault.NotFoundf("No agent is named %q.", name)
	}
	r, err := s.userFiles(ctx, false)
	if err == nil {
		defer r.Close()
		dir := filepath.Join(agentsDir, name)
		if st, err := r.Stat(dir); err == nil && st.IsDir() {
			p.there = true
			p.read(r, dir)
		}
	}
	if !p.there {
		return p, fault.NotFoundf("No agent is named %q.", name)
	}
	sum := sha256.Sum256([]byte(p.toml + "\x00" + p.system + "\x00" + p.soul))
	p.hash = hex.EncodeToString(sum[:])
	return p, nil
}

func (p *persona) read(r *os.Root, dir string) {
	var problem string
	for _, f := range []struct {
		to   *string
		name string
		most int64
	}{{&p.toml, settingsFile, maxSystem}, {&p.system, systemFile, maxSystem}, {&p.soul, soulFile, 4 * maxSoul}} {
		if *f.to, problem = readText(r, filepath.Join(dir, f.name), f.most); problem != "" {
			p.problems = append(p.problems, problem)
			p.broken = p.broken || f.name == settingsFile
		}
	}
	if runes := []rune(p.soul); len(runes) > maxSoul {
		p.soul = string(runes[:maxSoul])
		p.problems = append(p.problems, fmt.Sprintf("SOUL.md has %d characters; the first %d are used.", len(runes), maxSoul))
	}
	if err := p.parse(); err != nil {
		p.problems, p.broken = append(p.problems, err.Error()), true
	}
}

// parse parses the settings.
func (p *persona) parse() error {
	meta, err := toml.Decode(p.toml, &p.PersonaSettings)
	var at toml.ParseError
	switch {
	case errors.As(err, &at):
		return fault.Invalidf("agent.toml, line %d: %s", at.Position.Line, at.Message)
	case err != nil:
		return fault.Invalidf("agent.toml: %s", err.Error())
	case len(meta.Undecoded()) > 0:
		return fault.Invalidf("agent.toml: there is no setting %s.", meta.Undecoded()[0])
	case p.Mode != "" && p.Mode != ModeAsk && p.Mode != ModeRead:
		return fault.Invalidf("agent.toml: mode must be ask or read. Only a person chooses the mode work, for a chat.")
	case p.Role != "" && !slices.Contains(providers.Roles(), p.Role):
		return fault.Invalidf("agent.toml: there is no role %q.", p.Role)
	case p.Budget.MaxTurns < 0 || p.Budget.MaxTokens < 0 || p.Budget.MaxCostUSD < 0 || p.Budget.MaxCostUSD > 1e6:
		return fault.Invalidf("agent.toml: budget limits can't be negative.")
	}
	return nil
}

// apply fills in what a new session takes from its persona, including the texts of its prompt. The
// caller's settings can't lift a limit of the persona.
func (s *Service) apply(ctx context.Context, first *created) error {
	p, err := s.readPersona(ctx, first.Agent)
	if err == nil && p.broken {
		err = fault.Conflictf("The agent %s can't be used: %s", p.name, p.problems[0])
	}
	if err != nil {
		return err
	}
	first.PersonaHash, first.Role = p.hash, p.Role
	first.Model = cmp.Or(first.Model, p.Model)
	if p.Mode == ModeRead || first.Mode == "" {
		first.Mode = cmp.Or(p.Mode, ModeAsk)
	}
	if len(p.Tools) > 0 {
		first.Tools, first.Limited = p.Tools, true
	}
	b := &first.Budget
	b.MaxTurns = least(b.MaxTurns, p.Budget.MaxTurns)
	b.MaxTokens = least(b.MaxTokens, p.Budget.MaxTokens)
	b.MaxCostMicros = providers.Micros(least(int64(b.MaxCostMicros), int64(p.Budget.MaxCostUSD*1e6)))
	if first.Prompt, err = s.prompt(ctx, p); err != nil {
		return err
	}
	docs, err := s.skillDocs(ctx, first.ProjectDir)
	if part, names := skillIndex(docs); len(names) > 0 {
		first.Skills = names
		if part.Text != "" {
			first.Prompt = append(first.Prompt, part)
		}
	}
	return err
}

// prompt returns the texts that follow the built-in rules in a prompt, in order of precedence.
func (s *Service) prompt(ctx context.Context, p persona) ([]PromptPart, error) {
	out := []PromptPart{}
	add := func(kind, name, text string) {
		if strings.TrimSpace(text) != "" {
			out = append(out, PromptPart{Kind: kind, Name: name, Text: text})
		}
	}
	soul, from := p.soul, p.name+"/"+soulFile
	r, err := s.userFiles(ctx, false)
	if err == nil {
		defer r.Close()
		text, problem := readText(r, systemFile, maxSystem)
		if problem != "" {
			s.log.Warn("a text of the prompt is left out", "err", problem)
		}
		add("system", systemFile, text)
	}
	add("system", p.name+"/"+systemFile, p.system)
	if soul == "" && s.o.Soul != nil {
		if soul, err = s.o.Soul(ctx); err != nil {
			return nil, err
		}
		if from = "soul"; soul == "" && r != nil {
			soul, _ = readText(r, soulFile, 4*maxSoul)
			from = soulFile
		}
	}
	if runes := []rune(soul); len(runes) > maxSoul {
		soul = string(runes[:maxSoul])
	}
	if strings.TrimSpace(soul) != "" {
		add("soul", from, "What the person has written about themselves and how they want to be treated:\n"+soul)
	}
	return out, nil
}

// precedence names the texts of a prompt, the highest precedence first.
func precedence(prompt []PromptPart) []string {
	out := []string{"Built-in rules"}
	for _, x := range prompt {
		out = append(out, x.Name)
	}
	return append(out, "This chat")
}

// PersonaView is an agent in a list.
type PersonaView struct {
	Name     string   `json:"name"`
	Title    string   `json:"title,omitempty"`
	Default  bool     `json:"default,omitempty"` // used when no agent is named
	Running  int      `json:"running"`           // turns
	Sessions int      `json:"sessions"`
	Problems []string `json:"problems"`
}

// PersonasResult lists agents by name, the default agent first.
type PersonasResult struct {
	Personas []PersonaView `json:"personas"`
}

// Personas lists the agents.
func (s *Service) Personas(ctx context.Context, _ struct{}) (out PersonasResult, err error) {
	names := []string{DefaultAgent}
	if r, err := s.userFiles(ctx, false); err == nil {
		defer r.Close()
		list, _ := fs.ReadDir(r.FS(), agentsDir) // a missing folder has no agents
		for _, e := range list {
			if e.IsDir() && isPlainName(e.Name()) && e.Name() != DefaultAgent && len(names) < maxPersonas {
				names = append(names, e.Name())
			}
		}
	}
	out.Personas = []PersonaView{}
	for _, name := range names {
		p, err := s.readPersona(ctx, name)
		if err != nil {
			continue // removed meanwhile
		}
		v := PersonaView{Name: name, Title: cmp.Or(p.Title, agentTitle(name)), Default: name == DefaultAgent, Problems: append([]string{}, p.problems...)}
		err = s.db.Read(ctx, func(tx *storage.Tx) error {
			return tx.QueryRow(`SELECT count(*), coalesce(sum(EXISTS (SELECT 1 FROM agent_turns t WHERE t.session_id = s.id AND t.state IN ('running', 'waiting'))), 0)
				FROM sessions s WHERE s.user_id = ? AND s.agent_name = ? AND s.kind <> 'subagent' AND s.deleted_at IS NULL`, identity.UserID(ctx), name).Scan(&v.Sessions, &v.Running)
		})
		if err != nil {
			return out, err
		}
		out.Personas = append(out.Personas, v)
	}
	return out, nil
}

// PersonaParams names an agent; "" names the texts that apply to all agents.
type PersonaParams struct {
	Name string `json:"name"`
}

// PersonaResult is an agent with its texts. Edits apply from the next chat on.
type PersonaResult struct {
	Name       string          `json:"name"`
	Settings   PersonaSettings `json:"settings"`
	TOML       string          `json:"toml"`       // of agent.toml
	System     string          `json:"system"`     // of SYSTEM.md
	Soul       string          `json:"soul"`       // of SOUL.md
	Precedence []string        `json:"precedence"` // of the texts of its prompt, the highest precedence first
	Problems   []string        `json:"problems"`
	Hash       string          `json:"hash"`
}

// Persona returns an agent with its texts.
func (s *Service) Persona(ctx context.Context, p PersonaParams) (out PersonaResult, err error) {
	x, err := s.readPersona(ctx, cmp.Or(p.Name, DefaultAgent))
	if err != nil {
		return out, err
	}
	prompt, err := s.prompt(ctx, x)
	if p.Name == "" {
		x = persona{}
		if r, err := s.userFiles(ctx, false); err == nil {
			defer r.Close()
			x.read(r, ".")
		}
	}
	return PersonaResult{Name: x.name, Settings: x.PersonaSettings, TOML: x.toml, System: x.system, Soul: x.soul, Precedence: precedence(prompt), Problems: append([]string{}, x.problems...), Hash: x.hash}, err
}

// SetPersonaParams changes files of an agent; "" names the texts that apply to all agents. An absent
// text is left unchanged, an empty one removes its file.
type SetPersonaParams struct {
	Name   string  `json:"name"`
	TOML   *string `json:"toml,omitempty"`
	System *string `json:"system,omitempty"`
	Soul   *string `json:"soul,omitempty"`
	Remove bool    `json:"remove,omitempty"` // the agent with all its files
}

// SetPersona writes the files of an agent. Only a person may call it: agents must not change their
// own instructions.
func (s *Service) SetPersona(ctx context.Context, p SetPersonaParams) (PersonaResult, error) {
	if who, _ := identity.From(ctx); !who.MayApprove() {
		return PersonaResult{}, fault.Deniedf("Only a person can change the instructions of an agent.")
	}
	if p.Name != "" && !isPlainName(p.Name) {
		return PersonaResult{}, fault.Invalidf("A name has lower-case letters, digits and single hyphens, at most 64.")
	}
	for name, text := range map[string]*string{settingsFile: p.TOML, systemFile: p.System, soulFile: p.Soul} {
		switch {
		case text == nil:
		case !utf8.ValidString(*text) || len(*text) > maxSystem && name != soulFile || utf8.RuneCountInString(*text) > maxSystem:
			return PersonaResult{}, fault.Invalidf("%s is longer than 16 KiB or is not text.", name)
		case name == soulFile && utf8.RuneCountInString(*text) > maxSoul:
			return PersonaResult{}, fault.Invalidf("%s has more than %d characters.", name, maxSoul)
		case name == settingsFile && p.Name == "":
			return PersonaResult{}, fault.Invalidf("Settings belong to one agent. Name it.")
		case name == settingsFile:
			if err := (&persona{toml: *text}).parse(); err != nil {
				return PersonaResult{}, err
			}
		}
	}
	r, err := s.userFiles(ctx, true)
	if err != nil {
		return PersonaResult{}, fault.Unavailablef("This device has no folder for your files.").WithCause(err)
	}
	defer r.Close()
	dir := "."
	if p.Name != "" {
		dir = filepath.Join(agentsDir, p.Name)
	}
	if p.Remove {
		if p.Name == "" {
			return PersonaResult{}, fault.Invalidf("Name the agent to remove.")
		}
		if err := r.RemoveAll(dir); err != nil {
			return PersonaResult{}, fault.Unavailablef("Couldn't remove the agent.").WithCause(err)
		}
		bus.Publish(s.bus, identity.UserID(ctx), Changed{"personas"})
		return PersonaResult{Name: p.Name, Precedence: []string{}, Problems: []string{}}, nil
	}
	if err := r.MkdirAll(dir, 0o700); err != nil {
		return PersonaResult{}, fault.Unavailablef("Couldn't create the folder of the agent.").WithCause(err)
	}
	for name, text := range map[string]*string{settingsFile: p.TOML, systemFile: p.System, soulFile: p.Soul} {
		if text == nil {
			continue
		}
		if err := replaceFile(r, filepath.Join(dir, name), *text); err != nil {
			return PersonaResult{}, fault.Unavailablef("Couldn't write %s.", name).WithCause(err)
		}
	}
	bus.Publish(s.bus, identity.UserID(ctx), Changed{"personas"})
	return s.Persona(ctx, PersonaParams{p.Name})
}

// replaceFile writes a text atomically; an empty one removes the file.
func replaceFile(r *os.Root, name, text string) error {
	if text == "" {
		if err := r.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	part := name + "." + uuid.NewString()[:8] + ".tmp"
	if err := r.WriteFile(part, []byte(text), 0o600); err != nil {
		return err
	}
	return r.Rename(part, name)
}
