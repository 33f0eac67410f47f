package container

import (
	"fmt"
	"sync"
)

// keptEnd is how much of the end of an output is kept that was too large.
const keptEnd = 8 << 10

// window keeps the beginning and the end of what is written to it.
type window struct {
	head, tail int // bytes kept of each

	mu    sync.Mutex
	first []byte
	last  []byte
	total int64
}

// Write implements io.Writer. It never fails.
func (w *window) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(b)
	w.total += int64(n)
	if free := w.head - len(w.first); free > 0 {
		k := min(free, len(b))
		w.first, b = append(w.first, b[:k]...), b[k:]
	}
	w.last = append(w.last, b...)
	if len(w.last) > 2*w.tail { // dropped in large pieces, so that small writes stay cheap
		w.last = append(w.last[:0], w.last[len(w.last)-w.tail:]...)
	}
	return n, nil
}

// cut reports whether more was written than is kept.
func (w *window) cut() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total > int64(w.head+w.tail)
}

// bytes returns the kept bytes. A line marks where others were left out.
func (w *window) bytes() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.last
	if len(last) > w.tail {
		last = last[len(last)-w.tail:]
	}
	out := append([]byte{}, w.first...)
	if omitted := w.total - int64(len(w.first)+len(last)); omitted > 0 && w.head > 0 {
		out = fmt.Appendf(out, "\n… %d bytes omitted …\n", omitted)
	}
	return append(out, last...)
}

func clip(s string, most int) string {
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
