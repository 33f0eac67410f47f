package coretools

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/sandbox/rootfs"
)

// Subjects of the grants to read: one for folders of this computer, and one per user for the vault,
// with the user's id appended.
const (
	filesSubject = "file.read"
	vaultSubject = "vault"
)

func vaultID(user uuid.UUID) string { return vaultSubject + " " + user.String() }

// VaultFolder returns the $STATE folder of the subject sub in package permission: the vault of a
// user in the workspaces below root, and "" for every other subject.
func VaultFolder(root string, sub permission.Subject) string {
	text, ok := strings.CutPrefix(sub.ID, vaultSubject+" ")
	user, err := uuid.Parse(text)
	if sub.Kind != string(callable.Builtin) || !ok || err != nil {
		return ""
	}
	return filepath.Join(root, user.String(), vault)
}

// filesInfo declares all files. Grants determine which of them may be read.
func (s *Service) filesInfo(_ context.Context, id string) (permission.SubjectInfo, error) {
	wants := []permission.Want{{Capability: permission.FilesystemRead, Resource: "/**"}}
	if filepath.VolumeName(s.o.Dir) != "" {
		wants = nil
		for letter := 'A'; letter <= 'Z'; letter++ {
			wants = append(wants, permission.Want{Capability: permission.FilesystemRead, Resource: string(letter) + ":/**"})
		}
	}
	return subjectInfo(id, "", wants...), nil
}

func (s *Service) vaultInfo(ctx context.Context, id string) (permission.SubjectInfo, error) {
	if id != vaultID(identity.UserID(ctx)) {
		return permission.SubjectInfo{}, fault.NotFoundf("Step not found.")
	}
	return subjectInfo(id, vaultSubject, permission.Want{Capability: permission.FilesystemRead, Resource: "$STATE/**"}), nil
}

// reading is a file or folder that a call may read.
type reading struct {
	place
	real  string // resolved path on this computer
	files *rootfs.FS
	pass  *callable.Pass // nil: no permission is needed
}

// end ends the grants given for this call only.
func (r *reading) end() {
	if r.pass != nil {
		r.pass.End()
	}
}

// allows reports whether the call may also read the file at real, below the folder.
func (r *reading) allows(real string) bool {
	return r.pass == nil || r.pass.Allows(permission.FilesystemRead, real)
}

// reach returns the permission needed to read p; tree includes everything below. ok is false if
// none is needed.
func (s *Service) reach(w workspace, p place, tree bool) (r callable.Reach, ok bool, err error) {
	r = callable.Reach{Name: filesSubject, Subject: callable.BuiltinSubject(filesSubject), Cap: permission.FilesystemRead, Resource: p.text, Action: audit.ResourceAccess}
	switch p.area {
	case shared, tmp:
		return r, false, nil
	case vault:
		r.Subject = callable.BuiltinSubject(vaultID(w.user))
		r.Resource = strings.TrimSuffix("$STATE/"+p.rel, "/.")
	default:
		// Ask the person for the resolved path.
		if r.Resource, err = s.o.Gate.Permission.Locate(r.Subject, r.Cap, p.text); err != nil {
			return r, true, callable.RefusedAlways(err)
		}
		if slices.ContainsFunc(systemFolders, func(dir string) bool { return r.Resource == dir || strings.HasPrefix(r.Resource, dir+"/") }) {
			return r, true, refusedPath("%s holds no files of yours.", r.Resource)
		}
	}
	if r.Ask = filepath.ToSlash(r.Resource); tree || r.Ask == "$STATE" {
		r.Ask += "/**"
	}
	return r, true, nil
}

// systemFolders contain special files.
var systemFolders = []string{"/proc", "/sys", "/dev"}

// read decides whether the call c, of a tier, may read the path text and, with tree, everything
// below it. The caller must call end on the result.
func (s *Service) read(ctx context.Context, c *callable.Request, text string, tree bool, tier permission.Tier) (*reading, error) {
	p, err := parsePath(text)
	if err != nil {
		return nil, err
	}
	w, err := s.workspace(ctx)
	if err != nil {
		return nil, err
	}
	reach, needed, err := s.reach(w, p, tree)
	if err != nil {
		return nil, err
	}
	r := &reading{place: p, real: w.path(p), files: rootfs.New(s.o.Own, filepath.Join(w.dir, p.area))}
	if !needed {
		return r, nil
	}
	if p.area == "" {
		r.files = rootfs.New(s.o.Own, "")
	}
	reach.Tier = tier
	if r.pass, err = s.o.Gate.Pass(ctx, c, reach); err != nil {
		return nil, err
	}
	r.real = r.pass.Path
	return r, nil
}

// readRights returns what a call with this input needs: nothing for paths in shared and tmp, and
// the permission to read for others.
func (s *Service) readRights(i callable.Info, tree bool) func(context.Context, json.RawMessage) (permission.PreviewResult, error) {
	i.Kind, i.ID = callable.Builtin, i.Name
	return func(ctx context.Context, input json.RawMessage) (permission.PreviewResult, error) {
		i := i
		var in struct{ Path string }
		if json.Unmarshal(input, &in) != nil || in.Path == "" {
			return callable.Needs(i), nil // the path depends on the run's data
		}
		p, err := parsePath(in.Path)
		if err != nil {
			return permission.PreviewResult{}, err
		}
		w, err := s.workspace(ctx)
		if err != nil {
			return permission.PreviewResult{}, err
		}
		r, needed, err := s.reach(w, p, tree)
		if err != nil {
			return permission.PreviewResult{}, err
		}
		if needed {
			return s.o.Gate.Preview(ctx, i, r)
		}
		i.Capabilities = nil
		return callable.Needs(i), nil
	}
}
