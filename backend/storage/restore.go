package storage

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"helix/backend/fault"
	"helix/backend/identity"
)

// VerifyBackup reads a whole backup and runs every check that a restore would.
func (s *Service) VerifyBackup(ctx context.Context, p VerifyBackupParams) (_ VerifyBackupResult, err error) {
	r := VerifyBackupResult{Problems: []string{}}
	ctx, done, err := s.exclusive(ctx, "verify")
	if err != nil {
		return r, err
	}
	defer func() { done(err) }()
	st, err := s.stage(ctx, s.resolve(p.Path), "verify")
	if err != nil {
		f := fault.As(err)
		if f.Kind != fault.Invalid && f.Kind != fault.Conflict {
			return r, err
		}
		r.Problems = append(r.Problems, f.Message)
		return r, nil
	}
	defer st.drop()
	r.OK, r.SchemaVersion, r.CreatedAt = true, st.schema, st.manifest.CreatedAt
	r.HasKey = st.manifest.has(nameKey)
	return r, nil
}

// resolve returns the path of a backup; a bare name means a file in the backups folder.
func (s *Service) resolve(path string) string {
	if path != "" && filepath.Base(path) == path {
		return filepath.Join(s.o.BackupDir, path)
	}
	return path
}

// staged is a backup that was unpacked and checked, on the same disk as the data.
type staged struct {
	dir      string
	manifest Manifest
	schema   int64 // of the saved database
}

func (st *staged) db() string { return filepath.Join(st.dir, nameDB) }

func (st *staged) drop() { _ = os.RemoveAll(st.dir) }

// stage unpacks the backup at path and checks hashes, pages and schema. The current data is not
// touched. A file that is not a valid backup is Invalid.
func (s *Service) stage(ctx context.Context, path, op string) (_ *staged, err error) {
	rep := s.progress(ctx, op)
	z, err := openBackup(path)
	if err != nil {
		return nil, err
	}
	defer z.close()
	dataDir := filepath.Dir(s.db.path)
	need := z.unpackedSize()
	if room, err := diskSpace(dataDir); err == nil && room.Free < need+1<<20 {
		return nil, badBackup("", "The backup unpacks to %d MB and there are %d MB free. Nothing was changed.", need>>20, room.Free>>20)
	}
	st := &staged{dir: freshName(dataDir, "staging-", time.Now(), ""), manifest: z.manifest}
	if err := os.Mkdir(st.dir, 0o700); err != nil {
		return nil, fullDisk(err)
	}
	defer func() {
		if err != nil {
			st.drop()
		}
	}()
	var n int64
	dirs := map[string]bool{st.dir: true}
	for _, f := range z.manifest.Files {
		target := filepath.Join(st.dir, filepath.FromSlash(f.Path))
		if err := z.extract(ctx, f, target, func(d int64) { rep.step("unpack", n+d, need) }); err != nil {
			return nil, err
		}
		dirs[filepath.Dir(target)] = true
		n += f.Size
	}
	for d := range dirs {
		if err := syncDir(d); err != nil {
			return nil, err
		}
	}
	crashPoint("restore.unpacked")
	rep.step("check", 0, need)
	if st.schema, err = s.checkStaged(ctx, st.db()); err != nil {
		return nil, err
	}
	return st, nil
}

// checkStaged returns Invalid for a damaged database and Conflict for a later schema.
func (s *Service) checkStaged(ctx context.Context, path string) (schema int64, err error) {
	if problem, err := headerProblem(path); err != nil || problem != "" {
		return 0, badBackup(nameDB, "The database in the backup is damaged.").WithCause(errors.Join(err, errors.New(problem)))
	}
	problems, err := pragmaProblems(ctx, standaloneDSN(path), "PRAGMA integrity_check(10)")
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if err != nil || len(problems) > 0 {
		return 0, badBackup(nameDB, "The database in the backup is damaged.").WithCause(errors.Join(err, errors.New(strings.Join(problems, "; "))))
	}
	st, err := closedFileState(ctx, path)
	if err != nil {
		return 0, err
	}
	if !st.present {
		return 0, badBackup(nameDB, "The database in the backup is not one of Helix.")
	}
	known, err := knownMigrations(ctx)
	if err != nil {
		return 0, err
	}
	_, err = st.compare(known, s.version())
	return st.version, err
}

// Restore replaces the current data with a backup and keeps the current data in a folder
// replaced-<time>. All sessions end.
func (s *Service) Restore(ctx context.Context, p RestoreParams) (_ RestoreResult, err error) {
	var r RestoreResult
	ctx, done, err := s.exclusive(ctx, "restore")
	if err != nil {
		return r, err
	}
	defer func() { done(err) }()
	st, err := s.stage(ctx, s.resolve(p.Path), "restore")
	if err != nil {
		return r, err
	}
	defer st.drop()
	r.CreatedAt = st.manifest.CreatedAt
	if err := s.rewrapKeys(ctx, st, p.Passphrase); err != nil {
		return r, err
	}
	if err := s.modernize(ctx, st.db()); err != nil {
		return r, err
	}
	if r.Rows, r.Newer, err = s.compareRows(ctx, st.db()); err != nil || p.DryRun {
		return r, err
	}
	if err := detach(ctx, st.db()); err != nil {
		return r, err
	}
	crashPoint("restore.staged")
	dataDir := filepath.Dir(s.db.path)
	replaced := freshName(dataDir, "replaced-", time.Now(), "")
	j := journal{Reason: "restore", Moves: movesFor(dataDir, s.db.path, st.db(), filepath.Join(replaced, filepath.Base(s.db.path)))}
	if st.manifest.hasBlobs() {
		j.Moves = append(j.Moves,
			move{From: "blobs", To: filepath.Join(filepath.Base(replaced), "blobs")},
			move{From: filepath.Join(filepath.Base(st.dir), "blobs"), To: "blobs"})
	}
	if err := os.Mkdir(replaced, 0o700); err != nil {
		return r, fullDisk(err)
	}
	if err := s.keepFiles(replaced); err != nil {
		return r, fullDisk(err)
	}
	s.progress(ctx, "restore").step("replace", 0, 1)
	var ferr error
	if err := s.db.swap(ctx, "Helix is putting a backup in place. Try again in a moment.", func() error {
		if err := commitJournal(dataDir, j); err != nil {
			return err
		}
		ferr = s.restoreFiles(st) // a file that could not be written is reported; the backup still has it
		return nil
	}); err != nil {
		return r, err
	}
	r.ReplacedPath = replaced
	return r, errors.Join(ferr, s.note(s.afterSwap(ctx), "data.restore", map[string]any{"createdAt": st.manifest.CreatedAt, "replaced": filepath.Base(replaced)}))
}

// movesFor returns the renames that keep the database at path as kept and then replace it with
// next.
func movesFor(dataDir, path, next, kept string) []move {
	rel := func(p string) string {
		r, err := filepath.Rel(dataDir, p)
		if err != nil {
			return p // finishJournal rejects it
		}
		return r
	}
	return []move{
		{From: rel(path + "-wal"), To: rel(kept + "-wal")}, {From: rel(path + "-shm"), To: rel(kept + "-shm")},
		{From: rel(path), To: rel(kept)}, {From: rel(next), To: rel(path)},
	}
}

// afterSwap ends sessions and announces the new data. It returns the context for the remaining
// writes: the caller's user may not exist in the new data, and in recovery mode there was none.
func (s *Service) afterSwap(ctx context.Context) context.Context {
	s.o.EndSessions()
	if s.db.Recovery() == nil {
		known := false
		_ = s.db.Read(ctx, func(tx *Tx) error {
			return tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM users WHERE id = ?)`, identity.UserID(ctx)).Scan(&known)
		})
		if !known {
			id, _ := identity.From(ctx)
			id.User = s.db.LocalUser().ID
			ctx = identity.With(ctx, id)
		}
		_ = s.db.Read(ctx, func(tx *Tx) error {
			ts, err := ownedTables(ctx, tx)
			for _, t := range ts {
				publishMany(tx, t.name)
			}
			return err
		})
	}
	return ctx
}

// rewrapKeys makes the sealed values of a staged database readable on this device by wrapping its
// data keys with this installation's root key. Without the passphrase they are left unchanged, and
// can be opened only if the backup was made on this machine.
func (s *Service) rewrapKeys(ctx context.Context, st *staged, passphrase string) (err error) {
	if !st.manifest.has(nameKey) || passphrase == "" {
		return nil
	}
	var w wrappedKey
	if err := readJSONFile(filepath.Join(st.dir, nameKey), &w); err != nil {
		return badBackup(nameKey, "The key in the backup cannot be read.").WithCause(err)
	}
	root, err := w.open(ctx, passphrase)
	if err != nil {
		return err
	}
	defer clear(root)
	ours, err := s.ourRoot(ctx)
	if err != nil {
		return err
	}
	from, err := newAEAD(root)
	if err != nil {
		return badBackup(nameKey, "The key in the backup cannot be read.").WithCause(err)
	}
	to, err := newAEAD(ours)
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", workDSN(st.db()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	next := map[uint64][]byte{}
	if err := eachRow(ctx, db, `SELECT no, wrapped FROM data_keys`, func(scan func(...any) error) error {
		var no uint64
		var wrapped []byte
		if err := scan(&no, &wrapped); err != nil {
			return err
		}
		key, ok := openWrapped(from, no, wrapped)
		if !ok {
			return badBackup(nameKey, "The key in the backup does not belong to its data.")
		}
		defer clear(key)
		next[no], err = seal(to, 0, "data_keys", "wrapped", wrapID(no), key)
		return err
	}); err != nil {
		return err
	}
	for no, wrapped := range next {
		if _, err := db.ExecContext(ctx, `UPDATE data_keys SET wrapped = ? WHERE no = ?`, wrapped, int64(no)); err != nil {
			return err
		}
	}
	return nil
}

// ourRoot returns the root key of this installation. In recovery mode the ring may be empty, but
// the keyring still has the key.
func (s *Service) ourRoot(ctx context.Context) ([]byte, error) {
	if ring := s.db.keys.ring.Load(); ring != nil {
		return ring.root, nil
	}
	if c := s.db.keys.root.Candidates(); len(c) > 0 {
		return c[0], nil
	}
	root, err := s.db.keys.root.Create(ctx)
	if err == nil && len(root) == 0 {
		err = fault.Unavailablef("Nowhere to store a key.")
	}
	return root, err
}

// modernize migrates a staged database to the program's schema. It makes no snapshot, because the
// backup is one.
func (s *Service) modernize(ctx context.Context, path string) error {
	known, err := knownMigrations(ctx)
	if err != nil {
		return err
	}
	st, err := closedFileState(ctx, path)
	if err != nil {
		return err
	}
	pending, err := st.compare(known, s.version())
	if err != nil || len(pending) == 0 {
		return err
	}
	s.progress(ctx, "restore").step("migrate", 0, int64(len(pending)))
	before := path + ".before"
	if err := copyFile(before, path); err != nil {
		return fullDisk(err)
	}
	if err := applyMigrations(ctx, path, pending, s.version(), "", func(int) {}); err != nil {
		return err
	}
	return verifyMigrated(ctx, path, before)
}

// detach clears what would make the restored data look to the hub like a clone of this device, and
// syncs the file.
func detach(ctx context.Context, path string) (err error) {
	db, err := sql.Open("sqlite", workDSN(path))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(ctx, `UPDATE sync_local SET epoch = NULL, applying = 0`)
	if err == nil {
		_, err = db.ExecContext(ctx, `UPDATE meta SET value = '1' WHERE key = 'clean'`)
	}
	if err == nil {
		err = endRuns(ctx, db)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	return errors.Join(syncFile(path), syncDir(filepath.Dir(path)))
}

// endRuns ends the skill runs that were active when the restored data was saved. They continued
// after that, so resuming them would repeat their effects.
func endRuns(ctx context.Context, db *sql.DB) error {
	var n int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE name = 'composite_skill_executions'`).Scan(&n); err != nil || n == 0 {
		return err // of an older version
	}
	// The change syncs, unless the schema is older than what this program syncs.
	i := slices.IndexFunc(Synced, func(t SyncedTable) bool { return t.Table == "composite_skill_executions" })
	capture, err := captureScript(ctx, db, Synced[i:i+1])
	if err == nil {
		_, err = db.ExecContext(ctx, capture)
	}
	if err != nil && !errors.Is(err, errNotSynced) {
		return err
	}
	now := time.Now().UnixMicro()
	_, err = db.ExecContext(ctx, `UPDATE composite_skill_executions SET status = 'failed', wait_reason = NULL, wake_at = NULL, deadline_at = NULL,
		error_kind = 'canceled', error_message = 'earlier data was restored while this run was going on in it', finished_at = ?, updated_at = ?
		WHERE status IN ('queued', 'running', 'waiting')`, now, now)
	return err
}

// compareRows counts the rows of the tables that callers can see in the staged file, and the
// current rows that are missing or older in it.
func (s *Service) compareRows(ctx context.Context, staged string) (rows, newer map[string]int64, err error) {
	rows, newer = map[string]int64{}, map[string]int64{}
	db, err := sql.Open("sqlite", standaloneDSN(staged))
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	ts, err := ownedTables(ctx, db)
	if err != nil {
		return nil, nil, err
	}
	for _, t := range ts {
		var n int64
		if err := db.QueryRowContext(ctx, `SELECT count(*) FROM `+quote(t.name)).Scan(&n); err != nil {
			return nil, nil, err
		}
		rows[t.name] = n
	}
	if s.db.Recovery() != nil {
		return rows, newer, nil // the current data cannot be read
	}
	if _, err := db.ExecContext(ctx, `ATTACH ? AS present`, roDSN(s.db.path)); err != nil {
		return nil, nil, err
	}
	for _, t := range ts {
		n, ok, err := newerRows(ctx, db, t.name)
		if err != nil {
			return nil, nil, err
		}
		if ok && n > 0 {
			newer[t.name] = n
		}
	}
	return rows, newer, nil
}

// newerRows counts rows of present.t that are missing in main.t or have another updated_at there.
func newerRows(ctx context.Context, db *sql.DB, t string) (n int64, ok bool, err error) {
	cols, err := columnNames(ctx, db, "main", t)
	if err != nil {
		return 0, false, err
	}
	there, err := columnNames(ctx, db, "present", t)
	if err != nil || !slices.Contains(cols, "id") || !slices.Contains(there, "id") {
		return 0, false, err
	}
	same := `m.id = p.id`
	if slices.Contains(cols, "updated_at") && slices.Contains(there, "updated_at") {
		same += ` AND m.updated_at IS p.updated_at`
	}
	err = db.QueryRowContext(ctx, `SELECT count(*) FROM present.`+quote(t)+` p WHERE NOT EXISTS (SELECT 1 FROM main.`+quote(t)+` m WHERE `+same+`)`).Scan(&n)
	return n, true, err
}

func columnNames(ctx context.Context, q querier, schema, table string) (out []string, err error) {
	err = eachRow(ctx, q, `SELECT name FROM pragma_table_info(?, ?)`, func(scan func(...any) error) error {
		var n string
		defer func() { out = append(out, n) }()
		return scan(&n)
	}, table, schema)
	return out, err
}

// keepFiles copies the settings and the user's own files, which a restore overwrites.
func (s *Service) keepFiles(replaced string) error {
	if s.o.ConfigFile != "" && exists(s.o.ConfigFile) {
		if err := copyFile(filepath.Join(replaced, nameConfig), s.o.ConfigFile); err != nil {
			return err
		}
	}
	if s.o.UserDir != "" && exists(s.o.UserDir) {
		if err := os.CopyFS(filepath.Join(replaced, "user"), os.DirFS(s.o.UserDir)); err != nil {
			return err
		}
	}
	return nil
}

// restoreFiles restores the settings and the user's own files, each through a temporary file and a
// rename.
func (s *Service) restoreFiles(st *staged) error {
	var all error
	for _, f := range st.manifest.Files {
		target := ""
		switch {
		case f.Path == nameConfig:
			target = s.o.ConfigFile
		case strings.HasPrefix(f.Path, dirUser) && s.o.UserDir != "":
			target = filepath.Join(s.o.UserDir, filepath.FromSlash(strings.TrimPrefix(f.Path, dirUser)))
		}
		if target == "" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(st.dir, filepath.FromSlash(f.Path)))
		if err == nil {
			if err = os.MkdirAll(filepath.Dir(target), 0o700); err == nil {
				err = writeFileSafe(target, b)
			}
		}
		all = errors.Join(all, err)
	}
	return fullDisk(all)
}
