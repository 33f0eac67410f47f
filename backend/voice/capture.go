package voice

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/audio/capture"
	"helix/backend/bus"
	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

const (
	shortest   = 250 * time.Millisecond // a shorter recording is canceled
	storeAgain = 30 * time.Second       // until an ended recording that couldn't be stored is stored again
)

// recordingNote is what the header of a recording says about it.
type recordingNote struct {
	User  uuid.UUID `json:"user"`
	Mode  string    `json:"mode"`
	Title string    `json:"title,omitempty"`
	Tags  []string  `json:"tags,omitempty"`
}

// microphone is the state of recording.
type microphone struct {
	rec *capture.Recorder
	// ended wakes the loop that stores recordings that ended by themselves.
	ended chan struct{}

	starting sync.Mutex // held while recordings start, stop and are stored

	mu     sync.Mutex
	now    recordingNote // of the active recording; Mode is empty if there is none
	id     uuid.UUID
	paused bool
	failed bool // the last recording ended because of an error
	notice string
	queue  []*capture.Part // ended, not stored yet
}

func (s *Service) openMicrophone() {
	m := &s.mic
	m.ended = make(chan struct{}, 1)
	m.rec = capture.NewRecorder(capture.Options{
		Dir: s.o.Recordings, Mic: s.o.Microphone, Logger: s.o.Logger, Space: s.db.FreeSpace,
		Level: func(id uuid.UUID, l capture.Level) {
			bus.Publish(s.o.Bus, m.user(), LevelChanged{id, l.PeakDB, l.RMSDB, l.Clipped, l.Quiet, l.ElapsedMs})
		},
		Samples: s.sampled, Notice: s.noticed,
	})
}

func (m *microphone) user() uuid.UUID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.User
}

var notices = map[capture.Notice]string{
	capture.DeviceChanged: "The microphone was disconnected. Recording continues with the default microphone.",
	capture.DeviceLost:    "The microphone was disconnected. What was recorded is kept.",
	capture.LowSpace:      "Less than 500 MB of disk space are free.",
	capture.NoSpace:       "Recording stopped because the disk is almost full. What was recorded is kept.",
	capture.WriteFailed:   "Recording stopped because the file couldn't be written. What was recorded is kept.",
	capture.Limit:         "Recording stopped at its time limit.",
	capture.Continued:     "The recording reached 4 hours and continues in a new one.",
}

// noticed handles what happens to the active recording. It must not call the recorder.
func (s *Service) noticed(id uuid.UUID, n capture.Notice, ended *capture.Part) {
	if (n == capture.NoSpace || n == capture.WriteFailed) && s.o.ReleaseReserve != nil {
		if err := s.o.ReleaseReserve(); err != nil {
			s.o.Logger.Warn("release the reserved disk space", "err", err)
		}
	}
	m := &s.mic
	m.mu.Lock()
	user := m.now.User
	c := StateChanged{State: StateRecording, RecordingID: &id, Mode: m.now.Mode, Notice: notices[n]}
	if m.paused {
		c.State = StatePaused
	}
	m.notice = c.Notice
	if ended != nil {
		s.stopLive(false)
		m.queue = append(m.queue, ended)
		m.id = id
		if n != capture.Continued {
			m.failed = n != capture.Limit
			m.now.Mode = ""
			c.State, c.Mode = StateIdle, ""
			if m.failed {
				c.State = StateError
			}
		}
	}
	m.mu.Unlock()
	select {
	case m.ended <- struct{}{}:
	default:
	}
	bus.Publish(s.o.Bus, user, c)
}

// storeEnded stores recordings that ended by themselves until ctx is done. Then it ends and stores
// the active one.
func (s *Service) storeEnded(ctx context.Context) error {
	for ctx.Err() == nil {
		var again <-chan time.Time
		if !s.storeQueue(ctx) {
			again = time.After(storeAgain)
		}
		select {
		case <-ctx.Done():
		case <-s.mic.ended:
		case <-again:
		}
	}
	s.mic.starting.Lock()
	if part, err := s.mic.rec.Stop(); err == nil {
		s.mic.take(part)
	}
	s.mic.starting.Unlock()
	s.storeQueue(context.WithoutCancel(ctx))
	return nil
}

// take queues an ended recording for storing.
func (m *microphone) take(p *capture.Part) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queue, m.now.Mode = append(m.queue, p), ""
}

// storeQueue stores the recordings that have ended. It returns false if one couldn't be stored.
func (s *Service) storeQueue(ctx context.Context) bool {
	s.mic.mu.Lock()
	list := s.mic.queue
	s.mic.queue = nil
	s.mic.mu.Unlock()
	for i, p := range list {
		if _, err := s.storePart(ctx, p, false); err != nil {
			s.o.Logger.Error("store a recording", "id", p.ID, "err", err)
			s.mic.mu.Lock()
			s.mic.queue = append(slices.Clone(list[i:]), s.mic.queue...)
			s.mic.mu.Unlock()
			return false
		}
	}
	return true
}

// storePart stores a recording as a memo with a job, and only then removes its own files.
func (s *Service) storePart(ctx context.Context, p *capture.Part, recovered bool) (m Memo, err error) {
	var n recordingNote
	if err := json.Unmarshal(p.Note, &n); err != nil {
		return m, fmt.Errorf("header of recording %s: %w", p.ID, err)
	}
	f, err := p.WAV()
	if err != nil {
		return m, err
	}
	defer f.Close()
	from := origin{id: p.ID, source: sourceCapture, gaps: p.Gaps(), recovered: recovered, talk: n.Mode == ModeTalk}
	if n.Mode == ModeCommand {
		from.source = sourceCommand
	}
	at := p.StartedAt
	m, _, err = s.store(as(ctx, n.User), f, UploadParams{Title: n.Title, Tags: n.Tags, RecordedAt: &at}, from)
	if err != nil {
		return m, err
	}
	s.crashPoint("part stored")
	if err := p.Remove(); err != nil {
		s.o.Logger.Warn("remove the file of a stored recording", "id", p.ID, "err", err)
	}
	return m, nil
}

// recoverParts stores the recordings that were active when the process was killed.
func (s *Service) recoverParts(ctx context.Context) {
	s.mic.starting.Lock()
	defer s.mic.starting.Unlock()
	parts, err := capture.Orphans(s.o.Recordings, s.mic.rec.State().ID)
	if err != nil {
		s.o.Logger.Warn("recover recordings", "err", err)
	}
	s.mic.mu.Lock()
	queued := slices.Clone(s.mic.queue)
	s.mic.mu.Unlock()
	for _, p := range parts {
		if slices.ContainsFunc(queued, func(q *capture.Part) bool { return q.ID == p.ID }) {
			continue
		}
		if _, err := s.storePart(ctx, p, true); err != nil {
			s.o.Logger.Error("recover a recording", "id", p.ID, "err", err)
		}
	}
}

// Devices lists the microphones. Having none is not an error.
func (s *Service) Devices(ctx context.Context, _ struct{}) (out DevicesResult, err error) {
	conf, err := s.Settings(ctx, struct{}{})
	if err != nil {
		return out, err
	}
	out.Selected = conf.InputDevice
	out.Devices, err = s.o.Microphone.Devices(ctx)
	switch {
	case err != nil:
		out.Devices, out.Reason = []capture.Device{}, fault.As(err).Message
	case len(out.Devices) == 0:
		out.Devices, out.Reason = []capture.Device{}, "No microphone was found. Connect one, or upload a recording."
	default:
		out.Available = true
	}
	return out, nil
}

// Start begins a recording.
func (s *Service) Start(ctx context.Context, p StartParams) (out StartResult, err error) {
	s.mic.starting.Lock()
	defer s.mic.starting.Unlock()
	return s.start(ctx, p)
}

func (s *Service) start(ctx context.Context, p StartParams) (out StartResult, err error) {
	p.Mode = cmp.Or(p.Mode, ModeMemo)
	if !slices.Contains([]string{ModeMemo, ModeCommand, ModeTalk}, p.Mode) {
		return out, fault.InvalidField("mode", fault.CodeRange, "mode must be memo, command or talk.")
	}
	if p.MaxMs < 0 || p.MaxMs > capture.MaxLength.Milliseconds() {
		return out, fault.InvalidField("maxMs", fault.CodeRange, "maxMs must be at most 4 hours.")
	}
	if err := checkTitle(p.Title); err != nil {
		return out, err
	}
	tags, err := checkTags(p.Tags)
	if err != nil {
		return out, err
	}
	n := recordingNote{identity.UserID(ctx), p.Mode, p.Title, tags}
	note, err := json.Marshal(n)
	if err != nil {
		return out, err
	}
	conf, err := s.Settings(ctx, struct{}{})
	if err != nil {
		return out, err
	}
	id := storage.NewID()
	m := &s.mic
	m.mu.Lock()
	if m.now.Mode != "" {
		m.mu.Unlock()
		return out, fault.Conflictf("A recording is active already. Stop it first.")
	}
	m.now, m.id, m.paused, m.failed, m.notice = n, id, false, false, ""
	m.mu.Unlock()
	if p.Stream {
		s.startLive(n.User, id, conf) // first, so that it gets the pre-roll
	}
	pre, err := m.rec.Start(capture.Params{ID: id, Device: cmp.Or(p.DeviceID, conf.InputDevice), PreRoll: duration.Of(conf.PreRollMs, time.Millisecond), Max: duration.Of(p.MaxMs, time.Millisecond), Note: note, Next: storage.NewID})
	if err != nil {
		s.stopLive(true)
		m.mu.Lock()
		m.now.Mode, m.failed = "", true
		m.mu.Unlock()
		return out, err
	}
	out = StartResult{RecordingID: id, StartedAt: time.Now().Add(-pre), PreRollMs: pre.Milliseconds()}
	s.stateChanged(ctx, StateRecording, id)
	return out, nil
}

func (s *Service) stateChanged(ctx context.Context, state string, id uuid.UUID) {
	s.mic.mu.Lock()
	c := StateChanged{State: state, Mode: s.mic.now.Mode}
	if id != uuid.Nil {
		c.RecordingID = &id
	}
	s.mic.mu.Unlock()
	bus.Publish(s.o.Bus, identity.UserID(ctx), c)
}

// active returns the id of the caller's recording. It returns an error if that is not the expected one.
func (s *Service) active(ctx context.Context, want *uuid.UUID) (uuid.UUID, error) {
	m := &s.mic
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.now.Mode == "" || m.now.User != identity.UserID(ctx):
		return uuid.Nil, fault.Conflictf("There is no active recording.")
	case want != nil && *want != m.id:
		return uuid.Nil, fault.NotFoundf("This recording is not active.")
	}
	return m.id, nil
}

// Stop ends the recording, stores it and queues its transcription. A recording of less than 250 ms
// is moved to the trash.
func (s *Service) Stop(ctx context.Context, p StopParams) (out StopResult, err error) {
	s.mic.starting.Lock()
	defer s.mic.starting.Unlock()
	out, err = s.stop(ctx, p.RecordingID, true)
	if err != nil || out.DurationMs >= shortest.Milliseconds() {
		return out, err
	}
	out.Status = "canceled"
	_, err = s.DeleteMemo(ctx, MemoParams{*out.MemoID})
	return out, err
}

// stop ends the recording and stores it. With keep unset it starts no command.
func (s *Service) stop(ctx context.Context, want *uuid.UUID, keep bool) (out StopResult, err error) {
	if out.RecordingID, err = s.active(ctx, want); err != nil {
		return out, err
	}
	part, err := s.mic.rec.Stop()
	if err != nil {
		return out, err
	}
	s.stopLive(!keep)
	s.mic.mu.Lock()
	mode := s.mic.now.Mode
	s.mic.now.Mode = ""
	s.mic.mu.Unlock()
	out.DurationMs, out.RecordingID = part.DurationMs(), part.ID
	if keep && mode == ModeCommand && part.DurationMs() >= shortest.Milliseconds() {
		s.expectCommand(ctx, part.ID)
	}
	defer s.stateChanged(ctx, StateIdle, out.RecordingID)
	m, err := s.storePart(ctx, part, false)
	if err != nil {
		s.mic.take(part)
		select {
		case s.mic.ended <- struct{}{}:
		default:
		}
		return out, fault.Unavailablef("Couldn't store the recording yet. It is kept, and Helix will try again.").WithCause(err)
	}
	out.MemoID, out.Status = &m.ID, m.Status
	return out, nil
}

// Pause stops recording. The device stays open for 30 s.
func (s *Service) Pause(ctx context.Context, p StopParams) (StopResult, error) {
	return s.hold(ctx, p, s.mic.rec.Pause, StatePaused)
}

// Resume continues a paused recording.
func (s *Service) Resume(ctx context.Context, p StopParams) (StopResult, error) {
	return s.hold(ctx, p, s.mic.rec.Resume, StateRecording)
}

func (s *Service) hold(ctx context.Context, p StopParams, do func() error, state string) (out StopResult, err error) {
	s.mic.starting.Lock()
	defer s.mic.starting.Unlock()
	if out.RecordingID, err = s.active(ctx, p.RecordingID); err != nil {
		return out, err
	}
	if err := do(); err != nil {
		return out, err
	}
	s.mic.mu.Lock()
	s.mic.paused = state == StatePaused
	s.mic.mu.Unlock()
	out.DurationMs, out.Status = s.mic.rec.State().ElapsedMs, state
	s.stateChanged(ctx, state, out.RecordingID)
	return out, nil
}

const undoCancel = "voice.cancel"

// Cancel ends the recording and moves it to the trash.
func (s *Service) Cancel(ctx context.Context, p StopParams) (out CancelResult, err error) {
	s.mic.starting.Lock()
	defer s.mic.starting.Unlock()
	r, err := s.stop(ctx, p.RecordingID, false)
	if err != nil {
		return out, err
	}
	if _, err := s.DeleteMemo(ctx, MemoParams{*r.MemoID}); err != nil {
		return out, err
	}
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		out.UndoToken, err = tx.KeepUndo(identity.UserID(ctx), undoCancel, r.MemoID)
		return err
	})
	return out, err
}

// UndoCancel restores a canceled recording.
func (s *Service) UndoCancel(ctx context.Context, p UndoParams) (Memo, error) {
	var id uuid.UUID
	if err := s.db.Write(ctx, func(tx *storage.Tx) error {
		act, state, err := tx.TakeUndo(identity.UserID(ctx), p.UndoToken)
		if err != nil {
			return err
		}
		if act != undoCancel {
			return fault.NotFoundf("This can no longer be undone.")
		}
		return json.Unmarshal(state, &id)
	}); err != nil {
		return Memo{}, err
	}
	return s.RestoreMemo(ctx, MemoParams{id})
}

// Toggle starts a recording, or stops the active one.
func (s *Service) Toggle(ctx context.Context, p ToggleParams) (out ToggleResult, err error) {
	s.mic.mu.Lock()
	idle := s.mic.now.Mode == ""
	s.mic.mu.Unlock()
	if idle {
		r, err := s.Start(ctx, StartParams{Mode: p.Mode})
		return ToggleResult{StateRecording, r.RecordingID}, err
	}
	r, err := s.Stop(ctx, StopParams{})
	return ToggleResult{StateIdle, r.RecordingID}, err
}

// Status returns the state of the microphone and of the queue.
func (s *Service) Status(ctx context.Context, _ struct{}) (out StatusResult, err error) {
	now := s.mic.rec.State()
	out.State, out.PeakDB, out.RMSDB, out.Microphone.Open = StateIdle, now.Level.PeakDB, now.Level.RMSDB, now.Open
	d, err := s.Devices(ctx, struct{}{})
	if err != nil {
		return out, err
	}
	out.Microphone.Available, out.Microphone.Reason = d.Available, d.Reason
	var conf Settings
	if err := s.db.Read(ctx, func(tx *storage.Tx) error {
		if conf, err = settings(tx, identity.UserID(ctx)); err != nil {
			return err
		}
		out.Queue, err = countQueue(tx, identity.UserID(ctx))
		return err
	}); err != nil {
		return out, err
	}
	out.Engine = conf.engine()
	m := &s.mic
	m.mu.Lock()
	defer m.mu.Unlock()
	mine := m.now.User == identity.UserID(ctx)
	if mine {
		out.Notice = m.notice
	}
	switch {
	case now.ID != uuid.Nil && mine:
		id := now.ID
		out.State, out.RecordingID, out.Mode, out.ElapsedMs = StateRecording, &id, m.now.Mode, now.ElapsedMs
		if now.Paused {
			out.State = StatePaused
		}
	case out.Queue.Processing > 0:
		out.State = StateProcessing
	case now.Open:
		out.State = StateListening
	case m.failed && mine:
		out.State = StateError
	}
	return out, nil
}
