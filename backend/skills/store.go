package skills

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/jcs"
	"helix/backend/lifecycle"
	"helix/backend/skills/definition"
	"helix/backend/storage"
)

// Problems are the details of an error about a definition.
type Problems struct {
	Errors   []definition.Problem `json:"errors"`
	Warnings []definition.Problem `json:"warnings"`
}

// problemsError returns the error for all problems of a definition. lead is the beginning of its message.
func problemsError(r *definition.Report, lead string) error {
	n := len(r.Errors)
	first := ""
	if n > 0 {
		first = " The first: " + r.Errors[0].Message
	}
	return fault.Invalidf("%s: %s.%s", lead, problems(n), first).WithDetails(Problems{r.Errors, r.Warnings})
}

func problems(n int) string {
	if n == 1 {
		return "1 problem"
	}
	return fmt.Sprintf("%d problems", n)
}

// ValidateComposite validates a definition and reports all problems at once.
func (s *Service) ValidateComposite(ctx context.Context, p ValidateParams) (ValidateResult, error) {
	r, err := definition.Read(p.Skill, s.catalog(ctx))
	if err != nil {
		return ValidateResult{}, err
	}
	out := ValidateResult{Valid: r.Valid(), Errors: r.Errors, Warnings: r.Warnings}
	if r.Skill != nil {
		out.Normalized, err = r.Skill.Text()
	}
	return out, err
}

// CreateComposite saves a new skill. A definition with errors is stored as a disabled draft; one
// that cannot be read completely is Invalid with all problems as details.
func (s *Service) CreateComposite(ctx context.Context, p SaveParams) (Meta, error) {
	r, err := s.read(ctx, p.Skill)
	if err != nil {
		return Meta{}, err
	}
	if err := checkNote(p.Note); err != nil {
		return Meta{}, err
	}
	sk := r.Skill
	n := &row{
		id: storage.NewID(), user: identity.UserID(ctx), name: sk.Name, description: sk.Description, version: sk.Version, tags: sk.Tags, icon: sk.Icon,
		enabled: r.Valid() && (sk.IsEnabled == nil || *sk.IsEnabled), visibility: sk.Visibility, body: &sk.Body,
	}
	return s.add(ctx, n, r.Valid(), p.Note, "edit")
}

func (s *Service) add(ctx context.Context, n *row, valid bool, note, origin string) (Meta, error) {
	err := s.db.Write(ctx, func(tx *storage.Tx) error { return s.addTx(tx, n, note, origin) })
	if err != nil {
		return Meta{}, err
	}
	return n.meta(valid), nil
}

func (s *Service) addTx(tx *storage.Tx, n *row, note, origin string) error {
	if n.version == "" {
		n.version = lifecycle.FirstVersion
	}
	if n.visibility == "" {
		n.visibility = "private"
	}
	if err := s.checkName(tx, n); err != nil {
		return err
	}
	if err := n.insert(tx, note, origin); err != nil {
		return err
	}
	return s.kind.Changed(tx, n.item(), "created", map[string]any{"name": n.name, "version": n.version, "definitionHash": n.hash, "origin": origin})
}

// UpdateComposite changes a skill. A change to the definition creates a version. Omitted fields
// outside the definition (name, description, tags, icon, isEnabled, visibility) are not changed.
// With steps the whole definition is replaced, without them it is not changed.
func (s *Service) UpdateComposite(ctx context.Context, p SaveParams) (Meta, error) {
	if err := checkNote(p.Note); err != nil {
		return Meta{}, err
	}
	fields, id, err := named(p.Skill)
	if err != nil {
		return Meta{}, err
	}
	var old *row
	if err := s.db.Read(ctx, func(tx *storage.Tx) (err error) { old, err = ownSkill(tx, id); return err }); err != nil {
		return Meta{}, err
	}
	whole, err := complete(fields, old)
	if err != nil {
		return Meta{}, err
	}
	r, err := s.read(ctx, whole)
	if err != nil {
		return Meta{}, err
	}
	var now *row
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		if now, err = ownSkill(tx, id); err != nil {
			return err
		}
		if err := stale(now, p.ExpectedVersion); err != nil {
			return err
		}
		if p.ExpectedVersion == "" && now.head != old.head {
			return staleError(now) // the omitted fields came from another version
		}
		return s.save(tx, now, r, p.Note)
	})
	if err != nil {
		return Meta{}, err
	}
	if err := s.db.Read(ctx, func(tx *storage.Tx) error { return withLastRun(tx, now) }); err != nil {
		return Meta{}, err
	}
	return now.meta(r.Valid()), nil
}

// save applies a report to a stored skill.
func (s *Service) save(tx *storage.Tx, now *row, r *definition.Report, note string) error {
	sk, was := r.Skill, now.enabled
	want := was
	if sk.IsEnabled != nil {
		want = *sk.IsEnabled
	}
	if want && !was && !r.Valid() {
		return problemsError(r, "The skill cannot be enabled")
	}
	now.name, now.description, now.tags, now.icon, now.body = sk.Name, sk.Description, sk.Tags, sk.Icon, &sk.Body
	now.enabled = want && r.Valid()
	if sk.Visibility != "" {
		now.visibility = sk.Visibility
	}
	if err := s.checkName(tx, now); err != nil {
		return err
	}
	hash, err := sk.Hash()
	if err != nil {
		return err
	}
	fresh := hash != now.hash
	if fresh {
		if now.version, err = s.kind.NextVersion(tx, now.item(), sk.Version); err != nil {
			return err
		}
	}
	if err := now.update(tx, fresh, note, "edit"); err != nil {
		return err
	}
	change := "updated"
	if !fresh && now.enabled != was {
		if change, err = s.kind.Switched(tx, now.item(), now.enabled); err != nil {
			return err
		}
	}
	return s.kind.Changed(tx, now.item(), change, map[string]any{"name": now.name, "version": now.version, "definitionHash": now.hash, "enabled": now.enabled})
}

// named returns the fields of a skill and its id, which is required.
func named(raw json.RawMessage) (map[string]json.RawMessage, uuid.UUID, error) {
	var fields map[string]json.RawMessage
	if len(raw) > definition.MaxBytes || json.Unmarshal(raw, &fields) != nil || fields == nil {
		return nil, uuid.Nil, fault.Invalidf("skill must be an object of at most %d bytes.", definition.MaxBytes)
	}
	var text string
	if json.Unmarshal(fields["skillId"], &text) != nil {
		return nil, uuid.Nil, fault.Invalidf("Give skill.skillId: which skill to change.")
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return nil, uuid.Nil, fault.Invalidf("skill.skillId is not an id.")
	}
	return fields, id, nil
}

// fieldsAroundDefinition lists the fields that are not part of the definition.
var fieldsAroundDefinition = []string{"name", "description", "version", "tags", "icon", "isEnabled", "visibility"}

// complete adds omitted fields from the stored skill.
func complete(fields map[string]json.RawMessage, old *row) (json.RawMessage, error) {
	text, err := json.Marshal(old.skill())
	if err != nil {
		return nil, err
	}
	var stored map[string]json.RawMessage
	if err := json.Unmarshal(text, &stored); err != nil {
		return nil, err
	}
	take := fieldsAroundDefinition
	if _, ok := fields["enabled"]; ok { // the older name of isEnabled
		stored["isEnabled"] = nil
	}
	if _, ok := fields["steps"]; !ok {
		take = append([]string{"inputSchema", "outputMapping", "notification", "overallTimeoutMs", "steps"}, fieldsAroundDefinition...)
		for _, k := range take[:4] {
			delete(fields, k)
		}
	}
	for _, k := range take {
		if _, ok := fields[k]; !ok && stored[k] != nil {
			fields[k] = stored[k]
		}
	}
	return jcs.Marshal(fields)
}

// read reads a definition written by a person and rejects one that cannot be stored even as a draft.
func (s *Service) read(ctx context.Context, raw json.RawMessage) (*definition.Report, error) {
	r, err := definition.Read(raw, s.catalog(ctx))
	if err != nil {
		return nil, err
	}
	if !r.Whole {
		return nil, problemsError(r, "The skill cannot be saved")
	}
	return r, nil
}

func checkNote(note string) error {
	if n := len([]rune(note)); n > 500 {
		return fault.Invalidf("note has %d characters; 500 are allowed.", n)
	}
	return nil
}

// stale returns a conflict if an edit was based on another version than the current one.
func stale(r *row, expected string) error {
	if expected == "" || expected == r.version {
		return nil
	}
	return staleError(r)
}

// Current is the detail of the conflict when a skill has changed meanwhile.
type Current struct {
	SkillID   uuid.UUID `json:"skillId"`
	Version   string    `json:"version"`
	VersionID uuid.UUID `json:"versionId"`
}

func staleError(r *row) error {
	return fault.Conflictf("The skill has changed and is at version %s now. Reload it and decide again.", r.version).
		WithDetails(Current{r.id, r.version, r.head})
}

// NameTaken is the detail of the conflict when another skill has the name.
type NameTaken struct {
	SkillID uuid.UUID `json:"skillId"`
	Name    string    `json:"name"`
}

// kindOfSkills describes stored skills.
func (s *Service) kindOfSkills() *lifecycle.Kind {
	return &lifecycle.Kind{
		Table: "composite_skills", Versions: "composite_skill_versions", Parent: "composite_skill_id", Author: "origin",
		Subject: string(callable.Skill), Action: "skill", Noun: "skill", MaxName: definition.MaxName,
		Audit: s.audit,
		Announce: func(tx *storage.Tx, it lifecycle.Item, change string) {
			ev := Changed{SkillID: it.ID, Version: it.Version, Change: change}
			tx.AfterCommit(func() { bus.Publish(s.db.Bus(), it.User, ev) })
		},
	}
}

func (r *row) item() lifecycle.Item {
	return lifecycle.Item{ID: r.id, User: r.user, Name: r.name, Version: r.version}
}

// checkName returns an error if another skill of the user has the name.
func (s *Service) checkName(tx *storage.Tx, r *row) error {
	return s.kind.CheckName(tx, r.item(), func(other lifecycle.Item) any { return NameTaken{other.ID, other.Name} })
}

// audit writes to the audit log if there is one.
func (s *Service) audit(tx *storage.Tx, e audit.Entry) error {
	if s.o.Audit == nil {
		return nil
	}
	e.SubjectKind = string(callable.Skill)
	return s.o.Audit(tx, e)
}
