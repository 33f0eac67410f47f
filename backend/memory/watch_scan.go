package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/memory/importer"
	"helix/backend/storage"
)

const (
	watchEvery  = 15 * time.Second // time between two scans of the watched folders
	watchSettle = 2 * time.Second  // how long a folder must be unchanged before an import
	trashBatch  = 200              // documents moved to the trash per transaction
)

// watchState is the in-memory state of the scans of watched folders.
type watchState struct {
	again  chan struct{} // requests a scan
	settle time.Duration // how long a change must be stable before it is imported

	scan    sync.Mutex // held during a scan
	pending map[uuid.UUID]pendingChange

	mu     sync.Mutex
	looked map[uuid.UUID]time.Time
}

// pendingChange is a change that may not be complete yet.
type pendingChange struct {
	signature string
	since     time.Time
}

// lookedAt returns when a folder was last scanned; nil means not since the start.
func (w *watchState) lookedAt(id uuid.UUID) *time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, ok := w.looked[id]; ok {
		return &at
	}
	return nil
}

func (s *Service) initWatch() {
	s.watch.again, s.watch.settle = make(chan struct{}, 1), watchSettle
	s.watch.pending, s.watch.looked = map[uuid.UUID]pendingChange{}, map[uuid.UUID]time.Time{}
	s.background = append(s.background, s.watchFolders)
}

// scanSoon requests a scan of the watched folders now rather than at the next interval.
func (s *Service) scanSoon() {
	select {
	case s.watch.again <- struct{}{}:
	default: // a scan is already requested
	}
}

// watchFolders scans the watched folders until ctx ends.
func (s *Service) watchFolders(ctx context.Context) error {
	for {
		wait := watchEvery
		settling, err := s.scanFolders(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("look at watched folders", "err", err)
		}
		if settling {
			wait = s.watch.settle
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-s.watch.again:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		timer.Stop()
	}
}

// scanFolders scans every watched folder once. settling reports that a folder has changes that will
// be imported if the next scan finds no more, because somebody may still be writing.
func (s *Service) scanFolders(ctx context.Context) (settling bool, err error) {
	s.watch.scan.Lock()
	defer s.watch.scan.Unlock()
	if s.o.Pause.Active() {
		return false, nil
	}
	all, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) ([]*watchedFolder, error) {
		return storage.Collect(tx.Select(`SELECT `+watchColumns+` FROM watched_folders WHERE paused = 0 ORDER BY id`), scanWatched)
	})
	for _, w := range all {
		wait, e := s.scanFolder(ctx, w)
		settling = settling || wait
		if e != nil && ctx.Err() == nil {
			e = fmt.Errorf("watch %s: %w", w.WatchID, e)
		}
		err = errors.Join(err, e)
	}
	return settling, err
}

// watchedFile is a row of watched_files.
type watchedFile struct {
	size, modified int64
	hash           []byte
	trashedAt      *int64
}

// folderDiff describes what has changed in a folder since its last import.
type folderDiff struct {
	changed   []int // files that are new or differ in size or time
	gone      []string
	signature string
}

// scanFolder scans one folder, and starts an import if its changes have settled.
func (s *Service) scanFolder(ctx context.Context, w *watchedFolder) (settling bool, err error) {
	if going, err := s.settleImport(ctx, w); going || err != nil {
		return false, err
	}
	f, err := importer.OpenFolder(w.Path, w.Format)
	if err != nil {
		return false, s.setWatch(ctx, w, watchMissing, fault.As(err).Message+" Nothing was removed.")
	}
	defer f.Close()
	s.watch.mu.Lock()
	s.watch.looked[w.WatchID] = time.Now()
	s.watch.mu.Unlock()
	known, err := s.watchedFiles(ctx, w.WatchID)
	if err != nil {
		return false, err
	}
	if len(f.Files) == 0 && w.Files > 0 { // such as the mount point of a disconnected drive
		return false, s.setWatch(ctx, w, watchMissing, "The folder is empty, as it is when a drive isn't connected. Nothing was removed.")
	}
	d := diffFolder(f, known)
	switch {
	case d.signature == "":
		delete(s.watch.pending, w.WatchID)
		return false, s.setWatch(ctx, w, watchWatching, "")
	case d.signature == w.attempt && w.State == watchFailed:
		return false, nil
	case d.signature == w.attempt: // such as an unreadable file
		return false, s.setWatch(ctx, w, watchWatching, "")
	}
	if p := s.watch.pending[w.WatchID]; p.signature != d.signature {
		s.watch.pending[w.WatchID] = pendingChange{d.signature, time.Now()}
		return true, nil
	} else if time.Since(p.since) < s.watch.settle {
		return true, nil
	}
	delete(s.watch.pending, w.WatchID)
	return false, s.importChanges(ctx, w, f, known, d)
}

// settleImport records the outcome of the last import of a folder. going reports that the import is
// still running.
func (s *Service) settleImport(ctx context.Context, w *watchedFolder) (going bool, err error) {
	if w.importID == nil || w.State != watchImporting {
		return false, nil
	}
	st, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (ImportStatus, error) {
		return importStatus(tx.QueryRow(`SELECT `+importColumns+` FROM memory_imports WHERE id = ?`, *w.importID))
	})
	switch {
	case err != nil && !fault.Is(err, fault.NotFound):
		return false, err
	case st.Status == "pending" || st.Status == "running":
		return true, nil
	case st.Status == "failed" || st.Status == "cancelled":
		return true, s.forgetImport(ctx, w, st)
	}
	return false, s.setWatch(ctx, w, watchWatching, "")
}

// forgetImport marks the files of a failed import as changed, so that they are imported again when
// something else changes or when the person resumes the folder.
func (s *Service) forgetImport(ctx context.Context, w *watchedFolder, st ImportStatus) error {
	message := st.Message
	if st.Status == "cancelled" {
		message = "The import was canceled."
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE watched_files SET size = -1, hash = x'' WHERE folder_id = ? AND name IN
			(SELECT value FROM json_each((SELECT options FROM memory_imports WHERE id = ?), '$.only'))`, w.WatchID, *w.importID)
		if err != nil {
			return err
		}
		return s.setWatchTx(tx, w, watchFailed, message)
	})
}

func (s *Service) watchedFiles(ctx context.Context, id uuid.UUID) (map[string]watchedFile, error) {
	out := map[string]watchedFile{}
	return out, s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.Select(`SELECT name, size, modified, hash, trashed_at FROM watched_files WHERE folder_id = ?`, id).Each(func(row storage.Row) error {
			var name string
			var f watchedFile
			err := row.Scan(&name, &f.size, &f.modified, &f.hash, &f.trashedAt)
			out[name] = f
			return err
		})
	})
}

// diffFolder compares a folder with its files as last imported. The signature is "" if
// nothing has changed.
func diffFolder(f *importer.Folder, known map[string]watchedFile) (d folderDiff) {
	h := sha256.New()
	there := make(map[string]bool, len(f.Files))
	for i, file := range f.Files {
		there[file.Name] = true
		was, ok := known[file.Name]
		if !ok || was.trashedAt != nil || was.size != file.Size || was.modified != file.Modified.UnixNano() {
			d.changed = append(d.changed, i)
			fmt.Fprintf(h, "%q %d %d\n", file.Name, file.Size, file.Modified.UnixNano())
		}
	}
	for name, was := range known {
		if !there[name] && was.trashedAt == nil && !f.Unreadable(name) {
			d.gone = append(d.gone, name)
		}
	}
	slices.Sort(d.gone)
	fmt.Fprintf(h, "%q", d.gone)
	if len(d.changed)+len(d.gone) > 0 {
		d.signature = hex.EncodeToString(h.Sum(nil))
	}
	return d
}

// importChanges starts the import of the changes in a folder, and moves the documents of deleted
// files to the trash. Files whose content is unchanged are not imported again.
func (s *Service) importChanges(ctx context.Context, w *watchedFolder, f *importer.Folder, known map[string]watchedFile, d folderDiff) error {
	hashes := map[int][32]byte{}
	only := []string{}
	for _, i := range d.changed {
		if err := ctx.Err(); err != nil {
			return err
		}
		sum, err := f.Hash(i)
		if err != nil { // deleted or unreadable: the next scan reports it
			continue
		}
		hashes[i] = sum
		if was := known[f.Files[i].Name]; was.trashedAt != nil || !slices.Equal(was.hash, sum[:]) {
			only = append(only, f.Files[i].Name)
		}
	}
	for gone := range slices.Chunk(d.gone, trashBatch) {
		if err := s.trashNotes(ctx, w, gone); err != nil {
			return err
		}
	}
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		if there, err := s.stillWatched(tx, w); err != nil || !there {
			return err
		}
		for i, sum := range hashes {
			file := f.Files[i]
			if was := known[file.Name]; was.trashedAt != nil {
				if err := s.restoreNote(tx, w, file.Name, *was.trashedAt); err != nil {
					return err
				}
			}
			if _, err := tx.Exec(`INSERT INTO watched_files (folder_id, name, user_id, size, modified, hash) VALUES (?, ?, ?, ?, ?, ?)
				ON CONFLICT (folder_id, name) DO UPDATE SET size = excluded.size, modified = excluded.modified, hash = excluded.hash, trashed_at = NULL`,
				w.WatchID, file.Name, w.user, file.Size, file.Modified.UnixNano(), sum[:]); err != nil {
				return err
			}
		}
		w.attempt = d.signature
		if _, err := tx.Exec(`UPDATE watched_folders SET attempt = ?, trashed = ? WHERE id = ?`, d.signature, len(d.gone), w.WatchID); err != nil {
			return err
		}
		if len(only) == 0 {
			return s.setWatchTx(tx, w, watchWatching, "")
		}
		return s.beginWatchImport(tx, w, only)
	})
	if err == nil && len(only) > 0 {
		s.startImports(w.user)
	}
	return err
}

// stillWatched reports whether the folder is still being watched. A person may have removed or
// paused it during the scan.
func (s *Service) stillWatched(tx *storage.Tx, w *watchedFolder) (bool, error) {
	now, err := s.watched(tx, w.user, w.WatchID)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil && !now.paused, err
}

// beginWatchImport creates the job that imports some files of a folder, replacing the previous one.
func (s *Service) beginWatchImport(tx *storage.Tx, w *watchedFolder, only []string) error {
	o := w.o
	o.Only = only
	options, err := json.Marshal(&o)
	if err != nil {
		return err
	}
	if err := dropWatchImport(tx, w); err != nil {
		return err
	}
	id := storage.NewID()
	if _, err := tx.Exec(`INSERT INTO memory_imports (id, user_id, format, path, options, status, created_at) VALUES (?, ?, ?, ?, ?, 'pending', ?)`,
		id, w.user, o.Format, o.where(), json.RawMessage(options), tx.Now); err != nil {
		return err
	}
	w.importID = &id
	if _, err := tx.Exec(`UPDATE watched_folders SET import_id = ? WHERE id = ?`, id, w.WatchID); err != nil {
		return err
	}
	return s.setWatchTx(tx, w, watchImporting, "")
}

// dropWatchImport deletes the last import of a folder unless it is running.
func dropWatchImport(tx *storage.Tx, w *watchedFolder) error {
	if w.importID == nil {
		return nil
	}
	_, err := tx.Exec(`DELETE FROM memory_imports WHERE id = ? AND user_id = ? AND status NOT IN ('pending', 'running')`, *w.importID, w.user)
	return err
}

// trashNotes moves the documents of deleted files to the trash, and records the time. They are
// restored when their files come back, unless a person has deleted them.
func (s *Service) trashNotes(ctx context.Context, w *watchedFolder, names []string) error {
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		if there, err := s.stillWatched(tx, w); err != nil || !there {
			return err
		}
		for _, name := range names {
			if err := s.eachDocument(tx, w, name, func(id uuid.UUID) error {
				_, err := documentParent.deleteTx(s, tx, w.user, id)
				return err
			}); err != nil {
				return err
			}
			if _, err := tx.Exec(`UPDATE watched_files SET trashed_at = ? WHERE folder_id = ? AND name = ?`, tx.Now, w.WatchID, name); err != nil {
				return err
			}
		}
		return nil
	})
}

// restoreNote restores the documents of a file that has reappeared, if they moved to the trash with
// it. A purged document has no text; the import fills it again.
func (s *Service) restoreNote(tx *storage.Tx, w *watchedFolder, name string, at int64) error {
	return s.eachDocument(tx, w, name, func(id uuid.UUID) error {
		done, err := documentParent.restore(s, tx, w.user, id, &at)
		if err == nil && !done {
			_, err = tx.Exec(`UPDATE documents SET deleted_at = NULL, updated_at = ? WHERE id = ? AND deleted_at = ?`, tx.Now, id, at)
		}
		return err
	})
}

// eachDocument calls fn for the documents of a file; a long file has several.
func (s *Service) eachDocument(tx *storage.Tx, w *watchedFolder, name string, fn func(uuid.UUID) error) error {
	uri := folderURI(&w.o, w.Format) + escapePath(name)
	ids, err := storage.Collect(tx.Select(`SELECT id FROM documents WHERE user_id = ? AND (source_uri = ? OR source_uri > ? AND source_uri < ?)`, w.user, uri, uri+"#", uri+"$"), storage.RowTo[uuid.UUID])
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := fn(id); err != nil {
			return err
		}
	}
	return nil
}

// setWatch stores a changed state of a folder and publishes it.
func (s *Service) setWatch(ctx context.Context, w *watchedFolder, state, message string) error {
	if w.State == state && w.Message == message {
		return nil
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error { return s.setWatchTx(tx, w, state, message) })
}

func (s *Service) setWatchTx(tx *storage.Tx, w *watchedFolder, state, message string) error {
	w.State, w.Message = state, message
	s.watchChanged(tx, w.user, w.WatchID)
	_, err := tx.Exec(`UPDATE watched_folders SET state = ?, message = ? WHERE id = ?`, state, message, w.WatchID)
	return err
}
