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

// importState is the state of imports in a Service.
type importState struct {
	mu      sync.Mutex
	working map[uuid.UUID]bool       // users with a worker
	jobs    map[uuid.UUID]*importJob // the running jobs
	long    longWork
}

func (s *Service) initImports() {
	s.imports.working = map[uuid.UUID]bool{}
	s.imports.jobs = map[uuid.UUID]*importJob{}
	s.background = append(s.background, s.resumeImports)
}

// checkpoint is the progress of a job. It is stored in the same transaction as the records it covers.
type checkpoint struct {
	At     importer.Position `json:"at"`
	Turn   int               `json:"turn,omitempty"`   // number of stored turns of the conversation at At
	Print  string            `json:"print,omitempty"`  // fingerprint of the file
	Listed bool              `json:"listed,omitempty"` // the files left out from the start are already in the list of errors
}

// importJob is a running import.
type importJob struct {
	id, user uuid.UUID
	o        importOptions
	format   string
	at       importPoint   // as committed; only the worker accesses it
	putTakes time.Duration // measured time to index one entry; only the worker accesses it
	bus      *bus.Bus

	run    context.Context // canceled with the service, or when the job is canceled
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the worker has finished with it

	mu    sync.Mutex
	shown ImportStatus

	progressAt, changedAt time.Time // times of the last progress event and of the last memory.changed event
}

// importPoint is the state of a job that each transaction advances.
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

// problem counts a record that could not be imported.
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

// resumeImports continues imports that a crash or a shutdown has interrupted.
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

// startImports starts a worker that runs the jobs of a user, oldest first, until none is left.
// There is at most one worker per user.
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

// nextImport returns the oldest job of a user. If there is none, it returns nil and the worker is
// already deregistered, so that a later job starts a new one.
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

// workImport runs one job and stores its outcome. If the program shuts down first, the job is left
// as it is and continues at the next start.
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

// endImport stores the outcome of a job. It retries until there is space if the disk is full.
func (s *Service) endImport(ctx context.Context, job *importJob, status string) error {
	return s.writeWithRetry(ctx, job, func(tx *storage.Tx) error {
		if err := job.save(tx, &job.at, status); err != nil {
			return err
		}
		return s.importDone(tx, job.user, job.id)
	})
}

func (s *Service) auditImport(tx *storage.Tx, e audit.Entry) error {
	if s.o.Audit == nil {
		return nil
	}
	e.SubjectKind, e.SubjectID = "import", e.RunID.String()
	return s.o.Audit(tx, e)
}

// importDone audits the end of a job and publishes memory.import_done after the commit.
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

// save stores the state of a job. It returns errCancelled if the job has been canceled meanwhile.
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

// show updates what ImportStatus returns for a running job. message says why the job is waiting, if it is.
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

// live returns the current status of a job whose stored status is st. A running job may be waiting
// for space or have just started, which the stored status does not show.
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

// stop cancels a running job and waits for it to end.
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

// progressed publishes the progress of a job after the commit, at most four times a second, and less
// often that items have changed.
func (s *Service) progressed(tx *storage.Tx, job *importJob) {
	tx.AfterCommit(func() {
		st := job.show("")
		now := time.Now()
		if now.Sub(job.progressAt) >= importProgressEvery {
			job.progressAt = now
			bus.Publish(job.bus, job.user, ImportProgress{st})
		}
		if now.Sub(job.changedAt) >= importChangedEvery && st.Added+st.Updated > 0 && !st.DryRun {
			job.changedAt = now
			bus.Publish(job.bus, job.user, Changed{IDs: []uuid.UUID{}, Op: "import", Many: true})
		}
	})
}
