package backend

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/storage"
)

// smallDisk mounts a disk of size MiB on a new folder, which requires root.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: mounting a small disk needs root")
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", size)); err != nil {
		t.Skip("SKIPPED: mounting a small disk:", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// used creates a data folder with one memory in it, after a clean stop.
func used(t *testing.T, dir string) {
	t.Helper()
	b, ended := startIn(t, dir)
	b.session(t).call("memory.add", map[string]any{"content": "The boiler is serviced in May."}, nil)
	if err := errors.Join(b.Close(), <-ended); err != nil {
		t.Fatal(err)
	}
}

// fill leaves no byte free.
func fill(t *testing.T, dir string) (ballast string) {
	t.Helper()
	ballast = filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1 << 20, 4 << 10, 1} {
		for err == nil {
			_, err = f.Write(make([]byte, size))
		}
		err = nil
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return ballast
}

// readable checks a backend that started read-only: memories can be read, writes are refused with
// reason, and system.status reports why.
func readable(t *testing.T, b *Backend, kind fault.Kind, reason string) {
	t.Helper()
	s := b.session(t)
	var list struct{ Total int }
	s.call("memory.list", none{}, &list)
	if list.Total != 1 {
		t.Errorf("%d memories", list.Total)
	}
	if err := s.try("memory.add", map[string]any{"content": "The lease ends in June."}, nil); fault.KindOf(err) != kind || !strings.Contains(fault.As(err).Message, reason) {
		t.Errorf("write: %v", err)
	}
	degraded(t, s, "storage", reason)
}

func degraded(t *testing.T, s *remote, area, reason string) {
	t.Helper()
	var st gateway.SystemStatus
	s.call("system.status", none{}, &st)
	for _, d := range st.Degraded {
		if d.Area == area && strings.Contains(d.Reason, reason) {
			return
		}
	}
	t.Errorf("system.status does not say %q: %+v", reason, st.Degraded)
}

func TestStartOnAFullDiskIsReadOnly(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, 96)
	used(t, dir)
	fill(t, dir)
	b := startWith(t, testOptions(dir))
	readable(t, b, fault.Limit, "disk is full")
}

func TestStartInAReadOnlyFolderNamesIt(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, 96)
	used(t, dir)
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Skip("SKIPPED: remounting:", err)
	}
	b := startWith(t, testOptions(dir))
	readable(t, b, fault.Unavailable, "read-only")
}

// A damaged WAL with committed changes starts recovery mode, and the endpoint works.
func TestStartWithADamagedWALIsRecoveryMode(t *testing.T) {
	t.Parallel()
	from, dir := t.TempDir(), t.TempDir()
	b := startWith(t, testOptions(from))
	b.session(t).call("memory.add", map[string]any{"content": "The boiler is serviced in May."}, nil)
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil { // as a crash leaves it
		t.Fatal(err)
	}
	wal := strings.Replace(b.Config.Paths().Database(), from, dir, 1) + "-wal"
	text, err := os.ReadFile(wal)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(wal, bytes.Replace(text, text[40:60], make([]byte, 20), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startWith(t, testOptions(dir))
	s := c.session(t)
	var st storage.StatusResult
	s.call("storage.status", none{}, &st)
	if st.Recovery == nil || st.Recovery.Reason != "corrupt" || !strings.Contains(strings.Join(st.Recovery.Problems, " "), "WAL") {
		t.Errorf("%+v", st.Recovery)
	}
	degraded(t, s, "database", "damaged")
}

// If the head of the audit log exists, a deleted database is not a first start.
func TestDeletedDatabaseIsNoticedByTheAuditHead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, ended := startIn(t, dir)
	paths := b.Config.Paths()
	if err := errors.Join(b.Close(), <-ended); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(auditHead(paths), nil, 0o600); err != nil { // as after the first segment
		t.Fatal(err)
	}
	if err := os.Remove(paths.Database()); err != nil {
		t.Fatal(err)
	}
	b = startWith(t, testOptions(dir))
	s := b.session(t)
	degraded(t, s, "database", "missing")
	if err := s.try("memory.list", none{}, nil); fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.As(err).Message, "missing") {
		t.Errorf("%v", err)
	}
	s.call("storage.start_new", none{}, nil)
	if b.DB.Recovery() != nil {
		t.Errorf("%+v", b.DB.Recovery())
	}
	b.session(t).call("memory.list", none{}, nil)
}
