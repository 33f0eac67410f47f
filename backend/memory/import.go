package memory

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/memory/importer"
	"helix/backend/storage"
)

// importOptions are the validated options of an import, as stored with its job.
type importOptions struct {
	Path      string   `json:"path,omitempty"`
	Blob      string   `json:"blob,omitempty"`
	Name      string   `json:"name,omitempty"` // name of the blob, or of the file that path is a copy of
	Format    string   `json:"format"`
	Tags      []string `json:"tags"`
	Layer     int      `json:"layer,omitempty"`
	Type      string   `json:"type,omitempty"`
	Untrusted *bool    `json:"untrusted,omitempty"`
	DryRun    bool     `json:"dryRun,omitempty"`
	Zone      string   `json:"zone,omitempty"`

	AllowLarge bool `json:"allowLarge,omitempty"`

	// For a watched folder: its id, and the files that have changed.
	Watch *uuid.UUID `json:"watch,omitempty"`
	Only  []string   `json:"only,omitempty"`
}

func (s *Service) importOptions(p ImportParams) (importOptions, error) {
	o := importOptions{Path: p.Path, Blob: p.BlobID, Name: p.Name, Format: p.Format, Layer: p.Layer, Type: p.Type, Untrusted: p.Untrusted, DryRun: p.DryRun, AllowLarge: p.AllowLarge}
	var err error
	switch {
	case (o.Path == "") == (o.Blob == ""):
		return o, invalid("path", "Give one file or folder to import.")
	case o.Path != "" && !filepath.IsAbs(o.Path):
		return o, invalid("path", "The path must be absolute.")
	case len(o.Name) > maxRef:
		return o, invalid("name", "The name is longer than 4 KiB.")
	}
	if o.Path != "" {
		o.Path = filepath.Clean(o.Path)
	}
	if o.Format == "" {
		o.Format = importer.Auto
	}
	if o.Format != importer.Auto && !slices.Contains(importer.Formats, o.Format) {
		return o, invalid("format", "%q is not a format. Use auto, chatgpt, claude, markdown, text, jsonl or locomo.", clip(o.Format, 32))
	}
	if o.Layer != 0 {
		if err := checkLayer("layer", o.Layer); err != nil {
			return o, err
		}
	}
	if o.Type != "" {
		if err := checkType("type", o.Type); err != nil {
			return o, err
		}
	}
	if o.Tags, err = checkTags("tags", p.Tags); err != nil {
		return o, err
	}
	if s.o.Zone != nil {
		o.Zone = s.o.Zone()
	}
	return o, nil
}

func (o *importOptions) zone() *time.Location {
	zone, err := time.LoadLocation(o.Zone)
	if err != nil {
		return time.UTC
	}
	return zone
}

// where returns the source of the import as shown to a person.
func (o *importOptions) where() string {
	switch {
	case o.Name == noFolder:
		return "Several files"
	case o.Name != "":
		return o.Name
	case o.Path != "":
		return o.Path
	}
	return "blob:" + o.Blob
}

// openImport opens the source that o names, starting at from. The caller closes the reader,
// then calls done.
func (s *Service) openImport(o *importOptions, from importer.Position) (r *importer.Reader, done func(), err error) {
	src := importer.Source{Path: o.Path, Name: o.Name}
	done = func() {}
	if o.Blob != "" {
		sha, err := hex.DecodeString(o.Blob)
		if err != nil || len(sha) != 32 {
			return nil, nil, invalid("blobId", "%q is not the id of a stored file.", clip(o.Blob, 80))
		}
		f, err := s.db.Blobs().Open(storage.Ref{SHA256: [32]byte(sha)})
		if err != nil {
			return nil, nil, err
		}
		size, err := f.Seek(0, io.SeekEnd)
		data, ok := f.(io.ReaderAt)
		if err != nil || !ok {
			_ = f.Close()
			return nil, nil, fault.Unavailablef("Couldn't read the stored file.").WithCause(err)
		}
		src = importer.Source{Data: data, Size: size, Name: o.Name}
		done = func() { _ = f.Close() }
	}
	r, err = importer.Open(src, importer.Options{Format: o.Format, Zone: o.zone(), From: from, Only: o.Only, AllowLarge: o.AllowLarge})
	if err != nil {
		done()
		return nil, nil, err
	}
	return r, done, nil
}

// Import starts an import and returns its job immediately. A source that cannot be opened, or has
// no known format, is an error here. Jobs of one user run one after another.
func (s *Service) Import(ctx context.Context, p ImportParams) (JobResult, error) {
	o, err := s.importOptions(p)
	if err != nil {
		return JobResult{}, err
	}
	r, done, err := s.openImport(&o, importer.Position{})
	if err != nil {
		return JobResult{}, err
	}
	o.Format = r.Format()
	_ = r.Close()
	done()
	options, err := json.Marshal(&o)
	if err != nil {
		return JobResult{}, err
	}
	user, id := identity.UserID(ctx), storage.NewID()
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`INSERT INTO memory_imports (id, user_id, format, path, options, status, created_at) VALUES (?, ?, ?, ?, ?, 'pending', ?)`,
			id, user, o.Format, o.where(), json.RawMessage(options), tx.Now)
		if err != nil || o.DryRun {
			return err
		}
		return s.auditImport(tx, audit.Entry{Action: "import.started", RunID: id, Details: map[string]any{"name": filepath.Base(o.where()), "format": o.Format}})
	})
	if err != nil {
		return JobResult{}, err
	}
	s.startImports(user)
	return JobResult{JobID: id}, nil
}

// Importing reports whether an unfinished import reads from path.
func (s *Service) Importing(ctx context.Context, path string) (yes bool, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM memory_imports WHERE status IN ('pending', 'running') AND options ->> '$.path' = ?)`, path).Scan(&yes)
	})
	return yes, err
}

// ImportStatus returns the status of an import.
func (s *Service) ImportStatus(ctx context.Context, p JobParams) (ImportStatus, error) {
	st, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (ImportStatus, error) {
		return importStatus(tx.QueryRow(`SELECT `+importColumns+` FROM memory_imports WHERE id = ? AND user_id = ?`, p.JobID, identity.UserID(ctx)))
	})
	if err != nil {
		return ImportStatus{}, err
	}
	return s.imports.live(st), nil
}

// Imports lists imports, newest first, except those of watched folders, which memory.watch_list returns.
func (s *Service) Imports(ctx context.Context, p PageParams) (ImportsResult, error) {
	limit := p.Limit
	if limit == 0 {
		limit = 50
	}
	if limit < 1 || limit > 200 {
		return ImportsResult{}, invalid("limit", "limit must be 1 to 200.")
	}
	if p.Offset < 0 {
		return ImportsResult{}, invalid("offset", "offset must not be negative.")
	}
	out := ImportsResult{Jobs: []ImportStatus{}}
	user := identity.UserID(ctx)
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		if err := tx.QueryRow(`SELECT count(*) FROM memory_imports WHERE user_id = ? AND options ->> '$.watch' IS NULL`, user).Scan(&out.Total); err != nil {
			return err
		}
		var err error
		out.Jobs, err = storage.Collect(tx.Select(`SELECT `+importColumns+` FROM memory_imports WHERE user_id = ? AND options ->> '$.watch' IS NULL ORDER BY created_at DESC, id DESC LIMIT ? OFFSET ?`, user, limit, p.Offset), importStatus)
		return err
	})
	for i := range out.Jobs {
		out.Jobs[i] = s.imports.live(out.Jobs[i])
	}
	return out, err
}

const importColumns = `id, format, path, options, status, progress, counters, errors, started_at, finished_at`

// importCounters holds the counters of a job, and everything else that is stored about its progress.
type importCounters struct {
	Read     int64    `json:"read"`
	Added    int64    `json:"added"`
	Updated  int64    `json:"updated"`
	Skipped  int64    `json:"skipped"`
	Failed   int64    `json:"failed"`
	Trashed  int64    `json:"trashed,omitempty"` // number of skipped records that are in the trash
	Vanished []string `json:"vanished,omitempty"`
	Message  string   `json:"message,omitempty"`
}

func importStatus(row storage.Row) (ImportStatus, error) {
	st := ImportStatus{Errors: []ImportError{}}
	var o importOptions
	var c importCounters
	err := row.Scan(&st.JobID, &st.Format, &st.Path, storage.JSON(&o), &st.Status, &st.Progress, storage.JSON(&c), storage.JSON(&st.Errors),
		storage.TimePtr(&st.StartedAt), storage.TimePtr(&st.FinishedAt))
	if errors.Is(err, sql.ErrNoRows) {
		return st, fault.NotFoundf("Import not found.")
	}
	st.DryRun, st.WatchID = o.DryRun, o.Watch
	c.fill(&st)
	return st, err
}

func (c *importCounters) fill(st *ImportStatus) {
	st.Read, st.Added, st.Updated, st.Skipped, st.Failed = c.Read, c.Added, c.Updated, c.Skipped, c.Failed
	st.Vanished, st.Message = slices.Clone(c.Vanished), c.Message
}

// ImportCancel stops an import. Records that it has stored are kept. An import that has
// ended is not changed.
func (s *Service) ImportCancel(ctx context.Context, p JobParams) (ImportStatus, error) {
	if _, err := s.ImportStatus(ctx, p); err != nil {
		return ImportStatus{}, err
	}
	if err := s.imports.stop(ctx, p.JobID); err != nil {
		return ImportStatus{}, err
	}
	user := identity.UserID(ctx)
	err := s.db.Write(ctx, func(tx *storage.Tx) error { // it was not running
		res, err := tx.Exec(`UPDATE memory_imports SET status = 'cancelled', finished_at = ? WHERE id = ? AND user_id = ? AND status IN ('pending', 'running')`, tx.Now, p.JobID, user)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return err
		}
		return s.importDone(tx, user, p.JobID)
	})
	if err != nil {
		return ImportStatus{}, err
	}
	return s.ImportStatus(ctx, p)
}
