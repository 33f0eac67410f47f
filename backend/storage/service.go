package storage

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"helix/backend/fault"
)

// ServiceOptions tell the service about things it does not own. The zero value works.
type ServiceOptions struct {
	Version    string        // of the program; written into backups
	ConfigFile string        // config.toml, kept in backups; empty: none
	UserDir    string        // the user's own files, kept in backups; empty: none
	BackupDir  string        // default: backups beside the database
	Policy     func() Policy // the settings in force; nil: DefaultPolicy
	Keyring    func() string // where the root key lives, for the status
	// Busy reports a recording or a run: prune and automatic backups wait for its end.
	Busy func() bool
	// Audit writes one audit entry inside tx; nil writes none.
	Audit func(tx *Tx, action string, details any) error
	// EndSessions is called after another database was put in place.
	EndSessions func()
}

// Policy is the part of the configuration that storage obeys.
type Policy struct {
	AutoBackup   bool          // backup.auto=daily
	BackupMax    int64         // backup.max_bytes; default 10 GiB
	BackupAge    time.Duration // default 90 days
	HistoryRows  int64         // rows a user and history table; default 10,000
	HistoryAge   time.Duration // default 90 days
	PayloadAge   time.Duration // payloads above 64 KiB are cut after this; default 7 days
	StatsRows    int64         // default 50,000
	StatsAge     time.Duration // default 180 days
	ChangeLogAge time.Duration // default 7 days
	ChangeLogMax int64         // bytes; default 64 MiB
	TrashAge     time.Duration // default 30 days
	BlobAge      time.Duration // default 24 hours after the last reference
	LowSpace     int64         // default 500 MiB, or 5 % of the disk if that is less free
}

// DefaultPolicy is the retention table of the manual.
func DefaultPolicy() Policy {
	const day = 24 * time.Hour
	return Policy{
		AutoBackup: true, BackupMax: 10 << 30, BackupAge: 90 * day,
		HistoryRows: 10_000, HistoryAge: 90 * day, PayloadAge: 7 * day,
		StatsRows: 50_000, StatsAge: 180 * day,
		ChangeLogAge: 7 * day, ChangeLogMax: 64 << 20,
		TrashAge: 30 * day, BlobAge: day, LowSpace: 500 << 20,
	}
}

// Service answers the storage methods and does the background work: automatic backups,
// pruning, checks, checkpoints and the watch over free space.
type Service struct {
	db  *DB
	o   ServiceOptions
	log *slog.Logger
}

// NewService makes the service for db. It starts nothing; see Run.
func NewService(db *DB, o ServiceOptions) *Service {
	if o.Policy == nil {
		o.Policy = DefaultPolicy
	}
	if o.Keyring == nil {
		o.Keyring = func() string { return "" }
	}
	if o.Busy == nil {
		o.Busy = func() bool { return false }
	}
	if o.Audit == nil {
		o.Audit = func(*Tx, string, any) error { return nil }
	}
	if o.EndSessions == nil {
		o.EndSessions = func() {}
	}
	if o.BackupDir == "" {
		o.BackupDir = filepath.Join(filepath.Dir(db.path), "backups")
	}
	return &Service{db: db, o: o, log: db.log}
}

// Run does the background work until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

var errSoon = fault.Unavailablef("This part of Helix is not built yet.")

// Status tells sizes, free space, schema, checks, backups and the caller's rows by table.
func (s *Service) Status(ctx context.Context, _ struct{}) (StatusResult, error) {
	return StatusResult{Tables: []TableRows{}}, errSoon
}

// Check looks for damage. The full check reads every index and every blob.
func (s *Service) Check(ctx context.Context, p CheckParams) (CheckResult, error) {
	return CheckResult{Problems: []string{}}, errSoon
}

// Backup writes one zip with database, blobs, settings and the user's files while Helix
// keeps working, and reads it back before it answers.
func (s *Service) Backup(ctx context.Context, p BackupParams) (BackupResult, error) {
	return BackupResult{}, errSoon
}

// Backups lists backups and pre-migration snapshots, newest first.
func (s *Service) Backups(ctx context.Context, p BackupsParams) (BackupsResult, error) {
	return BackupsResult{Backups: []BackupInfo{}}, errSoon
}

// VerifyBackup reads a backup from end to end and checks everything a restore would.
func (s *Service) VerifyBackup(ctx context.Context, p VerifyBackupParams) (VerifyBackupResult, error) {
	return VerifyBackupResult{Problems: []string{}}, errSoon
}

// Restore puts a backup in the place of the present data, which is kept in a folder
// replaced-<time>. All sessions end.
func (s *Service) Restore(ctx context.Context, p RestoreParams) (RestoreResult, error) {
	return RestoreResult{}, errSoon
}

// Rollback goes back to the snapshot made before a migration and holds further migrations
// until Migrate is called. All sessions end.
func (s *Service) Rollback(ctx context.Context, p RollbackParams) (RestoreResult, error) {
	return RestoreResult{}, errSoon
}

// Migrate ends the hold that Rollback left and brings the data to this version's schema.
func (s *Service) Migrate(ctx context.Context, _ struct{}) (MigrateResult, error) {
	return MigrateResult{}, errSoon
}

// Export writes the caller's data as JSON lines and Markdown, readable without Helix. It
// holds no secrets and no keys.
func (s *Service) Export(ctx context.Context, p ExportParams) (ExportResult, error) {
	return ExportResult{}, errSoon
}

// Import adds the rows of an export to the caller's data. Ids are kept; rows that exist are
// skipped and counted.
func (s *Service) Import(ctx context.Context, p ImportParams) (ImportResult, error) {
	return ImportResult{}, errSoon
}

// Salvage copies every readable row of a damaged database into a new one and goes on with
// that. It works in recovery mode only; the damaged files are kept.
func (s *Service) Salvage(ctx context.Context, _ struct{}) (SalvageResult, error) {
	return SalvageResult{Tables: []SalvageRows{}}, errSoon
}

// Prune removes what is older or more than the retention settings allow. It never touches
// memories, tools, skills or memos.
func (s *Service) Prune(ctx context.Context, p PruneParams) (PruneResult, error) {
	return PruneResult{Tables: []PruneRow{}}, errSoon
}
