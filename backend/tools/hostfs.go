package tools

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/sandbox"
	"helix/backend/sandbox/rootfs"
	"helix/backend/storage"
	"helix/backend/wasmtools"
)

// Limits of reading files.
const (
	maxReadFile = 4 << 20
	maxEntries  = 10_000
)

// StateFolder returns the folder below root for the files of a tool of either kind, or "" if the
// subject is not stored. In package permission it is $STATE.
func StateFolder(root string, sub permission.Subject) string {
	if root == "" || sub.Kind != subjectKind && sub.Kind != wasmtools.Kind || strings.HasPrefix(sub.ID, draftPrefix) {
		return ""
	}
	return filepath.Join(root, sub.ID)
}

func (e *execution) folder() string { return StateFolder(e.s.o.StateDir, e.subject()) }

func refusedPath(path, why string) error {
	return (&fault.Error{Kind: fault.Denied, Message: why}).WithDetails(sandbox.Refusal{
		Reason: sandbox.ReasonPath, Capability: permission.FormatCapability(permission.FilesystemRead, path), Resource: path,
	})
}

// files returns a file system that opens only what was allowed, even if paths change meanwhile.
func (h *host) files() *rootfs.FS { return rootfs.New(h.e.s.o.Own, h.e.folder()) }

// refusal replaces the path in a refusal of the rooted file system by the one that the tool asked for.
func refusal(path string, err error) error {
	if f := fault.As(err); f.Kind == fault.Denied {
		return refusedPath(path, f.Message)
	}
	return err
}

func fileError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.NotFoundf("File not found.")
	case errors.Is(err, fs.ErrPermission):
		return refusedPath("", "The system doesn't allow Helix to read this file.")
	}
	return fault.New(fault.Unavailable, "The file cannot be read.").WithCause(err)
}

func (h *host) readText(ctx context.Context, c *call, p sandbox.PathRequest) (sandbox.TextResponse, error) {
	if err := c.allow(ctx, permission.FilesystemRead, p.Path, audit.ResourceAccess); err != nil {
		return sandbox.TextResponse{}, err
	}
	b, err := h.files().Read(c.path, maxReadFile)
	if err != nil {
		return sandbox.TextResponse{}, refusal(p.Path, err)
	}
	return sandbox.TextResponse{Text: h.scrub(strings.ToValidUTF8(string(b), "\uFFFD"))}, nil
}

func (h *host) listFolder(ctx context.Context, c *call, p sandbox.PathRequest) (sandbox.ListResponse, error) {
	out := sandbox.ListResponse{Entries: []sandbox.DirEntry{}}
	if err := c.allow(ctx, permission.FilesystemRead, p.Path, audit.ResourceAccess); err != nil {
		return out, err
	}
	list, err := h.files().List(c.path, maxEntries)
	if err != nil {
		return out, refusal(p.Path, err)
	}
	for _, e := range list {
		out.Entries = append(out.Entries, sandbox.DirEntry{Name: e.Name, Size: e.Size, IsDir: e.IsDir, Modified: e.Modified.Format(time.RFC3339)})
	}
	return out, nil
}

// writeText writes a whole file in the tool's own folder, within its quota.
func (h *host) writeText(ctx context.Context, c *call, p sandbox.WriteRequest) (struct{}, error) {
	e := h.e
	rel := filepath.ToSlash(p.Path)
	if !filepath.IsLocal(filepath.FromSlash(rel)) || strings.ContainsRune(rel, 0) || strings.ContainsRune(rel, '\\') || rel == "." || len(rel) > 500 {
		return struct{}{}, refusedPath(p.Path, "A tool writes only below its own folder: give a path such as notes/today.txt.")
	}
	if e.folder() == "" {
		return struct{}{}, fault.Unavailablef("An unsaved tool has no folder to write to. Save it first.")
	}
	if err := os.MkdirAll(e.folder(), 0o700); err != nil {
		return struct{}{}, fault.Internalf(err, "The tool's folder cannot be made.")
	}
	if err := c.allow(ctx, permission.FilesystemWrite, "$STATE/"+rel, audit.ResourceAccess); err != nil {
		return struct{}{}, err
	}
	root, err := os.OpenRoot(e.folder())
	if err != nil {
		return struct{}{}, fileError(err)
	}
	defer root.Close()
	// Only one writer at a time: the quota is a sum that two concurrent writers could exceed together.
	return struct{}{}, e.s.db.Write(ctx, func(tx *storage.Tx) error {
		files, err := folderSize(e.folder())
		if err != nil {
			return err
		}
		rows, err := e.stateBytes(tx)
		if err != nil {
			return err
		}
		var old int64
		if info, err := root.Lstat(rel); err == nil {
			if !info.Mode().IsRegular() {
				return refusedPath(p.Path, "Only regular files can be written.")
			}
			old = info.Size()
		}
		if need := files + rows - old + int64(len(p.Text)); need > e.quota() {
			return quotaError(need, e.quota())
		}
		if dir := filepath.ToSlash(filepath.Dir(filepath.FromSlash(rel))); dir != "." {
			if err := root.MkdirAll(dir, 0o700); err != nil {
				return fileError(err)
			}
		}
		tmp := ".new-" + e.id.String()
		if err := root.WriteFile(tmp, []byte(p.Text), 0o600); err != nil {
			return fileError(err)
		}
		if err := root.Rename(tmp, rel); err != nil {
			return errors.Join(fileError(err), root.Remove(tmp))
		}
		return nil
	})
}

// folderSize returns the total size of the files in a folder; 0 if it does not exist.
func folderSize(dir string) (int64, error) {
	var total int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return total, err
}
