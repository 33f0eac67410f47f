package sandbox

import (
	"encoding/binary"
	"math"
	"time"
)

// The sizes of the structures that poll_oneoff reads and writes.
const (
	subscriptionSize = 48
	eventSize        = 32
	maxSubscriptions = 1024
)

// The types of subscriptions.
const (
	pollClock = iota
	pollRead
	pollWrite
)

// poll waits for the first of several events. Input and output are always ready, so it only waits
// for clocks; the wait counts against the run's wall time.
func (w *moduleRun) poll(m guestMemory, p []uint64) errno {
	n := uint32(p[2])
	if n == 0 || n > maxSubscriptions {
		return errnoInval
	}
	in, ok := m.Read(uint32(p[0]), n*subscriptionSize)
	if !ok {
		return errnoFault
	}
	if _, ok := m.Read(uint32(p[1]), n*eventSize); !ok {
		return errnoFault
	}
	if _, ok := m.Read(uint32(p[3]), 4); !ok {
		return errnoFault
	}
	w.work(32 * int(n))
	subs := append([]byte(nil), in...) // the events may overwrite them
	ready := make([]byte, 0, n*eventSize)
	first := time.Duration(math.MaxInt64)
	var waits []time.Duration // for the clocks, in order
	for s := subs; len(s) > 0; s = s[subscriptionSize:] {
		switch s[8] {
		case pollClock:
			d, e := w.wait(s)
			if e != errnoOK {
				return e
			}
			first = min(first, d)
			waits = append(waits, d)
		case pollRead, pollWrite:
			ready = append(ready, w.readyEvent(s)...)
		default:
			return errnoInval
		}
	}
	if len(ready) == 0 {
		w.sleep(first)
		for i, d := range waits { // here all are clocks
			if d <= first {
				ready = append(ready, event(subs[i*subscriptionSize:], errnoOK)...)
			}
		}
	}
	m.Write(uint32(p[1]), ready)
	return m.put32(p[3], uint32(len(ready)/eventSize))
}

// wait returns the time until a clock subscription is due.
func (w *moduleRun) wait(s []byte) (time.Duration, errno) {
	const absolute = 1
	now, ok := w.clock(binary.LittleEndian.Uint32(s[16:]))
	if !ok {
		return 0, errnoInval
	}
	at := binary.LittleEndian.Uint64(s[24:])
	switch binary.LittleEndian.Uint16(s[40:]) {
	case 0:
	case absolute:
		at -= min(at, uint64(now))
	default:
		return 0, errnoInval
	}
	return time.Duration(min(at, math.MaxInt64)), errnoOK
}

func (w *moduleRun) readyEvent(s []byte) []byte {
	f := w.files.get(binary.LittleEndian.Uint32(s[16:]))
	if f == nil {
		return event(s, errnoBadf)
	}
	ev := event(s, errnoOK)
	if s[8] == pollRead {
		binary.LittleEndian.PutUint64(ev[16:], uint64(f.rest()))
	}
	return ev
}

// event encodes the event for a subscription.
func event(s []byte, e errno) []byte {
	ev := make([]byte, eventSize)
	copy(ev, s[:8])
	binary.LittleEndian.PutUint16(ev[8:], uint16(e))
	ev[10] = s[8]
	return ev
}
