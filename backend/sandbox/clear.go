package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ClearCache deletes the compiled code that is kept between starts. Runs continue; code that is
// needed again is compiled again.
func (e *Engine) ClearCache() error {
	e.ready()
	d := e.cache
	if d == nil || d.root == "" {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	files, _ := d.list()
	for _, f := range files {
		if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &Error{Class: ClassUnavailable, Message: "A cached file cannot be deleted.", Err: fmt.Errorf("clear the cache: %w", err)}
		}
	}
	return nil
}
