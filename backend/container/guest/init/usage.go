//go:build linux

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"helix/backend/container/guest"
)

// How often memory and stored data are measured.
const (
	sampleEvery  = 50 * time.Millisecond
	measureEvery = 250 * time.Millisecond
)

// samples are the measurements of a program.
type samples struct {
	peak  int64
	count int
}

// sample measures until the program ends, and ends it if it stores too much.
func (i *initProcess) sample(p *program) {
	t := time.NewTicker(sampleEvery)
	defer t.Stop()
	measured := time.Now()
	for {
		p.sampled.peak = max(p.sampled.peak, resident())
		p.sampled.count++
		if p.start.DataBytes > 0 && time.Since(measured) >= measureEvery {
			if allocated(guest.DataPath) > p.start.DataBytes {
				i.kill(p, guest.EndedByStorage)
			}
			measured = time.Now()
		}
		select {
		case <-p.done:
			return
		case <-t.C:
		}
	}
}

// resident returns the memory of all other processes of the container.
func resident() int64 {
	dir, err := os.Open("/proc")
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0
	}
	var pages int64
	self := strconv.Itoa(os.Getpid())
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' || name == self {
			continue
		}
		if f := strings.Fields(read("/proc/" + name + "/statm")); len(f) > 1 {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			pages += n
		}
	}
	return pages * int64(os.Getpagesize())
}

// allocated returns the size of the blocks of the files in a folder. A file with several links counts once. Folders
// that were made unreadable are made readable: they belong to the same user.
func allocated(root string) int64 {
	var total int64
	seen := map[uint64]bool{}
	visit := func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what can't be read is left out
		}
		if d.IsDir() {
			if info, err := d.Info(); err == nil && info.Mode()&0o700 != 0o700 {
				os.Chmod(path, info.Mode()|0o700) //nolint:errcheck // it is left out then
			}
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // it was removed meanwhile
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && !seen[st.Ino] {
			seen[st.Ino] = true
			total += st.Blocks * 512
		}
		return nil
	}
	filepath.WalkDir(root, visit) //nolint:errcheck // visit returns no error
	return total
}
