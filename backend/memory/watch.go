package memory

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/memory/importer"
	"helix/backend/storage"
)

// The states of a watched folder.
const (
	watchWatching  = "watching"
	watchImporting = "importing"
	watchPaused    = "paused" // only in results: the stored state is kept separately
	watchMissing   = "missing"
	watchFailed    = "failed"
)

// maxWatched is the maximum number of watched folders per user.
const maxWatched = 50

// watchedFolder is a row of watched_folders.
type watchedFolder struct {
	WatchedFolder
	user     uuid.UUID
	o        importOptions
	paused   bool
	importID *uuid.UUID
	attempt  string
}

const watchColumns = `id, user_id, path, options, paused, state, message, trashed, import_id, attempt, created_at,
	(SELECT count(*) FROM watched_files f WHERE f.folder_id = watched_folders.id AND f.trashed_at IS NULL)`

func scanWatched(row storage.Row) (*watchedFolder, error) {
	w := &watchedFolder{}
	err := row.Scan(&w.WatchID, &w.user, &w.Path, storage.JSON(&w.o), &w.paused, &w.State, &w.Message, &w.Trashed, &w.importID, &w.attempt,
		storage.Time(&w.CreatedAt), &w.Files)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NotFoundf("Watched folder not found.")
	}
	w.Format, w.Tags, w.Untrusted = w.o.Format, append([]string{}, w.o.Tags...), w.o.Untrusted == nil || *w.o.Untrusted
	return w, err
}

func (s *Service) watched(tx *storage.Tx, user, id uuid.UUID) (*watchedFolder, error) {
	return scanWatched(tx.QueryRow(`SELECT `+watchColumns+` FROM watched_folders WHERE id = ? AND user_id = ?`, id, user))
}

// view returns a watched folder as callers see it.
func (s *Service) view(tx *storage.Tx, w *watchedFolder) (WatchedFolder, error) {
	v := w.WatchedFolder
	v.ScannedAt = s.watch.lookedAt(w.WatchID)
	switch {
	case w.paused:
		v.State, v.Message = watchPaused, ""
	case s.o.Pause.Active():
		v.State, v.Message = watchPaused, "Background work is paused."
	}
	if w.importID == nil {
		return v, nil
	}
	st, err := importStatus(tx.QueryRow(`SELECT `+importColumns+` FROM memory_imports WHERE id = ?`, *w.importID))
	if fault.Is(err, fault.NotFound) {
		return v, nil
	}
	st = s.imports.live(st)
	v.LastImport = &st
	return v, err
}

// WatchAdd starts to watch a folder of notes: it is imported, and imported again whenever notes are
// added, changed or deleted. The documents of deleted notes move to the trash. WatchAdd returns
// immediately; the import runs in the background.
func (s *Service) WatchAdd(ctx context.Context, p WatchAddParams) (WatchedFolder, error) {
	o, err := s.importOptions(ImportParams{Path: p.Path, Format: p.Format, Tags: p.Tags, Layer: p.Layer, Type: p.Type, Untrusted: p.Untrusted})
	if err != nil {
		return WatchedFolder{}, err
	}
	switch o.Format {
	case importer.Auto, importer.Markdown, importer.Text:
	default:
		return WatchedFolder{}, invalid("format", "Only folders of notes can be watched: use auto, markdown or text.")
	}
	if st, err := os.Stat(o.Path); err == nil && !st.IsDir() {
		return WatchedFolder{}, invalid("path", "This is a file. Choose the folder that it is in.")
	}
	f, err := importer.OpenFolder(o.Path, o.Format)
	if err != nil {
		return WatchedFolder{}, err
	}
	o.Format = f.Format
	_ = f.Close()
	user, id := identity.UserID(ctx), storage.NewID()
	o.Watch = &id
	options, err := json.Marshal(&o)
	if err != nil {
		return WatchedFolder{}, err
	}
	var out WatchedFolder
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		there, err := storage.Collect(tx.Select(`SELECT path FROM watched_folders WHERE user_id = ?`, user), storage.RowTo[string])
		if err != nil {
			return err
		}
		if len(there) >= maxWatched {
			return fault.Limitf("%d folders are watched; more are not possible. Remove one first.", len(there))
		}
		for _, other := range there {
			if within(o.Path, other) || within(other, o.Path) {
				return fault.Conflictf("%s is watched already. Remove it first.", other)
			}
		}
		if _, err := tx.Exec(`INSERT INTO watched_folders (id, user_id, path, options, created_at) VALUES (?, ?, ?, ?, ?)`, id, user, o.Path, json.RawMessage(options), tx.Now); err != nil {
			return err
		}
		if err := s.auditWatch(tx, id, "memory.watch_added", o.Path); err != nil {
			return err
		}
		w, err := s.watched(tx, user, id)
		if err != nil {
			return err
		}
		out, err = s.view(tx, w)
		s.watchChanged(tx, user, id)
		tx.AfterCommit(s.scanSoon)
		return err
	})
	return out, err
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// WatchList lists the watched folders of the caller.
func (s *Service) WatchList(ctx context.Context, _ struct{}) (WatchListResult, error) {
	out := WatchListResult{Folders: []WatchedFolder{}}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		all, err := storage.Collect(tx.Select(`SELECT `+watchColumns+` FROM watched_folders WHERE user_id = ? ORDER BY path`, identity.UserID(ctx)), scanWatched)
		for _, w := range all {
			v, err := s.view(tx, w)
			if err != nil {
				return err
			}
			out.Folders = append(out.Folders, v)
		}
		return err
	})
	return out, err
}

// WatchRemove stops watching a folder. Documents imported from it are kept.
func (s *Service) WatchRemove(ctx context.Context, p WatchParams) (WatchedFolder, error) {
	return s.changeWatch(ctx, p, func(tx *storage.Tx, w *watchedFolder) error {
		if _, err := tx.Exec(`DELETE FROM watched_folders WHERE id = ?`, w.WatchID); err != nil {
			return err
		}
		if err := dropWatchImport(tx, w); err != nil {
			return err
		}
		return s.auditWatch(tx, w.WatchID, "memory.watch_removed", w.Path)
	})
}

// WatchPause stops importing the changes of a folder until memory.watch_resume. A running
// import continues.
func (s *Service) WatchPause(ctx context.Context, p WatchParams) (WatchedFolder, error) {
	return s.changeWatch(ctx, p, func(tx *storage.Tx, w *watchedFolder) error {
		w.paused = true
		_, err := tx.Exec(`UPDATE watched_folders SET paused = 1 WHERE id = ?`, w.WatchID)
		return err
	})
}

// WatchResume resumes watching a folder, and retries failed imports.
func (s *Service) WatchResume(ctx context.Context, p WatchParams) (WatchedFolder, error) {
	return s.changeWatch(ctx, p, func(tx *storage.Tx, w *watchedFolder) error {
		w.paused, w.attempt = false, ""
		_, err := tx.Exec(`UPDATE watched_folders SET paused = 0, attempt = '' WHERE id = ?`, w.WatchID)
		return err
	})
}

func (s *Service) changeWatch(ctx context.Context, p WatchParams, change func(*storage.Tx, *watchedFolder) error) (out WatchedFolder, err error) {
	user := identity.UserID(ctx)
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		w, err := s.watched(tx, user, p.WatchID)
		if err != nil {
			return err
		}
		if err := change(tx, w); err != nil {
			return err
		}
		out, err = s.view(tx, w)
		s.watchChanged(tx, user, p.WatchID)
		tx.AfterCommit(s.scanSoon)
		return err
	})
	return out, err
}

// watchChanged publishes memory.watch_changed.
func (s *Service) watchChanged(tx *storage.Tx, user, id uuid.UUID) {
	b := tx.Bus()
	tx.AfterCommit(func() { bus.Publish(b, user, WatchChanged{id}) })
}

func (s *Service) auditWatch(tx *storage.Tx, id uuid.UUID, action, path string) error {
	if s.o.Audit == nil {
		return nil
	}
	return s.o.Audit(tx, audit.Entry{Action: action, SubjectKind: "folder", SubjectID: id.String(), Details: map[string]any{"name": filepath.Base(path)}})
}
