package gateway

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// outbox is the outgoing queue of one session. Responses are never dropped. Events are dropped if
// there are too many, and the client is told which. There is no writer goroutine while the queue is
// empty: a response is written by the goroutine of its call, an event by a goroutine that lives
// until the queue is empty.
type outbox struct {
	pipe      Pipe
	maxEvents int
	maxBytes  int
	blocked   time.Duration // a single write that takes longer closes the session
	fail      func(err error, stalled bool)
	makeGap   func(from, to uint64) []byte
	share     bool          // wait a moment for other senders before writing
	recycle   bool          // responses are not shared, so their memory can be reused
	room      chan struct{} // signaled when something was written
	mu        sync.Mutex
	q         []outItem
	bytes     int
	events    int
	gapFrom   uint64 // first and last event dropped since the last events.gap; 0: none
	gapTo     uint64
	writing   bool
	closed    bool
	stall     *time.Timer // used only by the writer
	frames    [][]byte    // used only by the writer
}

type outItem struct {
	frame []byte
	event bool
}

// maxWrite limits how many frames the writer takes from the queue at once.
const maxWrite = 64 // one bit each in drain

// send queues a response, and writes it unless another goroutine is writing.
func (o *outbox) send(frame []byte) {
	if frame == nil { // a batch of notifications has no answer
		return
	}
	if o.push(outItem{frame: frame}) {
		o.drain()
	}
}

// Limits on what later collects before it requests a writer.
const (
	laterFrames = 16
	laterBytes  = 16 << 10
)

// later queues a response without writing it, and reports whether the caller should call drain now;
// otherwise flushLater does so soon.
func (o *outbox) later(frame []byte) (writer bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || frame == nil {
		return false
	}
	o.appendLocked(outItem{frame: frame})
	if o.writing || (len(o.q) < laterFrames && o.bytes < laterBytes) {
		return false
	}
	o.writing = true
	return true
}

// flushLater reports whether frames are queued that no one is writing; the caller must then call
// drain.
func (o *outbox) flushLater() (writer bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.writing || len(o.q) == 0 {
		return false
	}
	o.writing = true
	return true
}

// push appends to the queue and reports whether the caller is now the writer.
func (o *outbox) push(it outItem) (writer bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return false
	}
	o.appendLocked(it)
	writer, o.writing = !o.writing, true
	return writer
}

func (o *outbox) appendLocked(it outItem) {
	o.q = append(o.q, it)
	o.bytes += len(it.frame)
	if it.event {
		o.events++
	}
}

// event queues an event, or drops and counts it if the queue is full. It never blocks.
func (o *outbox) event(seq uint64, frame []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	if o.fullLocked(frame) {
		if o.gapFrom == 0 {
			o.gapFrom = seq
		}
		o.gapTo = seq
		return
	}
	o.eventLocked(frame)
}

// transient queues an event that may be dropped.
func (o *outbox) transient(frame []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed && !o.fullLocked(frame) {
		o.eventLocked(frame)
	}
}

// fullLocked reports whether the queue has no room for an event.
func (o *outbox) fullLocked(frame []byte) bool {
	return o.gapFrom != 0 || o.events >= o.maxEvents || o.bytes+len(frame) > o.maxBytes
}

// eventLocked queues an event and starts writing.
func (o *outbox) eventLocked(frame []byte) {
	o.appendLocked(outItem{frame, true})
	if !o.writing {
		o.writing = true
		go o.drain()
	}
}

// roomFor returns how many more events fit now.
func (o *outbox) roomFor() (events, bytes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.maxEvents - o.events, o.maxBytes - o.bytes
}

// dropEvents discards the queued events and the gap: a resume will send them again.
func (o *outbox) dropEvents() {
	o.mu.Lock()
	defer o.mu.Unlock()
	kept := o.q[:0]
	for _, it := range o.q {
		if it.event {
			o.bytes -= len(it.frame)
			o.events--
			continue
		}
		kept = append(kept, it)
	}
	o.q, o.gapFrom, o.gapTo = kept, 0, 0
}

// close discards the queue. Later frames are ignored.
func (o *outbox) close() {
	o.mu.Lock()
	o.closed, o.q, o.bytes, o.events = true, nil, 0, 0
	o.mu.Unlock()
}

// idle reports whether everything queued has been written.
func (o *outbox) idle() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed || (len(o.q) == 0 && !o.writing)
}

func (o *outbox) drain() {
	if o.share {
		runtime.Gosched() // let others that are about to send share the write
	}
	for {
		o.mu.Lock()
		if o.gapFrom != 0 && o.events <= o.maxEvents/2 && o.bytes <= o.maxBytes/2 {
			gap := o.makeGap(o.gapFrom, o.gapTo)
			o.gapFrom, o.gapTo = 0, 0
			o.appendLocked(outItem{gap, true})
		}
		n := min(len(o.q), maxWrite)
		if n == 0 || o.closed {
			if o.stall != nil {
				o.stall.Stop()
			}
			o.writing = false
			o.mu.Unlock()
			return
		}
		frames := o.frames[:0]
		bytes, events := 0, 0
		var shared uint64 // which of the frames are events
		for i, it := range o.q[:n] {
			frames = append(frames, it.frame)
			bytes += len(it.frame)
			if it.event {
				events++
				shared |= 1 << i
			}
		}
		rest := copy(o.q, o.q[n:])
		clear(o.q[rest:])
		o.q = o.q[:rest]
		o.mu.Unlock()

		if o.stall == nil {
			o.stall = time.AfterFunc(o.blocked, func() { o.fail(context.DeadlineExceeded, true) })
		} else {
			o.stall.Reset(o.blocked)
		}
		err := o.write(frames)
		for i, f := range frames {
			if o.recycle && shared&(1<<i) == 0 {
				recycle(f)
			}
			frames[i] = nil
		}
		o.frames = frames[:0]
		if err != nil {
			o.stall.Stop()
			o.close()
			o.fail(err, false)
			return
		}
		o.mu.Lock()
		if !o.closed {
			o.bytes -= bytes
			o.events -= events
		}
		o.mu.Unlock()
		select {
		case o.room <- struct{}{}:
		default:
		}
	}
}

func (o *outbox) write(frames [][]byte) error {
	ctx := context.Background() // the write ends when the pipe is closed
	if b, ok := o.pipe.(batchWriter); ok && len(frames) > 1 {
		return b.WriteBatch(ctx, frames)
	}
	for _, f := range frames {
		if err := o.pipe.Write(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// replay queues an event without checking the limits: the caller must have called roomFor.
func (o *outbox) replay(frame []byte) {
	if o.push(outItem{frame, true}) {
		go o.drain()
	}
}

// dropped records events that will not be sent.
func (o *outbox) dropped(from, to uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || from > to {
		return
	}
	if o.gapFrom == 0 {
		o.gapFrom = from
	}
	o.gapTo = to
	if !o.writing {
		o.writing = true
		go o.drain()
	}
}

// flush waits until the queue has been written, for at most d.
func (o *outbox) flush(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	for !o.idle() {
		select {
		case <-o.room:
		case <-time.After(5 * time.Millisecond): // the writer signals room before it becomes idle
		case <-t.C:
			return
		}
	}
}
