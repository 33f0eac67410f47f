package tools

import (
	"context"
	"errors"
	"os"

	"github.com/google/uuid"

	"helix/backend/permission"
	"helix/backend/trash"
)

// Trash describes deleted tools and WASM tools.
func (s *Service) Trash() []trash.Kind {
	out := []trash.Kind{s.kind.Trash(s.db, subjectKind, ""), s.wasm.Trash()}
	for i := range out {
		out[i].Purged = s.removeFiles(out[i].Name)
	}
	return out
}

// removeFiles removes the folders of purged tools of a kind.
func (s *Service) removeFiles(kind string) func(context.Context, []uuid.UUID) error {
	return func(_ context.Context, ids []uuid.UUID) (err error) {
		for _, id := range ids {
			if folder := StateFolder(s.o.StateDir, permission.Subject{Kind: kind, ID: id.String()}); folder != "" {
				err = errors.Join(err, os.RemoveAll(folder))
			}
		}
		return err
	}
}
