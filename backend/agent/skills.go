package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"gopkg.in/yaml.v3"

	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/providers"
	"helix/backend/storage"
)

// The states of a document.
const (
	SkillInactive = "inactive" // not allowed yet
	SkillActive   = "active"
	SkillDisabled = "disabled"
	SkillChanged  = "changed" // changed since it was allowed; unused until the person accepts the change
	SkillInvalid  = "invalid"
)

// SkillDocument is a SKILL.md document and its approval.
type SkillDocument struct {
	ID uuid.UUID `json:"id"`
	SkillFront
	Source      string            `json:"source"` // project, user, shared or managed, nearest first
	Path        string            `json:"path"`
	Origin      string            `json:"origin"` // user, agent, import or project
	State       string            `json:"state"`
	Hash        string            `json:"hash"` // of its current text and files
	Tokens      int64             `json:"tokens"`
	Diagnostics []SkillDiagnostic `json:"diagnostics"`
	LastUsed    *time.Time        `json:"lastUsed,omitempty"`

	doc                *skillDoc
	trusted            bool   // its folder is trusted
	approved, approval string // hash and text that were approved
}

// skillRoots returns the folders to search for documents, nearest first.
func (s *Service) skillRoots(ctx context.Context, project string) (out []SkillFolder, err error) {
	user := identity.UserID(ctx)
	if project != "" {
		f := SkillFolder{Path: project, Source: "project"}
		err = s.db.Read(ctx, func(tx *storage.Tx) error {
			return tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM agent_skill_folders WHERE user_id = ? AND path = ?)`, user, project).Scan(&f.Trusted)
		})
		out = append(out, f)
	}
	if user == s.db.LocalUser().ID && s.o.UserDir != "" {
		out = append(out, SkillFolder{filepath.Join(s.o.UserDir, "skills"), "user", true})
		if filepath.Base(s.o.UserDir) == ".helix" {
			for _, name := range s.sharedFolders() {
				out = append(out, SkillFolder{filepath.Join(filepath.Dir(s.o.UserDir), name, "skills"), "shared", true})
			}
		}
	}
	if s.o.Workspaces != "" {
		out = append(out, SkillFolder{s.managedSkills(user), "managed", true})
	}
	return out, err
}

// sharedFolders returns the folders that other programs search for documents as well.
func (s *Service) sharedFolders() []string {
	if s.o.ClaudeSkills != nil && s.o.ClaudeSkills() {
		return []string{".agents", ".claude"}
	}
	return []string{".agents"}
}

// managedSkills returns the folder of documents that the person added or an agent wrote.
func (s *Service) managedSkills(user uuid.UUID) string {
	return filepath.Join(s.o.Workspaces, user.String(), "skills")
}

// skillDocs lists the documents of the caller and updates their rows.
func (s *Service) skillDocs(ctx context.Context, project string) (out []*SkillDocument, err error) {
	roots, err := s.skillRoots(ctx, project)
	if err != nil {
		return nil, err
	}
	nearer := map[string]string{}
	for _, f := range roots {
		dirs := []string{f.Path}
		if f.Source == "project" {
			dirs = nil
			for _, name := range append([]string{".helix"}, s.sharedFolders()...) {
				dirs = append(dirs, filepath.Join(f.Path, name, "skills"))
			}
		}
		for _, dir := range dirs {
			for _, d := range findSkills(dir, f.Source) {
				if at := nearer[d.Name]; at != "" {
					d.report(levelError, "name", "Another document of this name is nearer: %s.", at)
				} else if !d.invalid() && f.Trusted {
					nearer[d.Name] = d.path
				}
				out = append(out, &SkillDocument{SkillFront: d.SkillFront, Source: d.source, Path: d.path, Hash: d.hash, Tokens: estimate(d.body), Diagnostics: append([]SkillDiagnostic{}, d.diagnostics...), doc: d, trusted: f.Trusted})
			}
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	if err := s.checkRequires(ctx, out); err != nil {
		return nil, err
	}
	return out, s.syncSkills(ctx, out)
}

// syncSkills sets the states of documents from their rows. A document that the person put into their
// own folder, or into a project that they trust, is allowed when first seen; all others wait for the
// person.
func (s *Service) syncSkills(ctx context.Context, docs []*SkillDocument) error {
	user := identity.UserID(ctx)
	byPath := map[string]*SkillDocument{}
	for _, d := range docs {
		d.ID, d.Origin, d.State = storage.NewID(), "user", ""
		switch d.Source {
		case "managed":
			d.Origin = "import"
		case "project":
			d.Origin = "project"
		}
		byPath[d.Path] = d
	}
	known := map[string]string{}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.Select(`SELECT id, path, state, origin, definition_hash, approved_hash, approved_text, last_used FROM agent_skills WHERE user_id = ?`, user).Each(func(row storage.Row) error {
			var r SkillDocument
			if err := row.Scan(&r.ID, &r.Path, &r.State, &r.Origin, &r.Hash, &r.approved, &r.approval, storage.TimePtr(&r.LastUsed)); err != nil {
				return err
			}
			if d := byPath[r.Path]; d != nil {
				known[r.Path] = r.State + " " + r.Hash
				d.ID, d.State, d.Origin, d.approved, d.approval, d.LastUsed = r.ID, r.State, r.Origin, r.approved, r.approval, r.LastUsed
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	var stale []*SkillDocument
	for _, d := range docs {
		if d.approved == "" && d.Source != "managed" && d.trusted && !d.doc.invalid() {
			d.approved, d.approval = d.Hash, d.doc.definition
		}
		switch {
		case d.doc.invalid():
			d.State = SkillInvalid
		case !d.trusted:
			d.State = SkillInactive
		case d.State == SkillDisabled:
		case d.approved == "":
			d.State = SkillInactive
		case d.approved == d.Hash:
			d.State = SkillActive
		default:
			d.State = SkillChanged
		}
		if known[d.Path] != d.State+" "+d.Hash {
			stale = append(stale, d)
		}
	}
	if len(stale) == 0 {
		return nil
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		for _, d := range stale {
			if err := d.save(tx, user); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d *SkillDocument) save(tx *storage.Tx, user uuid.UUID) error {
	_, err := tx.Exec(`INSERT INTO agent_skills (id, user_id, name, source, path, definition_hash, approved_hash, approved_text, state, origin, frontmatter, body_tokens, diagnostics) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (user_id, path) DO UPDATE SET name = excluded.name, definition_hash = excluded.definition_hash, approved_hash = excluded.approved_hash, approved_text = excluded.approved_text, state = excluded.state,
		origin = excluded.origin, frontmatter = excluded.frontmatter, body_tokens = excluded.body_tokens, diagnostics = excluded.diagnostics`,
		d.ID, user, d.Name, d.Source, d.Path, d.Hash, d.approved, d.approval, d.State, d.Origin, jsonText(d.SkillFront), d.Tokens, jsonText(d.Diagnostics))
	return err
}

// skillIndex returns the part of a prompt that lists documents, and the names that skill_use accepts.
func skillIndex(docs []*SkillDocument) (part PromptPart, names []string) {
	docs = slices.DeleteFunc(slices.Clone(docs), func(d *SkillDocument) bool { return d.State != SkillActive })
	slices.SortFunc(docs, func(a, b *SkillDocument) int {
		return cmp.Or(b.Priority-a.Priority, strings.Compare(a.Name, b.Name))
	})
	const head = "Skills are instructions for jobs that the person has set up. Load the one that fits with skill_use before you do such a job:"
	left := int64(skillIndexTokens) - estimate(head)
	var index, always strings.Builder
	for _, d := range docs {
		names = append(names, d.Name)
		line := "\n- " + d.Name + ": " + strings.Join(strings.Fields(d.Description), " ")
		switch {
		case d.Activation == activationAlways:
			body, _ := clip(d.doc.body, int(skillBodyTokens*bytesPerToken))
			always.WriteString("\n\nSkill " + d.Name + ":\n" + body)
		case d.Activation == activationAuto && estimate(line) <= left:
			left -= estimate(line)
			index.WriteString(line)
		}
	}
	if index.Len() > 0 {
		part.Text = head + index.String()
	}
	part.Text = strings.TrimSpace(part.Text + always.String())
	part.Kind, part.Name = "skills", "Skills"
	slices.Sort(names)
	return part, names
}

// skillTools returns the tools for documents: one loads a document of the session, one writes new
// documents.
func (s *Service) skillTools(st *State) (out []tool) {
	if len(st.Created.Skills) > 0 {
		out = append(out, tool{
			core: true, info: callable.Info{Name: "skill_use", Effects: callable.Effects{ReadOnly: true, Idempotent: true}},
			decl: providers.ToolDecl{Name: "skill_use", Description: "Loads the instructions of a skill, or one of its files.", Input: json.RawMessage(fmt.Sprintf(`{"type":"object","additionalProperties":false,"required":["name"],"properties":{"name":{"enum":%s},"file":{"type":"string","description":"A file that the skill lists."}}}`, jsonText(st.Created.Skills)))},
			own: own(func(ctx context.Context, l *live, in struct{ Name, File string }) (ownResult, error) {
				value, err := s.useSkill(ctx, l, in.Name, in.File)
				return ownResult{value: value}, err
			}),
		})
	}
	if s.o.Workspaces == "" {
		return out
	}
	return append(out, tool{
		core: true, tier: permission.SideEffecting, info: callable.Info{Name: "skill_create"},
		decl: providers.ToolDecl{Name: "skill_create", Description: "Keeps instructions for a kind of job as a skill. It is not used before the person has read and allowed it. Existing ones can't be changed.", Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["name","description","body"],"properties":{"name":{"type":"string","pattern":"^[a-z0-9]+(-[a-z0-9]+)*$","maxLength":64},"description":{"type":"string","minLength":1,"maxLength":1024,"description":"What it does and when to use it."},"body":{"type":"string","minLength":1,"maxLength":16000}}}`)},
		own: own(func(ctx context.Context, _ *live, in struct{ Name, Description, Body string }) (ownResult, error) {
			head, err := yaml.Marshal(map[string]string{"name": in.Name, "description": in.Description})
			if err != nil {
				return ownResult{}, err
			}
			d, err := s.installSkill(ctx, map[string][]byte{skillFile: []byte("---\n" + string(head) + "---\n\n" + in.Body + "\n")}, "agent")
			return ownResult{value: map[string]any{"id": d.ID, "name": d.Name, "state": d.State}}, err
		}),
	})
}

// own converts a function with typed arguments to the body of a tool.
func own[P any](run func(ctx context.Context, l *live, in P) (ownResult, error)) func(context.Context, *live, *toolIntent, json.RawMessage) (ownResult, error) {
	decoded := typed(run)
	return func(ctx context.Context, l *live, _ *toolIntent, args json.RawMessage) (ownResult, error) {
		return decoded(ctx, l, args)
	}
}

// useSkill reads a document, or one of its files, if it is unchanged since the person allowed it.
func (s *Service) useSkill(ctx context.Context, l *live, name, file string) (any, error) {
	docs, err := s.skillDocs(ctx, l.state.Created.ProjectDir)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(docs, func(d *SkillDocument) bool { return d.Name == name && d.State == SkillActive })
	if i < 0 {
		i = slices.IndexFunc(docs, func(d *SkillDocument) bool { return d.Name == name })
	}
	if i < 0 {
		return nil, fault.NotFoundf("The skill %s no longer exists.", name)
	}
	d := docs[i]
	if d.State == SkillInvalid {
		return nil, fault.Deniedf("The skill %s can't be used: %s", name, d.Diagnostics[0].Message)
	}
	if d.State != SkillActive {
		return nil, fault.Deniedf("The skill %s is %s. The person must allow it in Settings, Agent.", name, d.State)
	}
	if file == "" {
		if err := s.db.Write(ctx, func(tx *storage.Tx) error {
			_, err := tx.Exec(`UPDATE agent_skills SET last_used = ? WHERE id = ?`, tx.Now, d.ID)
			return err
		}); err != nil {
			return nil, err
		}
		body, cut := clip(d.doc.body, int(skillBodyTokens*bytesPerToken))
		if cut {
			body += "\n… truncated"
		}
		return map[string]any{"name": d.Name, "instructions": body, "folder": d.Path, "files": append([]string{}, d.doc.files...)}, nil
	}
	if !slices.Contains(d.doc.files, file) {
		return nil, fault.NotFoundf("The skill %s has no file %q. It has: %s", name, file, strings.Join(d.doc.files, ", "))
	}
	root, err := os.OpenRoot(d.Path)
	if err != nil {
		return nil, fault.NotFoundf("The skill %s no longer exists.", name)
	}
	defer root.Close()
	text, problem := readText(root, filepath.FromSlash(file), maxSkillFileSize)
	if problem != "" {
		return nil, fault.Invalidf("%s", problem)
	}
	return map[string]any{"file": file, "text": text}, nil
}

// SkillFolder is a folder that is searched for documents.
type SkillFolder struct {
	Path    string `json:"path"`
	Source  string `json:"source"`
	Trusted bool   `json:"trusted"`
}

// SkillsParams may name a project whose documents are listed too.
type SkillsParams struct {
	ProjectDir string `json:"projectDir,omitempty"`
}

// SkillsResult lists documents, nearest first, and the searched folders, including every trusted
// project.
type SkillsResult struct {
	Skills  []SkillDocument `json:"skills"`
	Folders []SkillFolder   `json:"folders"`
	Tokens  int64           `json:"tokens"` // of the index in a prompt
}

// Skills lists SKILL.md documents with their problems.
func (s *Service) Skills(ctx context.Context, p SkillsParams) (out SkillsResult, err error) {
	out.Skills, out.Folders = []SkillDocument{}, []SkillFolder{}
	roots, err := s.skillRoots(ctx, p.ProjectDir)
	if err != nil {
		return out, err
	}
	docs, err := s.skillDocs(ctx, p.ProjectDir)
	for _, d := range docs {
		out.Skills = append(out.Skills, *d)
	}
	out.Folders = append(out.Folders, roots...)
	if err == nil {
		err = s.db.Read(ctx, func(tx *storage.Tx) error {
			return tx.Select(`SELECT path FROM agent_skill_folders WHERE user_id = ? AND path <> ? ORDER BY path`, identity.UserID(ctx), p.ProjectDir).Each(func(row storage.Row) error {
				f := SkillFolder{Source: "project", Trusted: true}
				err := row.Scan(&f.Path)
				out.Folders = append(out.Folders, f)
				return err
			})
		})
	}
	if part, _ := skillIndex(docs); part.Text != "" {
		out.Tokens = estimate(part.Text)
	}
	return out, err
}

// SkillDocumentParams names a document.
type SkillDocumentParams struct {
	ID uuid.UUID `json:"id"`
}

// SkillDocumentResult is a document with its text. Approved is the text that was allowed last.
type SkillDocumentResult struct {
	Skill    SkillDocument `json:"skill"`
	Text     string        `json:"text"` // of SKILL.md, and the hashes of its other files
	Files    []string      `json:"files"`
	Approved string        `json:"approved"`
}

// skillByID finds a document of the caller, including those of trusted projects.
func (s *Service) skillByID(ctx context.Context, id uuid.UUID) (*SkillDocument, error) {
	projects := []string{""}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.Select(`SELECT path FROM agent_skill_folders WHERE user_id = ?`, identity.UserID(ctx)).Each(func(row storage.Row) error {
			var dir string
			err := row.Scan(&dir)
			projects = append(projects, dir)
			return err
		})
	})
	for _, project := range projects {
		var docs []*SkillDocument
		if err == nil {
			docs, err = s.skillDocs(ctx, project)
		}
		if i := slices.IndexFunc(docs, func(d *SkillDocument) bool { return d.ID == id }); i >= 0 {
			return docs[i], err
		}
	}
	return nil, cmp.Or(err, error(fault.NotFoundf("Skill not found.")))
}

// Skill returns a document with its current text and the text that was allowed.
func (s *Service) Skill(ctx context.Context, p SkillDocumentParams) (out SkillDocumentResult, err error) {
	d, err := s.skillByID(ctx, p.ID)
	if err != nil {
		return out, err
	}
	return SkillDocumentResult{*d, d.doc.definition, append([]string{}, d.doc.files...), d.approval}, nil
}

// SetSkillParams allows or disables a document, or sets whether a project's folder is trusted.
type SetSkillParams struct {
	ID      *uuid.UUID `json:"id,omitempty"`
	Enabled *bool      `json:"enabled,omitempty"`
	Hash    string     `json:"hash,omitempty"` // to enable: hash of the version that the person has read
	Folder  string     `json:"folder,omitempty"`
	Trusted *bool      `json:"trusted,omitempty"`
}

// SetSkill allows agents to use a document, or forbids it. Enabling a document accepts its current
// text.
func (s *Service) SetSkill(ctx context.Context, p SetSkillParams) (out SkillsResult, err error) {
	user := identity.UserID(ctx)
	switch {
	case p.Folder != "" && p.Trusted != nil:
		if !filepath.IsAbs(p.Folder) {
			return out, fault.Invalidf("The folder must be an absolute path.")
		}
		err = s.db.Write(ctx, func(tx *storage.Tx) error {
			query, args := `DELETE FROM agent_skill_folders WHERE user_id = ? AND path = ?`, []any{user, filepath.Clean(p.Folder)}
			if *p.Trusted {
				query, args = `INSERT INTO agent_skill_folders (user_id, path, trusted_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, append(args, tx.Now)
			}
			_, err := tx.Exec(query, args...)
			return err
		})
	case p.ID != nil && p.Enabled != nil:
		d, ferr := s.skillByID(ctx, *p.ID)
		switch {
		case ferr != nil:
			return out, ferr
		case !*p.Enabled:
			d.State = SkillDisabled
		case !d.trusted:
			return out, fault.Conflictf("The folder of this skill is not trusted. Trust the project first.")
		case d.State == SkillInvalid:
			return out, fault.Invalidf("This skill has errors. Correct them first: %s", d.Diagnostics[0].Message)
		case p.Hash != d.Hash:
			return out, fault.Conflictf("The skill has changed since you read it. Read it again, then enable it.")
		default:
			d.State, d.approved, d.approval = SkillActive, d.Hash, d.doc.definition
		}
		err = s.db.Write(ctx, func(tx *storage.Tx) error { return d.save(tx, user) })
	default:
		return out, fault.Invalidf("Give id and enabled, or folder and trusted.")
	}
	if err != nil {
		return out, err
	}
	bus.Publish(s.bus, user, Changed{"skills"})
	return s.Skills(ctx, SkillsParams{})
}
