package storage

import (
	"time"

	"github.com/google/uuid"
)

// StatusResult is what Settings › Data shows. Sizes are bytes.
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

// RecoveryState says why only storage, system and key methods answer.
type RecoveryState struct {
	// corrupt: the file is damaged; missing: there is no data in it, though there was before;
	// held: rolled back, waits for a migration
	Reason   string    `json:"reason"`
	Message  string    `json:"message"`
	Problems []string  `json:"problems"`           // technical details
	KeptPath string    `json:"keptPath,omitempty"` // folder with byte-for-byte copies of the damaged files
	Since    time.Time `json:"since"`
}

// CheckParams choose between the quick and the full check.
type CheckParams struct {
	Full bool `json:"full,omitempty"` // also compare every index and the hash of every blob
}

// CheckResult lists what is wrong; Problems is empty when OK.
type CheckResult struct {
	OK       bool     `json:"ok"`
	Problems []string `json:"problems"`
	// Of the full check: files that rows refer to and that are not there, and files that no
	// row refers to, which pruning removes after a grace period.
	MissingBlobs  int   `json:"missingBlobs"`
	OrphanedBlobs int   `json:"orphanedBlobs"`
	OrphanedBytes int64 `json:"orphanedBytes"`
}

// BackupParams say where the backup goes and what is in it.
type BackupParams struct {
	Path       string `json:"path,omitempty"`       // a file or an existing folder; default: the backups folder of the data folder
	Blobs      *bool  `json:"blobs,omitempty"`      // default true
	Passphrase string `json:"passphrase,omitempty"` // adds the root key, wrapped; without it sealed columns open only on this machine
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
	HasKey        bool      `json:"hasKey"` // opens with its passphrase on another machine too
	Problem       string    `json:"problem,omitempty"`
}

// VerifyBackupParams name the backup to check.
type VerifyBackupParams struct {
	Path string `json:"path"`
}

// VerifyBackupResult tells whether a restore from the file would work.
type VerifyBackupResult struct {
	OK            bool      `json:"ok"`
	Problems      []string  `json:"problems"`
	SchemaVersion int64     `json:"schemaVersion"`
	CreatedAt     time.Time `json:"createdAt"`
	HasKey        bool      `json:"hasKey"`
}

// RestoreParams name the backup that takes the place of the present data.
type RestoreParams struct {
	Path       string `json:"path"`
	Passphrase string `json:"passphrase,omitempty"`
	DryRun     bool   `json:"dryRun,omitempty"` // check everything and count, change nothing
}

// RestoreResult says where the replaced data was kept and what is there now.
type RestoreResult struct {
	ReplacedPath string           `json:"replacedPath"` // empty for a dry run
	Rows         map[string]int64 `json:"rows"`         // rows by table in the restored data
	Newer        map[string]int64 `json:"newer"`        // rows of the present data that are newer or missing in the restored one
	CreatedAt    time.Time        `json:"createdAt"`
}

// RollbackParams name the pre-migration snapshot to go back to.
type RollbackParams struct {
	Snapshot string `json:"snapshot,omitempty"` // file name or path; default: the newest
	DryRun   bool   `json:"dryRun,omitempty"`
}

// ExportParams say where the readable copy goes. Dir must be empty or absent.
type ExportParams struct {
	Dir    string   `json:"dir"`
	Tables []string `json:"tables,omitempty"` // default: all
}

// ExportResult counts what was written.
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

// ImportResult counts new rows and those that were there already, by table.
type ImportResult struct {
	Inserted map[string]int64 `json:"inserted"`
	Skipped  map[string]int64 `json:"skipped"`
}

// SalvageParams say whether a loss is accepted.
type SalvageParams struct {
	AcceptLoss bool `json:"acceptLoss,omitempty"` // use the salvaged data although rows are missing
}

// SalvageResult counts the readable rows.
type SalvageResult struct {
	KeptPath   string        `json:"keptPath"` // folder with the damaged files, unchanged
	Tables     []SalvageRows `json:"tables"`
	LostPages  int64         `json:"lostPages"`  // pages of the file that could not be read or assigned
	Incomplete bool          `json:"incomplete"` // rows were lost, or may have been
	Empty      bool          `json:"-"`
	Applied    bool          `json:"applied"` // the salvaged data is in use now; else repeat with acceptLoss
}

// SalvageRows counts one table's rows.
type SalvageRows struct {
	Table string `json:"table"`
	Kept  int64  `json:"kept"`
	Lost  int64  `json:"lost"` // known to have existed and not readable; unreadable pages may have held more
}

// StartNewResult says where the data from before was moved.
type StartNewResult struct {
	ReplacedPath string `json:"replacedPath"`
}

// PruneParams choose between acting and counting.
type PruneParams struct {
	DryRun bool `json:"dryRun,omitempty"`
}

// PruneResult tells what left, or would leave, by table. "blobs" and "backups" count files.
type PruneResult struct {
	Tables []PruneRow `json:"tables"`
}

// PruneRow is one table's part.
type PruneRow struct {
	Table string `json:"table"`
	Rows  int64  `json:"rows"`
	Bytes int64  `json:"bytes"`
}

// MigrateResult tells which schema the data has now.
type MigrateResult struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Changed is the event storage.changed: rows of Table were changed by storage itself
// (import, restore, prune) or by sync. Many stands for more ids than are worth listing.
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

// Recovery is the event storage.recovery. A nil State means that recovery mode has ended.
type Recovery struct {
	State *RecoveryState `json:"state,omitempty"`
}

// BackupProgress is the event storage.backup_progress for backup, restore, migration,
// export, import and salvage. Done and Total are bytes, or rows where Unit says so.
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

// Replacing is published before another database is put in place, while the present one can
// still be read.
type Replacing struct{}

// Replaced is published on the bus after restore, rollback or salvage put another database
// in place: drop what you cached, and end sessions. It is not forwarded to clients.
type Replaced struct {
	Same bool // the same file was opened again, because there is room on its disk to write
}
