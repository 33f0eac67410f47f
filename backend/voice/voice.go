// Package voice stores recordings and makes their speech searchable. The sound is stored before
// anything else happens to it. Transcription is a durable queue of jobs, which any engine of
// package transcribe can execute. The package owns the tables voice_*.
package voice

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"helix/backend/audio/capture"
	"helix/backend/audio/denoise"
	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/storage"
	"helix/backend/transcribe"
)

// Options configure a Service. Bus is required.
type Options struct {
	Logger  *slog.Logger
	Bus     *bus.Bus
	Engines []transcribe.Engine
	Private bool   // texts are encrypted and not indexed
	Dir     string // folder for files that can be recreated; default: the system's temporary folder
	// Recordings is the folder of recordings until they are stored; default: a folder in Dir.
	Recordings string
	Microphone capture.Microphone // default: that of this computer
	Callables  *callable.Registry // what commands start; nil: only screens and the recorder
	// ReleaseReserve frees space that is reserved for storing a recording on a full disk. May be nil.
	ReleaseReserve func() error
}

// Service manages the recordings of all users on this device. It is safe for concurrent use.
type Service struct {
	db *storage.DB
	o  Options

	running atomic.Bool // Run is active
	local   sync.Mutex  // held while a local engine is running
	wake    [2]chan struct{}

	noise    *denoise.Suppressor
	live     live
	mic      microphone
	commands commands
	known    triggerList

	crashPoint func(step string) // called between steps, so that tests can kill the process there
}

// New returns a Service.
func New(db *storage.DB, o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Dir == "" {
		o.Dir = filepath.Join(os.TempDir(), "helix-voice")
	}
	if o.Recordings == "" {
		o.Recordings = filepath.Join(o.Dir, "recordings")
	}
	if o.Microphone == nil {
		o.Microphone = capture.System()
	}
	s := &Service{db: db, o: o, wake: [2]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)}, noise: denoise.New(), crashPoint: func(string) {}}
	s.openMicrophone()
	return s
}

// Close closes the microphone. An active recording is stored by the next process.
func (s *Service) Close() error {
	s.mic.rec.Close()
	s.stopLive(true)
	s.live.runs.Wait()
	s.commands.close()
	return s.noise.Close()
}

// Run executes queued jobs until ctx is done. Jobs of local engines run one at a time, in parallel
// to those of services.
func (s *Service) Run(ctx context.Context) error {
	if err := s.recover(ctx); err != nil {
		return err
	}
	s.running.Store(true)
	defer s.running.Store(false)
	g, ctx := errgroup.WithContext(ctx)
	s.recoverParts(ctx)
	if user := s.db.LocalUser(); user.ID != uuid.Nil {
		if c, err := s.Settings(as(ctx, user.ID), struct{}{}); err == nil && c.KeepMicOpen {
			s.listen(as(ctx, user.ID), c)
		}
	}
	g.Go(func() error { return fault.Catch(func() error { return s.retainLoop(ctx) }) })
	g.Go(func() error { return fault.Catch(func() error { return s.storeEnded(ctx) }) })
	for _, local := range []bool{true, false} {
		g.Go(func() error { return fault.Catch(func() error { s.work(ctx, local); return nil }) })
	}
	return g.Wait()
}

// recover makes jobs due again that were running when the process was killed, and removes temporary
// files. With private storage it also removes words of encrypted texts from the index file.
func (s *Service) recover(ctx context.Context) error {
	if err := os.RemoveAll(s.tempDir()); err != nil {
		s.o.Logger.Warn("remove decoded recordings", "err", err)
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		if _, err := tx.Exec(`UPDATE voice_memos SET transcription_status = 'pending', updated_at = ?1 WHERE transcription_status = 'processing'
			AND recording_id IN (SELECT recording_id FROM voice_processing_queue WHERE status = 'processing')`, tx.Now); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE voice_processing_queue SET status = 'pending', lease_until = NULL, next_attempt_at = ?1, updated_at = ?1 WHERE status = 'processing'`, tx.Now); err != nil {
			return err
		}
		if !s.o.Private {
			return nil
		}
		_, err := tx.Exec(`INSERT INTO voice_transcripts_fts (voice_transcripts_fts) SELECT 'rebuild' WHERE (SELECT count(*) FROM voice_transcripts_fts_data) > 2`)
		return err
	})
}

func (s *Service) tempDir() string { return filepath.Join(s.o.Dir, "decoded") }

// engine returns the engine with the given id; nil if there is none.
func (s *Service) engine(id string) transcribe.Engine {
	for _, e := range s.o.Engines {
		if e.Info(context.Background()).ID == id {
			return e
		}
	}
	return nil
}

// Engines lists the engines and whether they are available.
func (s *Service) Engines(ctx context.Context, _ struct{}) (EnginesResult, error) {
	out := EnginesResult{Engines: []transcribe.Info{}}
	for _, e := range s.o.Engines {
		out.Engines = append(out.Engines, e.Info(ctx))
	}
	return out, nil
}

// note adds an action on a recording to the audit log.
func note(tx *storage.Tx, user, recording uuid.UUID, action string, detail map[string]any) error {
	_, err := tx.Exec(`INSERT INTO voice_memo_audit (id, user_id, recording_id, action, detail, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)`, storage.NewID(), user, recording, action, toJSON(detail), tx.Now)
	return err
}
