package coretools

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
)

// workspace is the folder of one user, with all links in its path resolved.
type workspace struct {
	user uuid.UUID
	dir  string
}

// Ages at which files in workspaces are deleted automatically, and how often this is checked.
const (
	tmpAge    = 7 * day
	undoAge   = day // a previous content; its token expires sooner
	holdAge   = day
	purgeAge  = time.Hour
	maxStatus = 1_000_000 // maximum number of files counted for a status
)

// workspace returns the workspace of the user in ctx, which is created on first use.
func (s *Service) workspace(ctx context.Context) (workspace, error) {
	w := workspace{user: identity.UserID(ctx)}
	if w.user == uuid.Nil {
		return w, fault.Deniedf("Nobody is signed in, so there is no workspace.")
	}
	dir := filepath.Join(s.o.Dir, w.user.String())
	for _, a := range areas {
		if err := os.MkdirAll(filepath.Join(dir, a), 0o700); err != nil {
			return w, fault.Unavailablef("Couldn't create the workspace.").WithCause(err)
		}
	}
	var err error
	if w.dir, err = filepath.EvalSymlinks(dir); err != nil {
		return w, fault.Unavailablef("Couldn't open the workspace.").WithCause(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.o.Now(); now.Sub(s.purged[w.user]) >= purgeAge {
		s.purged[w.user] = now
		s.purge(w, now)
	}
	return w, nil
}

// Folder returns the folder of the workspace of the user in ctx, which contains shared, tmp and vault.
func (s *Service) Folder(ctx context.Context) (string, error) {
	w, err := s.workspace(ctx)
	return w.dir, err
}

func (w workspace) path(p place) string {
	return filepath.Join(w.dir, p.area, filepath.FromSlash(p.rel))
}

// open opens a folder of the workspace, which must not be a link.
func (w workspace) open(name string) (*os.Root, error) {
	top, err := os.OpenRoot(w.dir)
	if err != nil {
		return nil, fileError(err)
	}
	defer top.Close()
	want, err := top.Lstat(name)
	if err != nil {
		return nil, fileError(err)
	}
	if !want.IsDir() {
		return nil, refusedPath("%s of the workspace is not a folder.", name)
	}
	r, err := top.OpenRoot(name)
	if err != nil {
		return nil, fileError(err)
	}
	if got, err := r.Stat("."); err != nil || !os.SameFile(want, got) {
		r.Close()
		return nil, refusedPath("%s of the workspace was replaced.", name)
	}
	return r, nil
}

// purge deletes what is old: temporary files, deleted files, previous contents, unfinished copies.
func (s *Service) purge(w workspace, now time.Time) {
	var errs []error
	old := func(info fs.FileInfo, age time.Duration) bool { return now.Sub(info.ModTime()) > age }
	for _, a := range []string{shared, tmp} {
		root, err := w.open(a)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, e := range entries(root, trashName) {
			age := undoAge
			if c, err := readChange(root, e.Name()); err == nil && c.After == "" {
				age = s.o.TrashAge()
			}
			if old(e, age) {
				errs = append(errs, root.RemoveAll(path.Join(trashName, e.Name())))
			}
		}
		if a == tmp {
			for _, e := range entries(root, ".") {
				if e.Name() != trashName && newest(root, e.Name(), e).Before(now.Add(-tmpAge)) {
					errs = append(errs, root.RemoveAll(e.Name()))
				}
			}
		}
		root.Close()
	}
	if root, err := w.open(holdsName); err == nil {
		for _, e := range entries(root, ".") {
			if old(e, holdAge) {
				errs = append(errs, root.RemoveAll(e.Name()))
			}
		}
		root.Close()
	}
	if err := errors.Join(errs...); err != nil {
		s.o.Logger.Warn("old files of a workspace stay", "err", err)
	}
}

// entries lists a folder without following links. A missing folder is empty.
func entries(root *os.Root, name string) []fs.FileInfo {
	dir, err := root.Open(name)
	if err != nil {
		return nil
	}
	defer dir.Close()
	list, err := dir.Readdir(-1)
	if err != nil {
		return nil
	}
	return list
}

// newest returns when the file, or anything in the folder, was last modified.
func newest(root *os.Root, name string, info fs.FileInfo) time.Time {
	at := info.ModTime()
	if info.IsDir() {
		_ = fs.WalkDir(root.FS(), name, func(_ string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // an unreadable entry does not prevent the deletion of the rest
			}
			if i, err := d.Info(); err == nil && i.ModTime().After(at) {
				at = i.ModTime()
			}
			return nil
		})
	}
	return at
}

// Area is one part of a workspace.
type Area struct {
	Name  string `json:"name"` // shared, tmp or vault
	Path  string `json:"path"` // on this computer
	Bytes int64  `json:"bytes"`
	Files int    `json:"files"`
}

// Status describes the content of a workspace. Deleted files that can still be restored are not counted.
type Status struct {
	Root  string `json:"root"` // on this computer
	Areas []Area `json:"areas"`
}

// Status returns the workspace of the caller.
func (s *Service) Status(ctx context.Context, _ struct{}) (Status, error) {
	w, err := s.workspace(ctx)
	if err != nil {
		return Status{}, err
	}
	out := Status{Root: w.dir}
	for _, name := range areas {
		a := Area{Name: name, Path: filepath.Join(w.dir, name)}
		root, err := w.open(name)
		if err != nil {
			return Status{}, err
		}
		err = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case p == trashName:
				return fs.SkipDir
			case err != nil || !d.Type().IsRegular():
				return nil
			case a.Files == maxStatus:
				return fs.SkipAll
			}
			if info, err := d.Info(); err == nil {
				a.Bytes, a.Files = a.Bytes+info.Size(), a.Files+1
			}
			return nil
		})
		root.Close()
		if err != nil {
			return Status{}, err
		}
		out.Areas = append(out.Areas, a)
	}
	return out, nil
}

// fileError converts an error of a file operation to a fault.
func fileError(err error) error {
	var f *fault.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &f):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return fault.NotFoundf("File not found.").WithCause(err)
	case errors.Is(err, fs.ErrPermission):
		return refusedPath("The system doesn't allow Helix to change this file.")
	}
	return fault.Unavailablef("Couldn't change the file. Nothing was changed.").WithCause(err)
}
