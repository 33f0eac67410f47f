package tools

import (
	"context"
	"path/filepath"
	"strings"

	"helix/backend/audit"
	"helix/backend/permission"
	"helix/backend/sandbox"
)

// folders returns the folders that a module may read: those for which it requests everything below the
// path and that are granted. The others are hidden from it, and their questions wait in Approvals.
func (h *host) folders(ctx context.Context, c *call, _ struct{}) (sandbox.FoldersResponse, error) {
	out := sandbox.FoldersResponse{Folders: []sandbox.Folder{}}
	for _, w := range h.e.wants {
		base, tree := strings.CutSuffix(w.Resource, "/**")
		if w.Capability != permission.FilesystemRead || !tree {
			continue
		}
		if err := c.allow(ctx, permission.FilesystemRead, base, audit.ResourceAccess); err != nil {
			if ctx.Err() != nil {
				return out, err
			}
			continue
		}
		out.Folders = append(out.Folders, sandbox.Folder{Name: filepath.ToSlash(c.path), Path: c.path})
	}
	return out, nil
}

// readBytes returns the content of a file to a module.
func (h *host) readBytes(ctx context.Context, c *call, p sandbox.PathRequest) (sandbox.BytesResponse, error) {
	if err := c.allow(ctx, permission.FilesystemRead, p.Path, audit.ResourceAccess); err != nil {
		return sandbox.BytesResponse{}, err
	}
	b, err := h.files().Read(c.path, maxReadFile)
	if err != nil {
		return sandbox.BytesResponse{}, refusal(p.Path, err)
	}
	return sandbox.BytesResponse{Content: h.scrubBytes(b)}, nil
}
