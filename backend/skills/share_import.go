package skills

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/skills/definition"
	"helix/backend/storage"
)

// Import imports a share file, or the one that a link refers to. The skill is disabled: enabling it accepts its permission preview. A
// definition that is not valid here, because a tool is missing, becomes a draft. A file with a
// wrong checksum or signature is rejected.
func (s *Service) Import(ctx context.Context, p ImportParams) (ImportResult, error) {
	out := ImportResult{Errors: []definition.Problem{}, Warnings: []string{}, Missing: []Dependency{}}
	choice, ok := conflictChoices[p.OnConflict]
	if !ok {
		return out, fault.Invalidf("onConflict is %q; it must be rename, newVersion or skip.", p.OnConflict)
	}
	if (len(p.File) == 0) == (p.URL == "") {
		return out, fault.Invalidf("Provide file or url.")
	}
	if p.URL != "" {
		file, err := s.sharedFile(ctx, p.URL)
		if err != nil {
			return out, err
		}
		p.File = file
	}
	f, err := readShare(p.File)
	if err != nil {
		return out, err
	}
	in := lifecycle.Incoming{}
	if in.Signature, in.State, err = shareFormat.Signer(f.Seal); err != nil {
		return out, err
	}
	if in.Signature == nil {
		in.Warnings = []string{"The file is not signed, so its author is unknown."}
	}
	sk, err := s.readShared(ctx, f, &out)
	if err != nil {
		return out, err
	}
	in.Name = sk.Name
	reviews, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) ([]lifecycle.Review, error) {
		return s.kind.Review(tx, s.db, []lifecycle.Incoming{in}, choice)
	})
	if err != nil {
		return out, err
	}
	r := &reviews[0]
	out.Name, out.Action, out.Warnings = r.Name, importActions[r.Action], append(r.Warnings, out.Warnings...)
	out.Signer, out.Trusted = cmp.Or(r.Signature.Fingerprint, "unsigned"), r.Signature.State == lifecycle.SignatureTrusted
	if r.Action == lifecycle.Leave {
		out.Warnings = append(out.Warnings, fmt.Sprintf("A skill named %q already exists; the file was skipped.", r.Name))
		out.Rights = RightsPreview{Steps: []StepRights{}, Union: []string{}, Verdict: verdictReady}
		return out, nil
	}
	expected, err := s.importTools(ctx, f, sk, !p.DryRun, &out)
	if err != nil {
		return out, err
	}
	c := &withExpected{Catalog: s.catalog(ctx), expected: expected}
	sk.SkillID = ""
	if r.Action == lifecycle.Update {
		sk.SkillID = r.Old.ID.String() // so that a skill that calls itself is found
	}
	text, err := sk.Text()
	if err != nil {
		return out, err
	}
	read, err := definition.Read(text, c)
	if err != nil {
		return out, err
	}
	if !read.Whole {
		return out, problemsError(read, "The skill in the file cannot be saved")
	}
	out.Errors = read.Errors
	for _, w := range read.Warnings {
		out.Warnings = append(out.Warnings, w.Path+": "+w.Message)
	}
	if err := missing(c, &read.Skill.Body, f.Dependencies, &out); err != nil {
		return out, err
	}
	if out.Rights, err = s.rights(ctx, c, &read.Skill.Body, false); err != nil {
		return out, err
	}
	if p.DryRun {
		return out, nil
	}
	if in.Hash, err = read.Skill.Hash(); err != nil {
		return out, err
	}
	err = s.db.Write(ctx, func(tx *storage.Tx) error { // what was reviewed may have changed
		reviews, err := s.kind.Review(tx, s.db, []lifecycle.Incoming{in}, choice)
		if err != nil {
			return err
		}
		out.Name, out.Action = reviews[0].Name, importActions[reviews[0].Action]
		return lifecycle.Import(reviews, func(_ int, r *lifecycle.Review) error { return s.importSkill(tx, read.Skill, r, &out) })
	})
	return out, err
}

// readShared reads the skill of a file and drops its ids, which are meaningless here.
func (s *Service) readShared(ctx context.Context, f *shareFile, out *ImportResult) (*definition.Skill, error) {
	r, err := definition.Read(f.Skill, s.catalog(ctx))
	if err != nil {
		return nil, err
	}
	if !r.Whole {
		return nil, problemsError(r, "The skill in the file cannot be saved")
	}
	sk := r.Skill
	for _, w := range r.Warnings {
		if w.Code == definition.CodeUnknown {
			out.Warnings = append(out.Warnings, w.Path+": "+w.Message)
		}
	}
	off := false
	sk.SkillID, sk.IsEnabled, sk.Visibility = "", &off, ""
	sk.Walk(func(_ string, st *definition.Step) {
		if st.ToolName != "" {
			st.ToolID = ""
		}
	})
	return sk, nil
}

// conflictChoices maps the values of onConflict on the wire.
var conflictChoices = map[string]lifecycle.OnConflict{
	"": lifecycle.Rename, "rename": lifecycle.Rename, "newVersion": lifecycle.Replace, "skip": lifecycle.Skip,
}

// importActions maps actions to the values of action on the wire.
var importActions = map[lifecycle.Action]string{lifecycle.Create: "created", lifecycle.Update: "version", lifecycle.Leave: "skipped"}

// importSkill stores a validated skill.
func (s *Service) importSkill(tx *storage.Tx, sk *definition.Skill, r *lifecycle.Review, out *ImportResult) error {
	if r.Action == lifecycle.Create {
		n := &row{
			id: storage.NewID(), user: identity.UserID(tx.Context()), name: r.Name, description: sk.Description, version: sk.Version, tags: sk.Tags,
			icon: sk.Icon, body: &sk.Body,
		}
		out.SkillID = &n.id
		return s.addTx(tx, n, "", "import")
	}
	old, err := ownSkill(tx, r.Old.ID)
	if err != nil {
		return err
	}
	out.SkillID = &old.id
	if r.Same {
		out.Warnings = append(out.Warnings, "Your skill already has this definition. Nothing was changed.")
		return nil
	}
	if old.version, err = s.kind.NextVersion(tx, old.item(), sk.Version); err != nil {
		return err
	}
	old.body, old.description, old.tags, old.icon, old.enabled = &sk.Body, sk.Description, sk.Tags, sk.Icon, false
	if err := old.update(tx, true, "", "import"); err != nil {
		return err
	}
	s.kind.Announce(tx, old.item(), "updated")
	return s.kind.Record(tx, old.item(), "imported", map[string]any{"name": old.name, "version": old.version, "definitionHash": old.hash, "signer": out.Signer})
}

// importTools adds the tools of a file, or only reports what would happen, and makes the steps call them
// by their local names. It returns the names of tools that do not exist here because nothing was added.
func (s *Service) importTools(ctx context.Context, f *shareFile, sk *definition.Skill, commit bool, out *ImportResult) (map[string]bool, error) {
	if len(f.Tools) == 0 {
		return nil, nil
	}
	sharer, ok := s.o.Callables.Provider(callable.Tool).(callable.Portable)
	if !ok {
		out.Warnings = append(out.Warnings, fmt.Sprintf("The file also holds %d tools; tools cannot be imported here.", len(f.Tools)))
		return nil, nil
	}
	list, err := sharer.Import(ctx, f.Tools, commit)
	if err != nil {
		return nil, err
	}
	names, expected := map[string]string{}, map[string]bool{}
	for _, t := range list {
		names[t.Name] = t.As
		for _, w := range t.Warnings {
			out.Warnings = append(out.Warnings, fmt.Sprintf("Tool %q: %s", t.Name, w))
		}
		if t.New {
			expected[t.As] = !commit
			out.Warnings = append(out.Warnings, fmt.Sprintf("The tool %q was imported disabled. Review it, then enable it.", t.As))
		}
		if t.As != t.Name {
			out.Warnings = append(out.Warnings, fmt.Sprintf("A tool named %q already exists; the imported one was named %q.", t.Name, t.As))
		}
	}
	sk.Walk(func(_ string, st *definition.Step) {
		if as, ok := names[st.ToolName]; ok && st.ToolType == definition.Custom {
			st.ToolName = as
		}
	})
	maps.DeleteFunc(expected, func(_ string, later bool) bool { return !later })
	return expected, nil
}

// withExpected is a catalog that includes the tools that an import would add.
type withExpected struct {
	definition.Catalog
	expected map[string]bool
}

func (c *withExpected) Find(kind definition.Kind, id, name string) ([]definition.Callable, error) {
	found, err := c.Catalog.Find(kind, id, name)
	if err == nil && len(found) == 0 && kind == definition.Custom && id == "" && c.expected[name] {
		return []definition.Callable{{Info: callable.Info{Ref: callable.Ref{Kind: kind.Callable()}, Name: name}}}, nil
	}
	return found, err
}

// missing lists the callables of the skill that this installation does not have, with their hashes
// from the file, and warns about those that differ from the originals.
func missing(c definition.Catalog, b *definition.Body, listed []Dependency, out *ImportResult) error {
	deps, err := dependencies(b, c)
	if err != nil {
		return err
	}
	hashes := map[Dependency]string{}
	for _, d := range listed {
		hashes[Dependency{ToolType: d.ToolType, Name: d.Name}] = d.DefinitionHash
	}
	for _, d := range deps {
		there := hashes[Dependency{ToolType: d.ToolType, Name: d.Name}]
		found, err := c.Find(d.ToolType, "", d.Name)
		switch {
		case err != nil:
			return err
		case len(found) == 0:
			out.Missing = append(out.Missing, Dependency{d.ToolType, d.Name, there})
		case there != "" && d.DefinitionHash != "" && there != d.DefinitionHash:
			out.Warnings = append(out.Warnings, fmt.Sprintf("%q is different here from the one the skill was made with.", d.Name))
		}
	}
	return nil
}
