package footprint

import (
	"bufio"
	"debug/elf"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// smallest is the size of the smallest library whose pages are unmapped.
const smallest = 4 << 20

// permanent remembers, by path, whether a file stays mapped until the process ends.
var permanent sync.Map

// unmapProgram removes the pages of the program and of large libraries from the process's page
// table. It does so only where no page was written to, so that each access finds the same bytes
// again, and only in files that stay mapped: the addresses of others may have another use by now.
func unmapProgram() {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer f.Close() //nolint:errcheck // only read
	exe, _ := os.Readlink("/proc/self/exe")
	var m mapping
	for s := bufio.NewScanner(f); s.Scan(); {
		line := s.Text()
		if next, ok := parseMapping(line); ok {
			m = next
			continue
		}
		// The first line of a mapping is its addresses; this is one of the last.
		if kB, ok := strings.CutPrefix(line, "Anonymous:"); !ok || strings.TrimSpace(kB) != "0 kB" {
			continue
		}
		if m.path == exe || m.end-m.start >= smallest && staysMapped(m.path) {
			m.unmap()
		}
	}
}

// mapping is a read-only part of a file in memory.
type mapping struct {
	start, end uintptr
	path       string
}

// parseMapping reads the first line of a mapping in smaps. Of one that can be written to, or is not
// part of a file, it returns the zero value.
func parseMapping(line string) (m mapping, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 5 {
		return m, false
	}
	from, to, ok := strings.Cut(fields[0], "-")
	if !ok {
		return m, false
	}
	start, err := strconv.ParseUint(from, 16, 64)
	if err != nil {
		return m, false
	}
	end, err := strconv.ParseUint(to, 16, 64)
	if err != nil {
		return m, false
	}
	if p := fields[1]; len(fields) == 6 && (p == "r-xp" || p == "r--p") && strings.HasPrefix(fields[5], "/") {
		m = mapping{uintptr(start), uintptr(end), fields[5]}
	}
	return m, true
}

// unmap is without effect if the system refuses it.
func (m mapping) unmap() {
	if m.end <= m.start {
		return
	}
	// The address is that of a mapping, not of a Go object.
	at := *(*unsafe.Pointer)(unsafe.Pointer(&m.start))
	_ = unix.Madvise(unsafe.Slice((*byte)(at), m.end-m.start), unix.MADV_DONTNEED)
}

// staysMapped reports whether a library is never unloaded: the program was linked with it, or it
// says so itself.
func staysMapped(path string) bool {
	for _, name := range linked() {
		if strings.HasPrefix(filepath.Base(path), name) {
			return true
		}
	}
	if known, ok := permanent.Load(path); ok {
		return known.(bool)
	}
	stays := false
	if f, err := elf.Open(path); err == nil {
		flags, err := f.DynValue(elf.DT_FLAGS_1)
		stays = err == nil && len(flags) > 0 && elf.DynFlag1(flags[0])&elf.DF_1_NODELETE != 0
		_ = f.Close()
	}
	permanent.Store(path, stays)
	return stays
}

// linked returns the names of the libraries that the program was linked with, without the end of
// their versions.
var linked = sync.OnceValue(func() []string {
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		return nil
	}
	defer f.Close()                   //nolint:errcheck // only read
	names, _ := f.ImportedLibraries() // a static program has none
	return names
})
