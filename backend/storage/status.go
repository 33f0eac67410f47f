package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"helix/backend/fault"
	"helix/backend/identity"
)

// Status returns sizes, free space, schema, checks, backups and the caller's rows by table.
func (s *Service) Status(ctx context.Context, _ struct{}) (StatusResult, error) {
	db := s.db
	r := StatusResult{
		Path: db.path, SizeBytes: fileSize(db.path), WALBytes: fileSize(db.path + "-wal"), BlobBytes: dirSize(db.blobs.dir),
		Keyring: db.keys.State(), Sealed: "open", Tables: []TableRows{}, Recovery: db.Recovery(), LowSpace: s.LowSpace(),
	}
	if db.keys.Locked() {
		r.Sealed = "locked"
	}
	if room, err := diskSpace(dirOf(db.path)); err == nil {
		r.FreeBytes = room.Free
	}
	if r.Recovery != nil {
		if st, err := readFileState(ctx, db.path); err == nil {
			r.SchemaVersion = st.version
		}
		return r, nil
	}
	err := db.Read(ctx, func(tx *Tx) error {
		if err := tx.QueryRow(`SELECT max(version_id) FROM goose_db_version WHERE is_applied = 1`).Scan(&r.SchemaVersion); err != nil {
			return err
		}
		for key, dst := range map[string]**time.Time{"quick_check_at": &r.QuickCheckAt, "last_backup_at": &r.LastBackupAt} {
			if t, err := metaTime(tx, key); err != nil {
				return err
			} else if !t.IsZero() {
				*dst = &t
			}
		}
		ts, err := ownedTables(ctx, tx)
		if err != nil {
			return err
		}
		for _, t := range ts {
			n := TableRows{Name: t.name}
			if err := tx.QueryRow(`SELECT count(*) FROM `+quote(t.name)+` WHERE `+t.mine, t.args(identity.UserID(ctx))...).Scan(&n.Rows); err != nil {
				return err
			}
			r.Tables = append(r.Tables, n)
		}
		return nil
	})
	return r, err
}

// metaTime returns a time from the meta table; zero if it is not set.
func metaTime(tx *Tx, key string) (t time.Time, err error) {
	var v string
	err = tx.QueryRow(`SELECT value FROM meta WHERE key = ?`, key).Scan(&v)
	if errors.Is(err, sql.ErrNoRows) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	t, _ = time.Parse(time.RFC3339Nano, v)
	return t, nil
}

func (db *DB) setMeta(ctx context.Context, key, value string) error {
	return db.Write(ctx, func(tx *Tx) error {
		_, err := tx.Exec(`INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`, key, value)
		return err
	})
}

// Check looks for damage. The full check also reads every index and every blob. A damaged database
// enters recovery mode.
func (s *Service) Check(ctx context.Context, p CheckParams) (_ CheckResult, err error) {
	ctx, done, err := s.exclusive(ctx, "check")
	if err != nil {
		return CheckResult{}, err
	}
	defer func() { done(err) }()
	return s.check(ctx, p.Full)
}

func (s *Service) check(ctx context.Context, full bool) (CheckResult, error) {
	db := s.db
	r := CheckResult{Problems: []string{}}
	if st := db.Recovery(); st != nil {
		r.Problems = append(r.Problems, st.Problems...)
		return r, nil
	}
	rep := s.progress(ctx, "check")
	pragma := "PRAGMA quick_check(100)"
	if full {
		pragma = "PRAGMA integrity_check(100)"
	}
	rep.step("pages", 0, fileSize(db.path))
	problems, err := pragmaProblems(ctx, roDSN(db.path), pragma)
	if corrupt(err) || sqliteCode(err) == sqlite3.SQLITE_ERROR { // a damaged word index causes the second
		problems, err = append(problems, err.Error()), nil
	}
	if err != nil {
		return r, dbError(ctx, err)
	}
	if len(problems) > 0 {
		r.Problems = append(r.Problems, problems...)
		return r, db.enterRecovery(&RecoveryState{Reason: "corrupt", Problems: problems})
	}
	rep.step("references", 0, 1)
	err = db.Read(ctx, func(tx *Tx) error {
		return eachRow(ctx, tx, `SELECT "table", parent, count(*) FROM pragma_foreign_key_check GROUP BY 1, 2`, func(scan func(...any) error) error {
			var t, p string
			var n int64
			if err := scan(&t, &p, &n); err != nil {
				return err
			}
			r.Problems = append(r.Problems, fmt.Sprintf("%d rows of %s refer to missing rows of %s", n, t, p))
			return nil
		})
	})
	if err != nil {
		return r, err
	}
	fts, err := s.checkFTS(ctx)
	if err != nil {
		return r, err
	}
	r.Problems = append(r.Problems, fts...)
	if full {
		rep.step("blobs", 0, dirSize(db.blobs.dir))
		bad, err := db.blobs.Verify(ctx)
		if err != nil {
			return r, err
		}
		for _, ref := range bad {
			r.Problems = append(r.Problems, "The file "+ref.String()+" is damaged. It was set aside.")
		}
		if err := s.checkBlobs(ctx, &r); err != nil {
			return r, err
		}
	}
	if err := db.markChecked(ctx, time.Now()); err != nil {
		return r, err
	}
	r.OK = len(r.Problems) == 0
	return r, nil
}

// checkBlobs compares the files with the rows that refer to them. An unreferenced file is a problem
// only if pruning should have removed it already.
func (s *Service) checkBlobs(ctx context.Context, r *CheckResult) error {
	var used map[[32]byte]BlobColumn
	var since map[string]int64
	hub := false
	if err := s.db.Read(ctx, func(tx *Tx) (err error) {
		if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM sync_local WHERE hub IS NOT NULL)`).Scan(&hub); err != nil {
			return err
		}
		if since, err = orphansSince(tx); err != nil {
			return err
		}
		used, err = blobReferences(ctx, tx)
		return err
	}); err != nil {
		return err
	}
	old := time.Now().Add(-s.o.Policy().BlobAge - 2*pruneEvery).Unix()
	overdue := 0
	if err := s.db.blobs.Each(func(ref Ref, put time.Time) error {
		if _, ok := used[ref.SHA256]; ok {
			delete(used, ref.SHA256)
			return ctx.Err()
		}
		r.OrphanedBlobs++
		r.OrphanedBytes += ref.Size
		if at, known := since[ref.String()]; known && max(at, put.Unix()) < old {
			overdue++
		}
		return ctx.Err()
	}); err != nil {
		return err
	}
	missing := map[BlobColumn]int{}
	for _, c := range used {
		missing[c]++
		r.MissingBlobs++
	}
	if hub { // a file that has not been downloaded yet is not damage
		return nil
	}
	for _, c := range slices.SortedFunc(maps.Keys(missing), func(a, b BlobColumn) int { return strings.Compare(a.String(), b.String()) }) {
		r.Problems = append(r.Problems, fmt.Sprintf("%d files that %s refers to are missing. Restore a backup that has them.", missing[c], c))
	}
	if overdue > 0 {
		r.Problems = append(r.Problems, fmt.Sprintf("%d files belong to no row. Prune to remove them.", overdue))
	}
	return nil
}

// checkFTS checks each full-text index against its table, and rebuilds one that differs, since it
// is derived data.
func (s *Service) checkFTS(ctx context.Context) (problems []string, err error) {
	var names []string
	if err := s.db.Read(ctx, func(tx *Tx) error {
		names, err = ftsTables(ctx, tx)
		return err
	}); err != nil {
		return nil, err
	}
	for _, n := range names {
		err := s.db.Write(ctx, func(tx *Tx) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO `+quote(n)+`(`+quote(n)+`, rank) VALUES ('integrity-check', 1)`)
			if corrupt(err) { // SQLITE_CORRUPT_VTAB: the index, not the file
				problems = append(problems, "the full-text index "+n+" was out of step and was rebuilt")
				_, err = tx.ExecContext(ctx, `INSERT INTO `+quote(n)+`(`+quote(n)+`) VALUES ('rebuild')`)
			}
			return err
		})
		if err != nil {
			return problems, err
		}
	}
	return problems, nil
}

func ftsTables(ctx context.Context, q querier) (names []string, err error) {
	err = eachRow(ctx, q, `SELECT name, lower(sql) FROM sqlite_master WHERE type = 'table' AND sql LIKE 'create virtual table%fts5%'`, func(scan func(...any) error) error {
		var n, def string
		if err := scan(&n, &def); err != nil {
			return err
		}
		def = strings.Join(strings.Fields(def), "")
		vocabulary := strings.Contains(def, "usingfts5vocab(") // a view of another index
		contentless := strings.Contains(def, "content=''")     // nothing to compare with
		if !vocabulary && !contentless {
			names = append(names, n)
		}
		return nil
	})
	return names, err
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// ownedTable is a table whose rows belong to users, directly or through a parent.
type ownedTable struct {
	name   string
	mine   string // condition with one placeholder per argument, each being the user
	direct bool   // has a user_id column
}

func (t ownedTable) args(user any) []any {
	a := make([]any, strings.Count(t.mine, "?"))
	for i := range a {
		a[i] = user
	}
	return a
}

// ownedTables lists them by name. A table without user_id is owned through its first foreign key to
// an owned table.
func ownedTables(ctx context.Context, q querier) ([]ownedTable, error) {
	type ref struct{ table, parent, from, to string }
	var refs []ref
	owned := map[string]ownedTable{}
	names := []string{}
	if err := eachRow(ctx, q, `SELECT m.name, EXISTS (SELECT 1 FROM pragma_table_info(m.name) c WHERE c.name = 'user_id')
		FROM sqlite_master m WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.sql NOT LIKE 'create virtual%' ORDER BY m.name`, func(scan func(...any) error) error {
		var n string
		var direct bool
		if err := scan(&n, &direct); err != nil {
			return err
		}
		names = append(names, n)
		if direct {
			owned[n] = ownedTable{name: n, mine: "user_id = ?", direct: true}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if err := eachRow(ctx, q, `SELECT m.name, f."table", f."from", coalesce(f."to", 'id') FROM sqlite_master m, pragma_foreign_key_list(m.name) f
		WHERE m.type = 'table' AND f.seq = 0 ORDER BY m.name, f.id DESC`, func(scan func(...any) error) error {
		var r ref
		if err := scan(&r.table, &r.parent, &r.from, &r.to); err != nil {
			return err
		}
		refs = append(refs, r)
		return nil
	}); err != nil {
		return nil, err
	}
	for again := true; again; {
		again = false
		for _, r := range refs {
			p, ok := owned[r.parent]
			if _, have := owned[r.table]; have || !ok {
				continue
			}
			owned[r.table] = ownedTable{name: r.table, mine: fmt.Sprintf("%s IN (SELECT %s FROM %s WHERE %s)", quote(r.from), quote(r.to), quote(r.parent), p.mine)}
			again = true
		}
	}
	out := []ownedTable{}
	for _, n := range names {
		if t, ok := owned[n]; ok {
			out = append(out, t)
		}
	}
	return out, nil
}

// Backups lists backups and pre-migration snapshots, newest first.
func (s *Service) Backups(_ context.Context, p BackupsParams) (BackupsResult, error) {
	if err := CheckPage(&p.Limit, &p.Offset, 50, 100); err != nil {
		return BackupsResult{}, err
	}
	all, err := s.listBackups()
	if err != nil {
		return BackupsResult{}, err
	}
	r := BackupsResult{Backups: []BackupInfo{}, Total: len(all)}
	for _, b := range all[min(p.Offset, len(all)):min(p.Offset+p.Limit, len(all))] {
		s.describeBackup(&b)
		r.Backups = append(r.Backups, b)
	}
	return r, nil
}

// Kinds of files in the backups folder, by prefix.
var backupKinds = []struct{ prefix, ext, kind string }{
	{"helix-", ".zip", "backup"}, {"auto-", ".zip", "automatic"},
	{"pre-", ".db", "pre-migration"}, {"rolled-back-", ".db", "rolled-back"},
}

// listBackups lists the files without opening them, newest first.
func (s *Service) listBackups() ([]BackupInfo, error) {
	es, err := readDirIf(s.o.BackupDir)
	if err != nil {
		return nil, err
	}
	out := []BackupInfo{}
	for _, e := range es {
		i := slices.IndexFunc(backupKinds, func(k struct{ prefix, ext, kind string }) bool {
			return strings.HasPrefix(e.Name(), k.prefix) && strings.HasSuffix(e.Name(), k.ext)
		})
		fi, err := e.Info()
		if i < 0 || err != nil || !fi.Mode().IsRegular() {
			continue
		}
		out = append(out, BackupInfo{Path: joinPath(s.o.BackupDir, e.Name()), Name: e.Name(), Kind: backupKinds[i].kind, SizeBytes: fi.Size(), CreatedAt: nameTime(e.Name(), fi.ModTime())})
	}
	slices.SortStableFunc(out, func(a, b BackupInfo) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(b.Name, a.Name)
	})
	return out, nil
}

// nameTime parses the time in a name made by freshName; without one it returns fallback.
func nameTime(name string, fallback time.Time) time.Time {
	for i := range name {
		if len(name)-i < len(stampLayout) {
			break
		}
		if t, err := time.Parse(stampLayout, name[i:i+len(stampLayout)]); err == nil {
			return t
		}
	}
	return fallback.UTC().Truncate(time.Second)
}

// describeBackup fills in what the file says about itself.
func (s *Service) describeBackup(b *BackupInfo) {
	if strings.HasSuffix(b.Name, ".db") {
		if _, err := fmt.Sscanf(b.Name, "pre-%d-", &b.SchemaVersion); err != nil {
			if st, err := closedFileState(context.Background(), b.Path); err == nil {
				b.SchemaVersion = st.version
			}
		}
		return
	}
	z, err := openBackup(b.Path)
	if err != nil {
		b.Problem = fault.As(err).Message
		return
	}
	defer z.close()
	b.SchemaVersion, b.AppVersion, b.CreatedAt, b.Blobs = z.manifest.SchemaVersion, z.manifest.AppVersion, z.manifest.CreatedAt, z.manifest.hasBlobs()
	b.HasKey = z.manifest.has(nameKey)
}
