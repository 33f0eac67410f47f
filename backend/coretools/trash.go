package coretools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/sandbox/rootfs"
	"helix/backend/storage"
)

// Each change has a folder in the trash of its area: record describes the change, was contains what
// it replaced or deleted, and next the new content until it is moved to its place.
const (
	recordName = "change.json"
	wasName    = "was"
	nextName   = "next"
)

// undoAct is the action name of this package's undo tokens in storage.
const undoAct = "coretools.file"

// change is the record of one change.
type change struct {
	Path   string `json:"path"`   // below the area
	Before string `json:"before"` // hash of the previous content; "": none
	After  string `json:"after"`  // hash of the new content; "": deleted
}

// undoState is the change that a token undoes.
type undoState struct {
	Area   string `json:"area"`
	Change string `json:"change"`
}

func readChange(root *os.Root, id string) (c change, err error) {
	name := path.Join(trashName, id, recordName)
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return c, errors.Join(err, fs.ErrNotExist)
	}
	b, err := root.ReadFile(name)
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(b, &c)
}

// changeID returns the id of the change that a call makes. It is the same for each attempt of the call.
func changeID(c *callable.Request) string {
	if c.Key == "" {
		return storage.NewID().String()
	}
	text, _ := json.Marshal([]any{c.Caller.Run, c.Key, c.Input}) // cannot fail: an id and two strings
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// area is the writable part of a workspace, while a call changes it.
type area struct {
	*os.Root
	name  string
	dir   string // on this computer
	files *rootfs.FS
}

// change opens the area of p for a change. The caller holds s.changing and must close it.
func (s *Service) change(ctx context.Context, p place) (*area, error) {
	w, err := s.workspace(ctx)
	if err != nil {
		return nil, err
	}
	root, err := w.open(p.area)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(w.dir, p.area)
	return &area{Root: root, name: p.area, dir: dir, files: rootfs.New(s.o.Own, dir)}, nil
}

// open opens the entry at rel, without following links. file is nil if it does not exist.
func (a *area) open(rel string) (file *os.File, info fs.FileInfo, err error) {
	file, info, err = a.files.Open(filepath.Join(a.dir, filepath.FromSlash(rel)))
	if fault.Is(err, fault.NotFound) {
		return nil, nil, nil
	}
	return file, info, err
}

// content returns the first limit bytes of the file at rel, and the hash of the whole file; "" if
// it does not exist.
func (a *area) content(ctx context.Context, rel string, limit int64) (text []byte, hash string, err error) {
	file, info, err := a.open(rel)
	if err != nil || file == nil {
		return nil, "", err
	}
	defer file.Close()
	if info.IsDir() {
		return nil, "", fault.Invalidf("This is a folder, not a file.")
	}
	sum := sha256.New()
	in := io.TeeReader(file, sum)
	if text, err = io.ReadAll(io.LimitReader(in, limit)); err != nil {
		return nil, "", fileError(err)
	}
	for ctx.Err() == nil {
		if n, err := io.CopyN(io.Discard, in, 8<<20); err != nil || n == 0 {
			break
		}
	}
	return text, sumText(sum), ctx.Err()
}

// keep stores the record of a change and the new content in the trash before the change is made.
func (a *area) keep(id string, c change, next []byte) (dir string, err error) {
	if err := a.MkdirAll(trashName, 0o700); err != nil {
		return "", fileError(err)
	}
	dir = path.Join(trashName, id)
	if err := a.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) { // an interrupted attempt
		dir = path.Join(trashName, storage.NewID().String())
		err = a.Mkdir(dir, 0o700)
		if err != nil {
			return "", fileError(err)
		}
	} else if err != nil {
		return "", fileError(err)
	}
	record, err := json.Marshal(c)
	if err == nil {
		err = a.WriteFile(path.Join(dir, recordName), record, 0o600)
	}
	if err == nil && c.After != "" {
		err = a.writeSynced(path.Join(dir, nextName), next)
	}
	if err == nil && c.After != "" && c.Before != "" {
		err = a.copy(c.Path, path.Join(dir, wasName))
	}
	return dir, fileError(err)
}

func (a *area) writeSynced(name string, content []byte) error {
	f, err := a.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// copy creates a hard link to the file from, or a copy if the system does not support links.
func (a *area) copy(from, to string) error {
	if a.Link(from, to) == nil {
		return nil
	}
	in, _, err := a.open(from)
	if err != nil || in == nil {
		return errors.Join(err, fs.ErrNotExist)
	}
	defer in.Close()
	out, err := a.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// move renames a file and creates the target folder if necessary.
func (a *area) move(from, to string) error {
	if dir := path.Dir(to); dir != "." {
		if err := a.MkdirAll(dir, 0o700); err != nil {
			return fileError(err)
		}
	}
	return fileError(a.Rename(from, to))
}

// token stores the information to undo the change in dir.
func (s *Service) token(ctx context.Context, area, dir string) (token string, err error) {
	return storage.Result(ctx, s.o.DB.Write, func(tx *storage.Tx) (string, error) {
		return tx.KeepUndo(identity.UserID(ctx), undoAct, undoState{area, path.Base(dir)})
	})
}

// UndoParams identifies a change.
type UndoParams struct {
	Token string `json:"token"`
}

// Undone is a change that was undone.
type Undone struct {
	Path string `json:"path"`
	// Restored is set if the previous file was restored; otherwise the created file was deleted.
	Restored bool `json:"restored"`
}

// Undo undoes one change to a file, using the token that the call returned. If the file has changed
// since, the error is a Conflict and the file is not touched.
func (s *Service) Undo(ctx context.Context, p UndoParams) (out Undone, err error) {
	user := identity.UserID(ctx)
	if user == uuid.Nil {
		return out, fault.Deniedf("Nobody is signed in, so there is no workspace.")
	}
	s.changing.Lock() // before the database, as for every change
	defer s.changing.Unlock()
	err = s.o.DB.Write(ctx, func(tx *storage.Tx) error {
		act, text, err := tx.TakeUndo(user, p.Token)
		if err != nil {
			return err
		}
		var state undoState
		if act != undoAct || json.Unmarshal(text, &state) != nil || !fs.ValidPath(state.Change) {
			return fault.NotFoundf("This can no longer be undone.")
		}
		out, err = s.restore(ctx, state)
		return err // the token remains valid if nothing was undone
	})
	return out, err
}

func (s *Service) restore(ctx context.Context, state undoState) (Undone, error) {
	a, err := s.change(ctx, place{area: state.Area})
	if err != nil {
		return Undone{}, err
	}
	defer a.Close()
	c, err := readChange(a.Root, state.Change)
	if err != nil {
		return Undone{}, fault.NotFoundf("This can no longer be undone.").WithCause(err)
	}
	p, err := inArea(state.Area, path.Clean(c.Path))
	if err != nil {
		return Undone{}, err
	}
	if there, err := a.same(ctx, c); err != nil || !there {
		return Undone{}, errors.Join(err, fault.Conflictf("%s has changed since then, so it was left as it is.", p.text))
	}
	dir := path.Join(trashName, state.Change)
	if c.Before == "" {
		err = a.Remove(p.rel)
	} else {
		err = a.move(path.Join(dir, wasName), p.rel)
	}
	if err != nil {
		return Undone{}, fileError(err)
	}
	_ = a.RemoveAll(dir) // an empty record remains until the trash is purged
	return Undone{Path: p.text, Restored: c.Before != ""}, nil
}

// same reports whether the area is in the state after the change c.
func (a *area) same(ctx context.Context, c change) (bool, error) {
	if c.After == "" {
		_, err := a.Lstat(c.Path)
		return errors.Is(err, fs.ErrNotExist), nil
	}
	_, hash, err := a.content(ctx, c.Path, 0)
	return hash == c.After, err
}
