package storage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"helix/backend/fault"
)

// Rollback restores the snapshot made before a migration, and blocks further migrations until
// Migrate is called. All sessions end.
func (s *Service) Rollback(ctx context.Context, p RollbackParams) (_ RestoreResult, err error) {
	var r RestoreResult
	ctx, done, err := s.exclusive(ctx, "rollback")
	if err != nil {
		return r, err
	}
	defer func() { done(err) }()
	snapshot, err := s.findSnapshot(p.Snapshot)
	if err != nil {
		return r, err
	}
	r.CreatedAt = nameTime(filepath.Base(snapshot), time.Time{})
	dataDir := filepath.Dir(s.db.path)
	room, err := diskSpace(dataDir)
	if err != nil {
		return r, err
	}
	if need := fileSize(snapshot) + 1<<20; room.Free < need {
		return r, fault.Limitf("Going back needs %d MB and there are %d MB free. Nothing was changed.", need>>20, room.Free>>20)
	}
	st := &staged{dir: freshName(dataDir, "staging-", time.Now(), "")}
	defer st.drop()
	if err := os.Mkdir(st.dir, 0o700); err != nil {
		return r, fullDisk(err)
	}
	h := sha256.New()
	s.progress(ctx, "rollback").step("copy", 0, fileSize(snapshot))
	if err := copyFile(st.db(), snapshot, h); err != nil {
		return r, fullDisk(err)
	}
	if want, err := os.ReadFile(snapshot + ".sha256"); err == nil && !strings.HasPrefix(string(want), hex.EncodeToString(h.Sum(nil))) {
		return r, fault.Invalidf("The snapshot does not have the content that was saved. Nothing was changed.")
	}
	s.progress(ctx, "rollback").step("check", 0, 1)
	if st.schema, err = s.checkStaged(ctx, st.db()); err != nil {
		return r, err
	}
	if r.Rows, r.Newer, err = s.compareRows(ctx, st.db()); err != nil || p.DryRun {
		return r, err
	}
	if err := detach(ctx, st.db()); err != nil {
		return r, err
	}
	crashPoint("rollback.staged")
	known, err := knownMigrations(ctx)
	if err != nil {
		return r, err
	}
	if err := os.MkdirAll(filepath.Join(dataDir, "backups"), 0o700); err != nil {
		return r, err
	}
	kept := freshName(filepath.Join(dataDir, "backups"), "rolled-back-", time.Now(), ".db")
	j := journal{Reason: "rollback", Moves: movesFor(dataDir, s.db.path, st.db(), kept)}
	if newest := known[len(known)-1].version; st.schema < newest {
		j.Hold = &hold{Schema: newest, AppVersion: s.version(), At: time.Now().UTC()}
	}
	if err := s.note(ctx, "data.rollback", map[string]any{"snapshot": filepath.Base(snapshot), "schema": st.schema}); err != nil {
		return r, err
	}
	if err := s.db.swap(ctx, "Helix is going back to an earlier state. Try again in a moment.", func() error { return commitJournal(dataDir, j) }); err != nil {
		return r, err
	}
	r.ReplacedPath = kept
	s.afterSwap(ctx)
	return r, nil
}

// findSnapshot returns the named pre-migration snapshot, or the newest one.
func (s *Service) findSnapshot(name string) (string, error) {
	if name != "" {
		p := s.resolve(name)
		if !strings.HasSuffix(p, ".db") || fileSize(p) == 0 {
			return "", fault.NotFoundf("Snapshot not found.")
		}
		return p, nil
	}
	all, err := s.listBackups()
	if err != nil {
		return "", err
	}
	for _, b := range all {
		if b.Kind == "pre-migration" {
			return b.Path, nil
		}
	}
	return "", fault.NotFoundf("No pre-migration snapshot found.")
}

// Migrate removes the hold that Rollback left and migrates the data to this version's schema. All
// sessions end if anything changed.
func (s *Service) Migrate(ctx context.Context, _ struct{}) (_ MigrateResult, err error) {
	var r MigrateResult
	ctx, done, err := s.exclusive(ctx, "migrate")
	if err != nil {
		return r, err
	}
	defer func() { done(err) }()
	st, err := readFileState(ctx, s.db.path)
	if err != nil {
		return r, dbError(ctx, err)
	}
	r.From, r.To = st.version, st.version
	if rec := s.db.Recovery(); rec == nil {
		return r, nil
	} else if rec.Reason != "held" {
		return r, recoveryFault(rec)
	}
	dir := filepath.Dir(s.db.path)
	rep := s.progress(ctx, "migrate")
	before := s.db.o.Progress
	s.db.o.Progress = rep.step
	defer func() { s.db.o.Progress = before }()
	if err := s.db.swap(ctx, "Helix is updating its data. Try again in a moment.", func() error {
		return errors.Join(removeIf(filepath.Join(dir, holdFile)), syncDir(dir))
	}); err != nil {
		return r, err
	}
	if st, err = readFileState(ctx, s.db.path); err != nil {
		return r, dbError(ctx, err)
	}
	r.To = st.version
	s.afterSwap(ctx)
	return r, nil
}
