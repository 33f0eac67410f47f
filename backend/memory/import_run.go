package memory

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"time"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/memory/importer"
	"helix/backend/storage"
)

const (
	importBatch = 500                   // records per transaction
	importBytes = 4 << 20               // bytes of text waiting to be written
	importHold  = 60 * time.Millisecond // how long a transaction may take
	importYield = 10 * time.Millisecond // the same while another write waits
	importAhead = 2                     // records read ahead while others are written
)

// runImport reads and stores records. It returns nil at the end of the source, and otherwise the
// reason why it stopped; records that were committed are kept.
func (s *Service) runImport(ctx context.Context, job *importJob) error {
	r, done, err := s.openImport(&job.o, job.at.cp.At)
	if err == nil && job.at.cp.Print != r.Fingerprint() && job.at.cp != (checkpoint{}) {
		// The file has changed since, so start from its beginning. Records that are stored
		// already are skipped.
		_ = r.Close()
		done()
		job.at = importPoint{}
		r, done, err = s.openImport(&job.o, importer.Position{})
	}
	if err != nil {
		return err
	}
	job.at.cp.Print = r.Fingerprint()
	if !job.at.cp.Listed {
		for _, p := range r.Problems() {
			job.at.problem(ImportError{File: p.File, Message: p.Message})
		}
		job.at.cp.Listed = true
	}
	records := make(chan *prepared, importAhead)
	read, stop := context.WithCancel(ctx)
	var readErr error
	go func() {
		defer close(records)
		readErr = fault.Catch(func() error { return s.readImport(read, r, job, records) })
	}()
	err = s.storeImport(ctx, job, records)
	stop()
	for range records { // drain, until the reader has stopped
	}
	if err == nil {
		err = readErr
	}
	if err == nil && r.Folder() && !job.o.DryRun && job.o.Name != noFolder && job.o.Watch == nil {
		err = s.findVanished(ctx, job, r)
	}
	if e := r.Close(); err == nil && e != nil {
		s.log.Debug("close import", "err", e)
	}
	done()
	return err
}

// readImport sends the records of a source to out, with all processing done that needs no transaction.
func (s *Service) readImport(ctx context.Context, r *importer.Reader, job *importJob, out chan<- *prepared) error {
	for {
		rec, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		p := prepare(job, r, rec)
		select {
		case out <- p:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// storeImport writes records in transactions of at most 500 or 60 ms.
func (s *Service) storeImport(ctx context.Context, job *importJob, records <-chan *prepared) error {
	var queue []*prepared
	for open := true; open || len(queue) > 0; {
		for open && !enough(queue, job.at.cp.Turn) {
			select {
			case p, ok := <-records:
				if open = ok; ok {
					queue = append(queue, p)
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if len(queue) == 0 {
			return nil
		}
		n := 0
		write := func(tx *storage.Tx) (err error) {
			next := job.at.clone()
			if n, err = s.storeBatch(tx, job, queue, &next); err != nil {
				return err
			}
			tx.AfterCommit(func() { job.at = next })
			s.progressed(tx, job)
			if job.o.DryRun {
				return nil
			}
			return job.save(tx, &next, "running")
		}
		var err error
		if job.o.DryRun {
			if err = s.db.Read(ctx, write); err == nil {
				err = s.writeWithRetry(ctx, job, func(tx *storage.Tx) error { return job.save(tx, &job.at, "running") })
			}
		} else {
			err = s.writeWithRetry(ctx, job, write)
		}
		if err != nil {
			return err
		}
		clear(queue[:n]) // release stored records
		queue = queue[n:]
	}
	return nil
}

// enough reports whether the queue fills a transaction. begun is the number of turns of its first
// conversation that are already stored.
func enough(queue []*prepared, begun int) bool {
	n, size := -begun, 0
	for _, p := range queue {
		n, size = n+p.items(), size+p.size
	}
	return n >= importBatch || size >= importBytes
}

// storeBatch stores records of the queue until the transaction is long enough. It returns the
// number of records that are finished.
func (s *Service) storeBatch(tx *storage.Tx, job *importJob, queue []*prepared, next *importPoint) (n int, err error) {
	w := &importWriter{s: s, tx: tx, job: job, at: next, began: time.Now(), left: importBatch}
	for _, p := range queue {
		if n > 0 && w.full() {
			break
		}
		begun := next.cp.Turn
		finished, err := w.record(p)
		if err != nil {
			return 0, err
		}
		if !finished { // part of a long conversation is stored
			next.progress += (p.progress - next.progress) * float64(next.cp.Turn-begun) / float64(len(p.turns)-begun)
			break
		}
		next.cp.At, next.cp.Turn = p.rec.After, 0
		next.progress = p.progress
		n++
	}
	return n, w.flush()
}

// writeWithRetry writes, and retries while the disk is full or the data are in use, so the job pauses
// at its last checkpoint until there is space.
func (s *Service) writeWithRetry(ctx context.Context, job *importJob, fn func(*storage.Tx) error) error {
	for try := 0; ; try++ {
		err := errLowSpace
		if !s.lowSpace() {
			err = s.longWrite(ctx, fn)
		}
		if err == nil {
			job.show("")
			return nil
		}
		kind := fault.KindOf(err)
		if ctx.Err() != nil || kind != fault.Limit && (kind != fault.Unavailable || try >= 20) {
			return err
		}
		if st := job.show(fault.As(err).Message); time.Since(job.progressAt) >= importProgressEvery {
			job.progressAt = time.Now()
			bus.Publish(job.bus, job.user, ImportProgress{st})
		}
		wait := min(100*time.Millisecond<<min(try, 8), 15*time.Second)
		select {
		case <-time.After(time.Duration((0.5 + rand.Float64()) * float64(wait))):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

var errLowSpace error = fault.Limitf("The disk is nearly full. The import continues when there is space.")

// importMessage returns the user-facing reason why an import failed.
func importMessage(err error) string {
	if broken := (*importer.BrokenError)(nil); errors.As(err, &broken) {
		return broken.Error()
	}
	return fault.As(err).Message
}

func isBroken(err error) bool {
	broken := (*importer.BrokenError)(nil)
	return errors.As(err, &broken)
}

func brokenFile(err error) string {
	if broken := (*importer.BrokenError)(nil); errors.As(err, &broken) {
		return broken.File
	}
	return ""
}

const maxVanished = 1000

// findVanished lists the documents from earlier imports of a folder whose files no longer exist. It
// does not change them.
func (s *Service) findVanished(ctx context.Context, job *importJob, r *importer.Reader) error {
	there := map[string]bool{}
	for _, name := range r.Files() {
		there[name] = true
	}
	base := folderURI(&job.o, job.format)
	return s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.Select(`SELECT source_uri FROM documents WHERE user_id = ? AND source_uri >= ? AND source_uri < ? AND source = ? AND deleted_at IS NULL ORDER BY source_uri`,
			job.user, base, base[:len(base)-1]+"0", job.format).Each(func(row storage.Row) error {
			var uri string
			if err := row.Scan(&uri); err != nil {
				return err
			}
			name, part := nameOfURI(uri, base)
			if part == 0 && !there[name] && len(job.at.Vanished) < maxVanished {
				job.at.Vanished = append(job.at.Vanished, name)
			}
			return nil
		})
	})
}
