package tools

import (
	"context"
	"path/filepath"
	"strings"

	"helix/backend/audit"
	"helix/backend/permission"
	"helix/backend/sandbox"
)

// folders gives a module the folders that it may read: those that it asks for as a whole,
// path and everything below, and that were granted. The others stay unknown to it, and the
// question about them waits in Approvals.
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

// readBytes gives a module the content of a file.
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
