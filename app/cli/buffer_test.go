package cli

import (
	"bytes"
	"regexp"
	"sync"
	"testing"
	"time"
)

// lockedBuffer is written by a running command and read by its test.
type lockedBuffer struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	changed chan struct{}
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// wait returns the first match of re, or "" if there is none.
func (b *lockedBuffer) wait(t *testing.T, re *regexp.Regexp) string {
	t.Helper()
	limit := time.After(5 * time.Minute)
	for {
		b.mu.Lock()
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed, match := b.changed, re.FindString(b.buf.String())
		b.mu.Unlock()
		if match != "" {
			return match
		}
		select {
		case <-changed:
		case <-limit:
			return ""
		}
	}
}
