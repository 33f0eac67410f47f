package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"helix/backend/fault"
)

// lostData returns why a file without data must not be treated as a first start: it belongs to
// another program, or other files show that there was data. It returns nil if the start may
// continue.
func (db *DB) lostData(st fileState) *RecoveryState {
	if db.startNew || st.users {
		return nil
	}
	name := filepath.Base(db.path)
	if st.foreign {
		return &RecoveryState{Reason: "missing", Problems: []string{db.path + " has tables, but not those of Helix"},
			Message: fmt.Sprintf("The file %s belongs to another program or was emptied. Nothing in it was changed. Restore a backup, or start with no data.", name)}
	}
	found := db.traces()
	if len(found) == 0 {
		return nil
	}
	what := "is empty"
	if !exists(db.path) {
		what = "is missing"
	}
	return &RecoveryState{Reason: "missing", Problems: found,
		Message: fmt.Sprintf("The database %s %s, but Helix was used here before. Nothing was changed. Restore a backup, or start with no data.", name, what)}
}

var errFound = errors.New("found")

// traces lists the evidence that this folder held data before.
func (db *DB) traces() (out []string) {
	for _, path := range db.o.Traces {
		if exists(path) {
			out = append(out, path+" is there")
		}
	}
	dir := filepath.Dir(db.path)
	backups, _ := readDirIf(filepath.Join(dir, "backups"))
	n := 0
	for _, e := range backups {
		if slices.ContainsFunc(backupKinds, func(k struct{ prefix, ext, kind string }) bool {
			return strings.HasPrefix(e.Name(), k.prefix) && strings.HasSuffix(e.Name(), k.ext)
		}) {
			n++
		}
	}
	if n > 0 {
		out = append(out, fmt.Sprintf("%d backups are in %s", n, filepath.Join(dir, "backups")))
	}
	if db.blobs.Each(func(Ref, time.Time) error { return errFound }) != nil {
		out = append(out, "stored files are in "+db.blobs.dir)
	}
	kept, _ := readDirIf(dir)
	for _, e := range kept {
		if strings.HasPrefix(e.Name(), "replaced-") || strings.HasPrefix(e.Name(), "corrupt-") {
			// A folder that is empty was left when the disk was full before anything was moved to it.
			if files, err := os.ReadDir(filepath.Join(dir, e.Name())); err != nil || len(files) > 0 {
				out = append(out, "earlier data is in "+filepath.Join(dir, e.Name()))
			}
		}
	}
	return out
}

// StartNew abandons a database that is missing or damaged and creates an empty one. The existing
// files are moved to a folder replaced-<time>. It works in recovery mode only.
func (s *Service) StartNew(ctx context.Context, _ struct{}) (_ StartNewResult, err error) {
	var r StartNewResult
	ctx, done, err := s.exclusive(ctx, "start_new")
	if err != nil {
		return r, err
	}
	defer func() { done(err) }()
	s.db.rescue.Wait()
	st := s.db.Recovery()
	if st == nil || st.Reason == "held" {
		return r, fault.Conflictf("The database opens normally, so Helix won't replace it with an empty one. Nothing was changed.")
	}
	dir := filepath.Dir(s.db.path)
	replaced := freshName(dir, "replaced-", time.Now(), "")
	if err := os.Mkdir(replaced, 0o700); err != nil {
		return r, fullDisk(err)
	}
	if err := s.keepFiles(replaced); err != nil {
		return r, fullDisk(err)
	}
	j := journal{Reason: "start_new"}
	base, to := filepath.Base(s.db.path), filepath.Base(replaced)
	for _, n := range []string{base + "-wal", base + "-shm", base, "blobs"} {
		j.Moves = append(j.Moves, move{From: n, To: filepath.Join(to, n)})
	}
	defer func() { s.db.startNew = false }()
	if err := s.db.swap(ctx, "Helix is starting with no data. Try again in a moment.", func() error {
		s.db.startNew = true
		return commitJournal(dir, j)
	}); err != nil {
		return r, err
	}
	r.ReplacedPath = replaced
	return r, s.note(s.afterSwap(ctx), "data.restore", map[string]any{"kind": "start_new", "reason": st.Reason, "replaced": to})
}
