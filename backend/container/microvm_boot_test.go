//go:build microvm

package container

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helix/backend/container/guest"
)

// archive writes files in the format of an initial file system of Linux, cpio in its new ASCII form. A name that
// ends with a slash is a folder.
func archive(names []string, content map[string][]byte) []byte {
	var b bytes.Buffer
	add := func(inode int, name string, mode int, data []byte) {
		fmt.Fprintf(&b, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00", inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0, name)
		b.Write(make([]byte, -b.Len()&3))
		b.Write(data)
		b.Write(make([]byte, -b.Len()&3))
	}
	for i, name := range names {
		if folder, ok := strings.CutSuffix(name, "/"); ok {
			add(i+1, folder, 0o040755, nil)
		} else {
			add(i+1, name, 0o100755, content[name])
		}
	}
	add(0, "TRAILER!!!", 0, nil)
	return b.Bytes()
}

// HELIX_KERNEL is a kernel for amd64. QEMU emulates the processor, so this needs no KVM. Without ACPI the kernel finds the timer.
func TestKernelStartsTheInitProcess(t *testing.T) {
	e := Open(Options{Dir: t.TempDir()})
	t.Cleanup(func() { e.Close() })
	path, err := e.initFile()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files := filepath.Join(t.TempDir(), "initrd")
	if err := os.WriteFile(files, archive([]string{"proc/", ".helix/", guest.InitPath[1:]}, map[string][]byte{guest.InitPath[1:]: program}), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	began := time.Now()
	out, err := exec.CommandContext(ctx, "qemu-system-x86_64", "-M", "microvm,acpi=off,rtc=on", "-accel", "tcg", "-cpu", "max", "-m", "256", "-nodefaults", "-no-user-config",
		"-nographic", "-no-reboot", "-serial", "stdio", "-kernel", os.Getenv("HELIX_KERNEL"), "-initrd", files,
		"-append", "console=ttyS0 reboot=t panic=-1 quiet rdinit="+guest.InitPath+" -- "+guest.BootArg).CombinedOutput()
	_, text, ready := strings.Cut(string(out), guest.Ready+" ")
	if err != nil || !ready {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("the guest was ready and ended within %s", time.Since(began).Round(100*time.Millisecond))
	var r guest.Report
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&r); err != nil || r.PID != 1 || r.Version != guest.Version || r.UID != 0 || r.Seccomp != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}
