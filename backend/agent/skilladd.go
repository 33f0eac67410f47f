package agent

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

const (
	maxSkillZip = 4 << 20
	skillTrash  = ".trash" // of the managed folder
	trashAge    = 30 * 24 * time.Hour
)

// installSkill writes the files of a new document to the managed folder. The document stays inactive
// until the person allows it.
func (s *Service) installSkill(ctx context.Context, files map[string][]byte, origin string) (SkillDocument, error) {
	probe := &skillDoc{text: string(files[skillFile])}
	probe.parse("")
	name := probe.Name
	if !isPlainName(name) {
		return SkillDocument{}, fault.Invalidf("SKILL.md can't be used: %s", probe.diagnostics[0].Message)
	}
	user := identity.UserID(ctx)
	dir := s.managedSkills(user)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return SkillDocument{}, fault.Unavailablef("Couldn't create the folder of skills.").WithCause(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return SkillDocument{}, err
	}
	defer root.Close()
	if _, err := root.Lstat(name); err == nil {
		return SkillDocument{}, fault.Conflictf("A skill named %s already exists. Nothing was changed.", name)
	}
	part := ".new-" + uuid.NewString()
	defer root.RemoveAll(part) //nolint:errcheck // already renamed on success
	for file, content := range files {
		at := filepath.Join(part, filepath.FromSlash(file))
		if err := errors.Join(root.MkdirAll(filepath.Dir(at), 0o700), root.WriteFile(at, content, 0o600)); err != nil {
			return SkillDocument{}, fault.Unavailablef("Couldn't write the skill.").WithCause(err)
		}
	}
	if err := root.Rename(part, name); err != nil {
		return SkillDocument{}, fault.Unavailablef("Couldn't write the skill.").WithCause(err)
	}
	d := readSkill(root, name, name)
	d.source, d.path = "managed", filepath.Join(dir, name)
	out := SkillDocument{ID: storage.NewID(), SkillFront: d.SkillFront, Source: d.source, Path: d.path, Origin: origin, State: SkillInactive, Hash: d.hash, Tokens: estimate(d.body), Diagnostics: append([]SkillDiagnostic{}, d.diagnostics...)}
	if d.invalid() {
		out.State = SkillInvalid
	}
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		if _, err := tx.Exec(`DELETE FROM agent_skills WHERE user_id = ? AND path = ?`, user, out.Path); err != nil { // the row of a removed document
			return err
		}
		return out.save(tx, user)
	})
	bus.Publish(s.bus, user, Changed{"skills"})
	return out, err
}

// AddSkillParams holds one of: the path of a folder, zip file or SKILL.md on this computer; a zip
// file; a text.
type AddSkillParams struct {
	Path   string `json:"path,omitempty"`
	Base64 string `json:"base64,omitempty"`
	Text   string `json:"text,omitempty"`
}

// AddSkill copies a document to the managed folder. It stays inactive until it is enabled.
func (s *Service) AddSkill(ctx context.Context, p AddSkillParams) (SkillDocument, error) {
	if s.o.Workspaces == "" {
		return SkillDocument{}, fault.Unavailablef("There is no folder for skills.")
	}
	if who, _ := identity.From(ctx); p.Path != "" && !who.Person() {
		return SkillDocument{}, fault.Deniedf("Only a person can name a file of this computer. Send the text or a zip file.")
	}
	files, err := map[string][]byte{skillFile: []byte(p.Text)}, error(nil)
	switch st, serr := os.Stat(p.Path); {
	case p.Path != "" && serr != nil:
		return SkillDocument{}, fault.NotFoundf("%s is not there or can't be read.", p.Path)
	case p.Path != "" && st.IsDir():
		files, err = collectSkill(os.DirFS(p.Path))
	case p.Path != "" || p.Base64 != "":
		var raw []byte
		if p.Path != "" {
			raw, err = readUpTo(p.Path, maxSkillZip)
		} else if raw, err = base64.StdEncoding.DecodeString(p.Base64); err != nil || len(raw) > maxSkillZip {
			err = fault.Invalidf("base64 is not valid, or longer than %d MiB.", maxSkillZip>>20)
		}
		files = map[string][]byte{skillFile: raw}
		if err == nil && bytes.HasPrefix(raw, []byte("PK")) {
			var z *zip.Reader
			if z, err = zip.NewReader(bytes.NewReader(raw), int64(len(raw))); err != nil {
				err = fault.Invalidf("Couldn't read the zip file.").WithCause(err)
			} else if i := slices.IndexFunc(z.File, func(f *zip.File) bool { return !filepath.IsLocal(filepath.FromSlash(f.Name)) }); i >= 0 {
				err = fault.Invalidf("The zip file has a name that leads out of its folder: %q.", z.File[i].Name)
			} else {
				files, err = collectSkill(z)
			}
		}
	}
	if err != nil {
		return SkillDocument{}, err
	}
	if len(files[skillFile]) > maxSkillText {
		return SkillDocument{}, fault.Invalidf("SKILL.md is longer than %d KiB.", maxSkillText>>10)
	}
	return s.installSkill(ctx, files, "import")
}

func readUpTo(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fault.NotFoundf("%s can't be read.", name)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(raw)) > most {
		err = fault.Invalidf("%s is larger than %d MiB.", filepath.Base(name), most>>20)
	}
	return raw, err
}

// collectSkill reads the files of the folder that holds the only SKILL.md of tree.
func collectSkill(tree fs.FS) (map[string][]byte, error) {
	top := ""
	all := map[string][]byte{}
	total := 0
	err := fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case strings.Count(name, "/") > maxSkillDepth || len(all) > maxSkillFiles:
			return fault.Invalidf("A skill has at most %d files, %d folders deep.", maxSkillFiles, maxSkillDepth)
		case e.IsDir():
			return nil
		case !e.Type().IsRegular():
			return fault.Invalidf("%s is a link. A skill can't have links.", name)
		}
		f, err := tree.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		raw, err := io.ReadAll(io.LimitReader(f, maxSkillFileSize+1))
		if total += len(raw); err == nil && (len(raw) > maxSkillFileSize || total > 4*maxSkillZip) {
			err = fault.Invalidf("%s is larger than 1 MiB, or all files are too large together.", name)
		}
		if path.Base(name) == skillFile {
			if top != "" {
				return fault.Invalidf("There are several files SKILL.md. Add one skill at a time.")
			}
			top = path.Dir(name)
		}
		all[name] = raw
		return err
	})
	if err != nil {
		return nil, err
	}
	if top == "" {
		return nil, fault.Invalidf("There is no SKILL.md.")
	}
	out := map[string][]byte{}
	for name, raw := range all {
		if rel, ok := strings.CutPrefix(name, top+"/"); ok || top == "." {
			out[rel] = raw
		}
	}
	return out, nil
}

// RemoveSkillParams names a document to remove or to restore.
type RemoveSkillParams struct {
	ID      uuid.UUID `json:"id"`
	Restore bool      `json:"restore,omitempty"`
}

// RemoveSkill moves a document out of the managed folder, or back. Only a person may call it.
// Documents in other folders are the person's own files and are never moved.
func (s *Service) RemoveSkill(ctx context.Context, p RemoveSkillParams) (out SkillsResult, err error) {
	if who, _ := identity.From(ctx); !who.Person() {
		return out, fault.Deniedf("Only a person can remove a skill.")
	}
	user := identity.UserID(ctx)
	var source, at string
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT source, path FROM agent_skills WHERE id = ? AND user_id = ?`, p.ID, user).Scan(&source, &at)
	})
	if err != nil {
		return out, fault.NotFoundf("Skill not found.")
	}
	if source != "managed" {
		return out, fault.Conflictf("This skill is in one of your own folders. Disable it here, or remove %s yourself.", at)
	}
	root, err := os.OpenRoot(s.managedSkills(user))
	if err != nil {
		return out, fault.NotFoundf("Skill not found.")
	}
	defer root.Close()
	if err := root.MkdirAll(skillTrash, 0o700); err != nil {
		return out, fault.Unavailablef("Couldn't remove the skill.").WithCause(err)
	}
	name, kept := filepath.Base(at), filepath.Join(skillTrash, p.ID.String())
	if p.Restore {
		name, kept = kept, name
	}
	if err := root.Rename(name, kept); err != nil {
		return out, fault.Conflictf("The skill no longer exists, or another one has its name. Nothing was changed.").WithCause(err)
	}
	list, _ := fs.ReadDir(root.FS(), skillTrash)
	for _, e := range list { // purge documents removed long ago
		if info, err := e.Info(); err == nil && s.o.Now().Sub(info.ModTime()) > trashAge {
			_ = root.RemoveAll(filepath.Join(skillTrash, e.Name()))
		}
	}
	bus.Publish(s.bus, user, Changed{"skills"})
	return s.Skills(ctx, SkillsParams{})
}
