package storage

import (
	"time"

	"github.com/google/uuid"
)

// StatusResult is shown in Settings › Data. Sizes are in bytes.
type StatusResult struct {
	Path          string         `json:"path"`
	SizeBytes     int64          `json:"sizeBytes"`
	WALBytes      int64          `json:"walBytes"`
	BlobBytes     int64          `json:"blobBytes"`
	FreeBytes     int64          `json:"freeBytes"`
	SchemaVersion int64          `json:"schemaVersion"`
	QuickCheckAt  *time.Time     `json:"quickCheckAt,omitempty"`
	LastBackupAt  *time.Time     `json:"lastBackupAt,omitempty"`
	Keyring       string         `json:"keyring"` // where the root key lives: keyring, file, "file, unprotected", locked
	Sealed        string         `json:"sealed"`  // open: sealed columns can be read; locked: they cannot
	Tables        []TableRows    `json:"tables"`  // the caller's rows
	Recovery      *RecoveryState `json:"recovery,omitempty"`
	LowSpace      bool           `json:"lowSpace"`
}

// TableRows counts the caller's rows of one table.
type TableRows struct {
	Name string `json:"name"`
	Rows int64  `json:"rows"`
}

// RecoveryState explains why only storage, system and key methods work.
type RecoveryState struct {
	// corrupt: the file is damaged; missing: the data that existed before is gone; held: after a
	// rollback, until storage.migrate is called
	Reason   string    `json:"reason"`
	Message  string    `json:"message"`
	Problems []string  `json:"problems"`           // technical details
	KeptPath string    `json:"keptPath,omitempty"` // folder with byte-for-byte copies of the damaged files
	Since    time.Time `json:"since"`
}

// CheckParams choose between the quick and the full check.
type CheckParams struct {
	Full bool `json:"full,omitempty"` // also compare every index, and verify the hash of every blob
}

// CheckResult lists the problems found; Problems is empty if OK.
type CheckResult struct {
	OK       bool     `json:"ok"`
	Problems []string `json:"problems"`
	// Only in the full check: MissingBlobs are files that rows refer to and that do not exist,
	// OrphanedBlobs files that no row refers to, which pruning removes after a grace period.
	MissingBlobs  int   `json:"missingBlobs"`
	OrphanedBlobs int   `json:"orphanedBlobs"`
	OrphanedBytes int64 `json:"orphanedBytes"`
}

// BackupParams choose the target and the content of a backup.
type BackupParams struct {
	Path       string `json:"path,omitempty"`       // a file or an existing folder; default: the backups folder of the data folder
	Blobs      *bool  `json:"blobs,omitempty"`      // default true
	Passphrase string `json:"passphrase,omitempty"` // adds the wrapped root key; without it, sealed columns open only on this machine
}

// BackupResult names the finished, verified file.
type BackupResult struct {
	Path      string `json:"path"`
	SizeBytes int64  `json:"sizeBytes"`
	SHA256    string `json:"sha256"`
}

// BackupsParams page through the backups folder.
type BackupsParams struct {
	Limit  int `json:"limit,omitempty"` // 1..100, default 50
	Offset int `json:"offset,omitempty"`
}

// BackupsResult lists backups and snapshots, newest first.
type BackupsResult struct {
	Backups []BackupInfo `json:"backups"`
	Total   int          `json:"total"`
}

// BackupInfo describes one file of the backups folder.
type BackupInfo struct {
	Path          string    `json:"path"`
	Name          string    `json:"name"`
	Kind          string    `json:"kind"` // backup, automatic, pre-migration, rolled-back
	SizeBytes     int64     `json:"sizeBytes"`
	CreatedAt     time.Time `json:"createdAt"`
	SchemaVersion int64     `json:"schemaVersion,omitempty"`
	AppVersion    string    `json:"appVersion,omitempty"`
	Blobs         bool      `json:"blobs"`
	HasKey        bool      `json:"hasKey"` // can be opened with its passphrase on another machine too
	Problem       string    `json:"problem,omitempty"`
}

// VerifyBackupParams name the backup to check.
type VerifyBackupParams struct {
	Path string `json:"path"`
}

// VerifyBackupResult reports whether the file can be restored.
type VerifyBackupResult struct {
	OK            bool      `json:"ok"`
	Problems      []string  `json:"problems"`
	SchemaVersion int64     `json:"schemaVersion"`
	CreatedAt     time.Time `json:"createdAt"`
	HasKey        bool      `json:"hasKey"`
}

// RestoreParams name the backup that replaces the current data.
type RestoreParams struct {
	Path       string `json:"path"`
	Passphrase string `json:"passphrase,omitempty"`
	DryRun     bool   `json:"dryRun,omitempty"` // check everything and count, but change nothing
}

// RestoreResult reports where the replaced data was kept and how many rows were restored.
type RestoreResult struct {
	ReplacedPath string           `json:"replacedPath"` // empty for a dry run
	Rows         map[string]int64 `json:"rows"`         // rows by table in the restored data
	Newer        map[string]int64 `json:"newer"`        // current rows, by table, that the backup lacks or has in an older version
	CreatedAt    time.Time        `json:"createdAt"`
}

// RollbackParams name the pre-migration snapshot to go back to.
type RollbackParams struct {
	Snapshot string `json:"snapshot,omitempty"` // file name or path; default: the newest
	DryRun   bool   `json:"dryRun,omitempty"`
}

// ExportParams choose the folder for the export. Dir must be empty or not exist.
type ExportParams struct {
	Dir    string   `json:"dir"`
	Tables []string `json:"tables,omitempty"` // default: all
}

// ExportResult counts the exported rows.
type ExportResult struct {
	Dir   string           `json:"dir"`
	Files int              `json:"files"`
	Rows  map[string]int64 `json:"rows"`
}

// ImportParams name a folder that Export wrote.
type ImportParams struct {
	Dir    string `json:"dir"`
	DryRun bool   `json:"dryRun,omitempty"`
}

// ImportResult counts new rows and rows that already existed, by table.
type ImportResult struct {
	Inserted map[string]int64 `json:"inserted"`
	Skipped  map[string]int64 `json:"skipped"`
}

// SalvageParams choose whether to accept a loss.
type SalvageParams struct {
	AcceptLoss bool `json:"acceptLoss,omitempty"` // use the salvaged data even if rows are missing
}

// SalvageResult counts the readable rows.
type SalvageResult struct {
	KeptPath   string        `json:"keptPath"` // folder with the damaged files, unchanged
	Tables     []SalvageRows `json:"tables"`
	LostPages  int64         `json:"lostPages"`  // pages of the file that could not be read or assigned
	Incomplete bool          `json:"incomplete"` // rows were lost, or may have been
	Empty      bool          `json:"-"`
	Applied    bool          `json:"applied"` // the salvaged data is now in use; if false, repeat with acceptLoss
}

// SalvageRows counts one table's rows.
type SalvageRows struct {
	Table string `json:"table"`
	Kept  int64  `json:"kept"`
	Lost  int64  `json:"lost"` // rows that existed and are unreadable; unreadable pages may have held more
}

// StartNewResult reports where the previous data was moved.
type StartNewResult struct {
	ReplacedPath string `json:"replacedPath"`
}

// PruneParams choose between pruning and only counting.
type PruneParams struct {
	DryRun bool `json:"dryRun,omitempty"`
}

// PruneResult counts what was pruned, or would be in a dry run, by table. "blobs" and "backups"
// count files.
type PruneResult struct {
	Tables []PruneRow `json:"tables"`
}

// PruneRow is the result for one table.
type PruneRow struct {
	Table string `json:"table"`
	Rows  int64  `json:"rows"`
	Bytes int64  `json:"bytes"`
}

// MigrateResult reports the schema version of the data.
type MigrateResult struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Changed is the event storage.changed: rows of Table were changed by storage itself
// (import, restore, prune) or by sync. Many means that there are too many ids to list.
type Changed struct {
	Table string      `json:"table"`
	IDs   []uuid.UUID `json:"ids,omitempty"`
	Many  bool        `json:"many,omitempty"`
}

// LowSpace is the event storage.low_space; Low is false when there is room again.
type LowSpace struct {
	FreeBytes  int64 `json:"freeBytes"`
	TotalBytes int64 `json:"totalBytes"`
	Low        bool  `json:"low"`
}

// Recovery is the event storage.recovery. A nil State means that recovery mode ended.
type Recovery struct {
	State *RecoveryState `json:"state,omitempty"`
}

// BackupProgress is the event storage.backup_progress for backup, restore, migration,
// export, import and salvage. Done and Total are bytes, or rows if Unit says so.
type BackupProgress struct {
	ID        uuid.UUID `json:"id"`
	Operation string    `json:"operation"` // backup, restore, rollback, migrate, export, import, salvage, check
	Step      string    `json:"step"`
	Done      int64     `json:"done"`
	Total     int64     `json:"total"`
	Unit      string    `json:"unit"`
	Finished  bool      `json:"finished"`
	Error     string    `json:"error,omitempty"`
}

// Replacing is published before another database is put in place, while the current one can still
// be read.
type Replacing struct{}

// Replaced is published on the bus after restore, rollback or salvage put another database in
// place. Subscribers must drop cached data and end sessions. It is not forwarded to clients.
type Replaced struct {
	Same bool // the same file was reopened because there is space to write again
}
