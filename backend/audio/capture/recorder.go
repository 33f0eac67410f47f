package capture

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/duration"
	"helix/backend/fault"
)

const (
	ringLength = 2 * time.Second
	tick       = 50 * time.Millisecond
	// MaxPreRoll is the longest sound from before the start of a recording.
	MaxPreRoll = 2 * time.Second
	// MaxLength is the length after which a recording continues in another one.
	MaxLength  = 4 * time.Hour
	holdPaused = 30 * time.Second // a paused device stays open
	spaceEvery = 5 * time.Second
	lowSpace   = 500 << 20 // bytes on disk: a warning
	noSpace    = 100 << 20 // bytes on disk: the recording stops
	clipLevel  = 0.98855   // -0.1 dBFS
	quietDB    = -60
	quietAfter = 3 * time.Second
	// SilenceDB is the level of digital silence.
	SilenceDB = -120
)

// Level is the loudness of 50 ms.
type Level struct {
	PeakDB, RMSDB float64 // dBFS
	Clipped       bool    // three samples in a row at full scale
	Quiet         bool    // nothing was heard for 3 s
	ElapsedMs     int64
}

// Notice is something that happened to a recording.
type Notice string

// Notices.
const (
	DeviceChanged Notice = "device_changed" // the device was lost; recording continues with the default device
	DeviceLost    Notice = "device_lost"    // the device was lost and there is no other
	LowSpace      Notice = "low_space"
	NoSpace       Notice = "no_space"     // the recording stopped because the disk is almost full
	WriteFailed   Notice = "write_failed" // the recording stopped because it couldn't be written
	Limit         Notice = "limit"        // the recording reached its length
	Continued     Notice = "continued"    // the recording continues in another one
)

// Options configure a Recorder. Dir and Mic are required; the functions may be nil and must return
// quickly.
type Options struct {
	Dir    string // of recordings that are not stored elsewhere yet
	Mic    Microphone
	Logger *slog.Logger
	// Space returns the free bytes on the disk of Dir.
	Space func() (int64, error)
	// Level is called for each 50 ms of a recording.
	Level func(id uuid.UUID, l Level)
	// Samples gets what is recorded, at rate.
	Samples func(id uuid.UUID, rate int, samples []float32)
	// Notice is called with what happens to a recording. If ended is not nil, the recording has ended
	// and ended is to be stored.
	Notice func(id uuid.UUID, n Notice, ended *Part)
}

// Params describe a recording.
type Params struct {
	ID      uuid.UUID
	Device  string
	Max     time.Duration // 0: MaxLength, after which the recording continues in another one
	PreRoll time.Duration
	Note    json.RawMessage
	// Next returns the id of the recording in which one continues after MaxLength.
	Next func() uuid.UUID
}

// Recorder records from one microphone at a time. It is safe for concurrent use.
type Recorder struct {
	o    Options
	wake chan struct{} // the device was lost

	mu     sync.Mutex
	stream Stream
	device string
	ring   *ring
	pre    []float32 // of an open device without a recording
	part   *Part
	p      Params
	paused time.Time // zero: not paused
	keep   bool      // the device stays open between recordings
	meter  meter
	space  time.Time // of the last check
	warned bool
	end    chan struct{} // stops the writer
	ended  sync.WaitGroup
}

// NewRecorder returns a Recorder. It opens no device.
func NewRecorder(o Options) *Recorder {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Level == nil {
		o.Level = func(uuid.UUID, Level) {}
	}
	if o.Samples == nil {
		o.Samples = func(uuid.UUID, int, []float32) {}
	}
	if o.Notice == nil {
		o.Notice = func(uuid.UUID, Notice, *Part) {}
	}
	if o.Space == nil {
		o.Space = func() (int64, error) { return math.MaxInt64, nil }
	}
	return &Recorder{o: o, wake: make(chan struct{}, 1)}
}

// Listen opens or closes the device between recordings. While it is open, the last MaxPreRoll are
// kept in memory.
func (r *Recorder) Listen(device string, on bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep = on
	if r.part != nil {
		return nil
	}
	if !on || r.device != device {
		r.closeLocked()
	}
	if !on {
		return nil
	}
	return r.openLocked(device, 0)
}

// Start begins a recording and returns the length of its pre-roll.
func (r *Recorder) Start(p Params) (preRoll time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.part != nil {
		return 0, fault.Conflictf("A recording is active already. Stop it first.")
	}
	if free, err := r.o.Space(); err == nil && free < noSpace {
		return 0, fault.Limitf("Couldn't start recording: less than %d MB of disk space are free.", noSpace>>20)
	}
	if r.stream != nil && r.device != p.Device {
		r.closeLocked()
	}
	if r.stream != nil {
		r.drainLocked() // up to now: the pre-roll
	} else if err := r.openLocked(p.Device, 0); err != nil {
		return 0, err
	}
	rate := r.stream.Rate()
	pre := r.pre[len(r.pre)-min(len(r.pre), int(p.PreRoll.Seconds()*float64(rate))):]
	preRoll = duration.Of(len(pre), time.Second) / time.Duration(rate)
	part, err := createPart(r.o.Dir, Header{ID: p.ID, Rate: rate, StartedAt: time.Now().Add(-preRoll), Note: p.Note})
	if err != nil {
		r.releaseLocked()
		return 0, fault.Unavailablef("Couldn't create the file of the recording.").WithCause(err)
	}
	r.part, r.p, r.paused, r.warned, r.meter = part, p, time.Time{}, false, newMeter(rate)
	r.space = time.Now()
	r.recordLocked(slices.Clone(pre))
	r.pre = r.pre[:0]
	return preRoll, nil
}

// Stop ends the recording and returns it, to be stored and removed by the caller.
func (r *Recorder) Stop() (*Part, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.part == nil {
		return nil, fault.Conflictf("There is no active recording.")
	}
	if r.stream != nil && !r.keep {
		r.stream.Close() // first, so that all samples are in the ring
		r.ring.flush()
	}
	r.drainLocked()
	if r.part == nil {
		return nil, fault.Conflictf("The recording has ended already.")
	}
	return r.finishLocked(), nil
}

// finishLocked ends the recording and releases the device.
func (r *Recorder) finishLocked() *Part {
	p := r.part
	r.part = nil
	if err := p.close(); err != nil {
		r.o.Logger.Error("close a recording", "id", p.ID, "err", err)
	}
	r.releaseLocked()
	return p
}

func (r *Recorder) releaseLocked() {
	if !r.keep || r.stream == nil {
		r.closeLocked()
	}
}

// Pause stops writing. The device stays open for 30 s.
func (r *Recorder) Pause() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.part == nil {
		return fault.Conflictf("There is no active recording.")
	}
	if r.paused.IsZero() {
		r.drainLocked()
		r.paused = time.Now()
	}
	return nil
}

// Resume continues a paused recording, with the default device if its own is gone.
func (r *Recorder) Resume() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.part == nil {
		return fault.Conflictf("There is no active recording.")
	}
	if r.paused.IsZero() {
		return nil
	}
	if err := r.openLocked(r.device, r.part.Rate); err != nil {
		if r.device == "" || r.openLocked("", r.part.Rate) != nil {
			return err
		}
		r.o.Notice(r.part.ID, DeviceChanged, nil)
	}
	r.drainLocked()
	r.paused = time.Time{}
	return nil
}

// State describes the Recorder.
type State struct {
	ID        uuid.UUID // of the active recording; zero: there is none
	Paused    bool
	Open      bool // the device is in use
	ElapsedMs int64
	Level     Level
}

// State returns the current state.
func (r *Recorder) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := State{Open: r.stream != nil, Level: Level{PeakDB: SilenceDB, RMSDB: SilenceDB}}
	if r.part != nil {
		s.ID, s.Paused, s.ElapsedMs, s.Level = r.part.ID, !r.paused.IsZero(), r.part.DurationMs(), r.meter.last
	}
	return s
}

// Close closes the device. An active recording stays in its folder, for Orphans.
func (r *Recorder) Close() {
	r.mu.Lock()
	r.keep = false
	if r.part != nil {
		if r.stream != nil {
			r.stream.Close()
			r.ring.flush()
		}
		r.drainLocked()
	}
	if r.part != nil {
		r.finishLocked()
	}
	r.closeLocked()
	r.mu.Unlock()
	r.ended.Wait()
}

// openLocked opens the device, if it isn't, and starts the writer.
func (r *Recorder) openLocked(device string, rate int) error {
	if r.stream != nil {
		return nil
	}
	if rate == 0 && r.part != nil {
		rate = r.part.Rate
	}
	ring := newRing(int(ringLength.Seconds()) * 192_000)
	s, err := r.o.Mic.Open(device, rate, ring.write, func() {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	r.stream, r.ring, r.device, r.pre = s, ring, device, nil
	if r.end == nil {
		r.end = make(chan struct{})
		r.ended.Add(1)
		go r.write(r.end)
	}
	return nil
}

// closeLocked closes the device and ends the writer.
func (r *Recorder) closeLocked() {
	if r.stream != nil {
		r.stream.Close()
		r.stream, r.ring, r.pre = nil, nil, nil
	}
	if r.end != nil && r.part == nil {
		close(r.end)
		r.end = nil
	}
}

// write drains the ring until end is closed.
func (r *Recorder) write(end chan struct{}) {
	defer r.ended.Done()
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		lost := false
		select {
		case <-end:
			return
		case <-r.wake:
			lost = true
		case <-t.C:
		}
		r.mu.Lock()
		if r.end == end { // otherwise the device was closed in the meantime
			r.drainLocked()
			switch {
			case lost:
				r.replaceLocked()
			case r.part != nil && !r.paused.IsZero() && r.stream != nil && !r.keep && time.Since(r.paused) > holdPaused:
				r.closeLocked()
			case r.part != nil && time.Since(r.space) > spaceEvery:
				r.checkSpaceLocked()
			}
		}
		r.mu.Unlock()
	}
}

// drainLocked processes the samples in the ring.
func (r *Recorder) drainLocked() {
	if r.ring == nil {
		return
	}
	switch {
	case r.part == nil:
		limit := int(MaxPreRoll.Seconds()) * r.stream.Rate()
		r.ring.read(func(p []float32) {
			if r.pre = append(r.pre, p...); len(r.pre) > 2*limit {
				r.pre = append(r.pre[:0], r.pre[len(r.pre)-limit:]...)
			}
		}, func(int) {})
		if len(r.pre) > limit {
			r.pre = append(r.pre[:0], r.pre[len(r.pre)-limit:]...)
		}
	case !r.paused.IsZero():
		r.ring.read(func([]float32) {}, func(int) {})
	default:
		r.ring.read(r.recordLocked, func(n int) {
			if r.part != nil {
				r.wroteLocked(r.part.missing(n))
			}
		})
	}
}

// recordLocked writes samples to the recording, and ends it at its limit.
func (r *Recorder) recordLocked(samples []float32) {
	for len(samples) > 0 && r.part != nil {
		limit := cmp.Or(min(r.p.Max, MaxLength), MaxLength)
		n := int(min(int64(len(samples)), int64(limit.Seconds()*float64(r.part.Rate))-r.part.samples))
		id := r.part.ID
		err := r.part.append(samples[:n])
		r.o.Samples(id, r.part.Rate, samples[:n])
		r.meter.write(samples[:n], r.part.DurationMs(), func(l Level) { r.o.Level(id, l) })
		samples = samples[n:]
		if !r.wroteLocked(err) || len(samples) == 0 && r.part.samples < int64(limit.Seconds()*float64(r.part.Rate)) {
			return
		}
		if r.p.Max > 0 && r.p.Max <= MaxLength {
			r.o.Notice(id, Limit, r.finishLocked())
			return
		}
		r.continueLocked()
	}
}

// continueLocked continues the recording in another one.
func (r *Recorder) continueLocked() {
	old := r.part
	next, err := createPart(r.o.Dir, Header{ID: r.p.Next(), Rate: old.Rate, StartedAt: time.Now(), Note: old.Note})
	if err != nil {
		r.wroteLocked(err)
		return
	}
	r.part = next
	if err := old.close(); err != nil {
		r.o.Logger.Error("close a recording", "id", old.ID, "err", err)
	}
	r.o.Notice(next.ID, Continued, old)
}

// wroteLocked ends the recording if a write failed.
func (r *Recorder) wroteLocked(err error) bool {
	if err == nil {
		return true
	}
	id := r.part.ID
	r.o.Logger.Error("write a recording", "id", id, "err", err)
	r.o.Notice(id, WriteFailed, r.finishLocked())
	return false
}

func (r *Recorder) checkSpaceLocked() {
	r.space = time.Now()
	free, err := r.o.Space()
	id := r.part.ID
	switch {
	case err != nil:
		r.o.Logger.Warn("free disk space", "err", err)
	case free < noSpace:
		r.o.Notice(id, NoSpace, r.finishLocked())
	case free < lowSpace && !r.warned:
		r.warned = true
		r.o.Notice(id, LowSpace, nil)
	}
}

// replaceLocked continues with the default device after the device was lost.
func (r *Recorder) replaceLocked() {
	if r.stream == nil {
		return
	}
	r.stream.Close()
	r.ring.flush()
	r.drainLocked()
	r.stream, r.ring, r.pre = nil, nil, nil
	err := r.openLocked("", 0)
	switch {
	case err == nil && r.part != nil:
		r.o.Notice(r.part.ID, DeviceChanged, nil)
	case err != nil && r.part != nil:
		r.o.Logger.Warn("the microphone was lost", "err", err)
		id := r.part.ID
		r.o.Notice(id, DeviceLost, r.finishLocked())
	case err != nil:
		r.closeLocked()
	}
}

// meter measures the level of each 50 ms.
type meter struct {
	block, n int
	peak     float32
	sum      float64
	run      int // samples in a row at full scale
	clipped  bool
	quiet    int // blocks
	last     Level
}

func newMeter(rate int) meter {
	return meter{block: rate / 20, last: Level{PeakDB: SilenceDB, RMSDB: SilenceDB}}
}

func decibels(x float64) float64 { return max(SilenceDB, 20*math.Log10(x)) }

func (m *meter) write(p []float32, elapsed int64, publish func(Level)) {
	for _, v := range p {
		a := max(v, -v)
		m.peak = max(m.peak, a)
		m.sum += float64(v) * float64(v)
		if a < clipLevel {
			m.run = 0
		} else if m.run++; m.run >= 3 {
			m.clipped = true
		}
		if m.n++; m.n < m.block {
			continue
		}
		l := Level{PeakDB: decibels(float64(m.peak)), RMSDB: decibels(math.Sqrt(m.sum / float64(m.n))), Clipped: m.clipped, ElapsedMs: elapsed}
		if m.quiet++; l.PeakDB >= quietDB {
			m.quiet = 0
		}
		l.Quiet = m.quiet >= int(quietAfter/tick)
		m.n, m.peak, m.sum, m.clipped, m.last = 0, 0, 0, false, l
		publish(l)
	}
}
