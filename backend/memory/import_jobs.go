package memory

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/memory/importer"
	"helix/backend/storage"
)

// importState is what imports keep in a Service.
type importState struct {
	mu      sync.Mutex
	working map[uuid.UUID]bool       // users whose jobs are being done
	jobs    map[uuid.UUID]*importJob // that run
	long    longWork
}

func (s *Service) initImports() {
	s.imports.working = map[uuid.UUID]bool{}
	s.imports.jobs = map[uuid.UUID]*importJob{}
	s.background = append(s.background, s.resumeImports)
}

// checkpoint is how far a job has come, in the same transaction as what it has stored.
type checkpoint struct {
	At     importer.Position `json:"at"`
	Turn   int               `json:"turn,omitempty"`   // turns of the conversation at At that are stored
	Print  string            `json:"print,omitempty"`  // of the file
	Listed bool              `json:"listed,omitempty"` // what was left out from the start is among the errors
}

// importJob is one import that runs.
type importJob struct {
	id, user uuid.UUID
	o        importOptions
	format   string
	at       importPoint   // as committed; only the worker touches it
	putTakes time.Duration // to make one thing findable, as measured; only the worker touches it
	bus      *bus.Bus

	run    context.Context // ends with the service, or when the job is cancelled
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the worker has left it

	mu    sync.Mutex
	shown ImportStatus

	published, told time.Time // the last progress, and the last word that items have changed
}

// importPoint is what each transaction of a job moves on.
type importPoint struct {
	importCounters
	errs     []ImportError
	cp       checkpoint
	progress float64
}

func (p importPoint) clone() importPoint {
	p.errs = slices.Clone(p.errs)
	p.Vanished = slices.Clone(p.Vanished)
	return p
}

const maxImportErrors = 100

// problem counts a record that could not be taken.
func (p *importPoint) problem(e ImportError) {
	p.Read++
	p.Failed++
	p.note(e)
}

func (p *importPoint) note(e ImportError) {
	if len(p.errs) < maxImportErrors {
		p.errs = append(p.errs, e)
	}
}

var errCancelled = errors.New("memory: the import was canceled")

// resumeImports goes on with what a crash or the end of the program has interrupted.
func (s *Service) resumeImports(ctx context.Context) error {
	var users []uuid.UUID
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		var err error
		users, err = storage.Collect(tx.Select(`SELECT DISTINCT user_id FROM memory_imports WHERE status IN ('pending', 'running')`), storage.RowTo[uuid.UUID])
		return err
	})
	if err != nil && ctx.Err() == nil {
		s.log.Warn("resume imports", "err", err)
	}
	for _, user := range users {
		s.startImports(user)
	}
	return nil
}

// startImports makes one worker do the jobs of a user, oldest first, until there is none.
func (s *Service) startImports(user uuid.UUID) {
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	if s.imports.working[user] {
		return
	}
	s.imports.working[user] = s.leave(func(ctx context.Context) {
		defer s.beginLongWork()(ctx)
		for {
			job, err := s.nextImport(ctx, user)
			if err != nil && ctx.Err() == nil {
				s.log.Warn("next import", "err", err)
			}
			if job == nil {
				return
			}
			s.workImport(ctx, job)
		}
	})
}

// nextImport takes the oldest job of a user. With none left the worker has stopped when it
// returns: a job that comes later gets a new one.
func (s *Service) nextImport(ctx context.Context, user uuid.UUID) (*importJob, error) {
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	job := &importJob{user: user, putTakes: 150 * time.Microsecond, done: make(chan struct{})}
	var status string
	var started *time.Time
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		job.bus = tx.Bus()
		return tx.QueryRow(`SELECT id, format, options, counters, errors, checkpoint, progress, status, started_at FROM memory_imports
			WHERE user_id = ? AND status IN ('pending', 'running') ORDER BY created_at, id LIMIT 1`, user).
			Scan(&job.id, &job.format, storage.JSON(&job.o), storage.JSON(&job.at.importCounters), storage.JSON(&job.at.errs),
				storage.JSON(&job.at.cp), &job.at.progress, &status, storage.TimePtr(&started))
	})
	if err != nil {
		delete(s.imports.working, user)
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		return nil, err
	}
	job.at.Message = ""
	job.shown = ImportStatus{JobID: job.id, Format: job.format, Path: job.o.where(), DryRun: job.o.DryRun, WatchID: job.o.Watch, StartedAt: started}
	job.show("")
	job.run, job.cancel = context.WithCancelCause(ctx)
	s.imports.jobs[job.id] = job
	return job, nil
}

// workImport does one job and writes down how it ended. When the program ends before it, the
// job stays as it is and goes on at the next start.
func (s *Service) workImport(ctx context.Context, job *importJob) {
	defer func() {
		job.cancel(nil)
		s.imports.mu.Lock()
		delete(s.imports.jobs, job.id)
		s.imports.mu.Unlock()
		close(job.done)
	}()
	err := fault.Catch(func() error { return s.runImport(job.run, job) })
	if ctx.Err() != nil {
		return
	}
	status := "completed"
	switch {
	case errors.Is(context.Cause(job.run), errCancelled), errors.Is(err, errCancelled):
		status = "cancelled"
	case err != nil:
		status = "failed"
		job.at.Message = importMessage(err)
		if fault.KindOf(err) == fault.Internal && !isBroken(err) {
			s.log.Warn("import", "job", job.id, "err", err)
		}
		job.at.note(ImportError{File: brokenFile(err), Message: job.at.Message})
	default:
		job.at.progress = 1
		if n := job.at.Trashed; n > 0 {
			job.at.Message = "Some items are in the trash and stay there."
		}
	}
	err = s.endImport(ctx, job, status)
	if err != nil && ctx.Err() == nil && !errors.Is(err, errCancelled) {
		s.log.Warn("end import", "job", job.id, "err", err)
	}
}

// endImport writes how a job ended, and waits for room when the disk is full.
func (s *Service) endImport(ctx context.Context, job *importJob, status string) error {
	return s.untilWritten(ctx, job, func(tx *storage.Tx) error {
		if err := job.save(tx, &job.at, status); err != nil {
			return err
		}
		return s.importDone(tx, job.user, job.id)
	})
}

// auditImport writes an entry about an import to the audit log.
func (s *Service) auditImport(tx *storage.Tx, e audit.Entry) error {
	if s.o.Audit == nil {
		return nil
	}
	e.SubjectKind, e.SubjectID = "import", e.RunID.String()
	return s.o.Audit(tx, e)
}

// importDone tells listeners that a job has ended.
func (s *Service) importDone(tx *storage.Tx, user, id uuid.UUID) error {
	st, err := importStatus(tx.QueryRow(`SELECT `+importColumns+` FROM memory_imports WHERE id = ? AND user_id = ?`, id, user))
	if err != nil {
		return err
	}
	if !st.DryRun && (st.WatchID == nil || st.Status != "completed" || st.Added+st.Updated > 0) {
		outcome := audit.OK
		if st.Status == "failed" {
			outcome = audit.Failed
		}
		err = s.auditImport(tx, audit.Entry{User: user, ActorKind: "import", ActorID: id.String(), Action: "import." + st.Status, RunID: id, Outcome: outcome,
			Details: map[string]any{"name": filepath.Base(st.Path), "format": st.Format, "added": st.Added, "updated": st.Updated, "skipped": st.Skipped, "failed": st.Failed}})
		if err != nil {
			return err
		}
	}
	tx.AfterCommit(func() {
		if st.Added+st.Updated > 0 && !st.DryRun {
			bus.Publish(tx.Bus(), user, Changed{IDs: []uuid.UUID{}, Op: "import", Many: true})
		}
		bus.Publish(tx.Bus(), user, ImportDone{st})
		if st.WatchID != nil {
			s.scanSoon()
		}
	})
	return nil
}

// save writes how a job stands. It is errCancelled when the job has been ended from outside.
func (j *importJob) save(tx *storage.Tx, p *importPoint, status string) error {
	var finished any
	if status != "running" {
		finished = tx.Now
	}
	if p.errs == nil {
		p.errs = []ImportError{}
	}
	done, err := updateRow(tx, `UPDATE memory_imports SET status = ?, progress = ?, counters = ?, errors = ?, checkpoint = ?, started_at = coalesce(started_at, ?), finished_at = ?
		WHERE id = ? AND status IN ('pending', 'running')`,
		status, min(max(p.progress, 0), 1), compactJSON(p.importCounters), compactJSON(p.errs), compactJSON(p.cp), tx.Now, finished, j.id)
	if err == nil && !done {
		return errCancelled
	}
	return err
}

// show makes the present state of a job that runs what ImportStatus answers; message says why a job waits.
func (j *importJob) show(message string) ImportStatus {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.shown.Status, j.shown.Progress = "running", j.at.progress
	j.at.fill(&j.shown)
	j.shown.Errors = append([]ImportError{}, j.at.errs...)
	if message != "" {
		j.shown.Message = message
	}
	return j.shown
}

// live is how a job stands that the database has as st: one that runs may wait for room, or
// have just begun.
func (i *importState) live(st ImportStatus) ImportStatus {
	i.mu.Lock()
	job := i.jobs[st.JobID]
	i.mu.Unlock()
	if job == nil || st.FinishedAt != nil {
		return st
	}
	job.mu.Lock()
	defer job.mu.Unlock()
	shown := job.shown
	if shown.StartedAt == nil {
		shown.StartedAt = st.StartedAt
	}
	return shown
}

// stop cancels a job that runs and waits for its end.
func (i *importState) stop(ctx context.Context, id uuid.UUID) error {
	i.mu.Lock()
	job := i.jobs[id]
	i.mu.Unlock()
	if job == nil {
		return nil
	}
	job.cancel(errCancelled)
	select {
	case <-job.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const (
	importProgressEvery = 250 * time.Millisecond
	importChangedEvery  = 2 * time.Second
)

// progressed tells listeners how far a job is, four times a second at most.
func (s *Service) progressed(tx *storage.Tx, job *importJob) {
	tx.AfterCommit(func() {
		st := job.show("")
		now := time.Now()
		if now.Sub(job.published) >= importProgressEvery {
			job.published = now
			bus.Publish(job.bus, job.user, ImportProgress{st})
		}
		if now.Sub(job.told) >= importChangedEvery && st.Added+st.Updated > 0 && !st.DryRun {
			job.told = now
			bus.Publish(job.bus, job.user, Changed{IDs: []uuid.UUID{}, Op: "import", Many: true})
		}
	})
}
