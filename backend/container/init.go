package container

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"helix/backend/container/guest"
	"helix/backend/fault"
)

// initMissing is why no container can be used in a build without the init process.
var initMissing = Reason{InitMissing, "This build has no init process for containers.", "Build it with: make engines"}

// initFile returns the path of the init process on this computer. It is written when it is first needed, and
// again if it was removed or its content is not what is embedded.
func (e *Engine) initFile() (string, error) {
	e.files.Lock()
	defer e.files.Unlock()
	if _, err := os.Stat(e.init); e.init != "" && err == nil {
		return e.init, nil
	}
	artefacts := path.Join("artefacts", runtime.GOARCH)
	want, err := embedded.ReadFile(path.Join(artefacts, "init.sha256"))
	if err != nil {
		return "", unavailable(initMissing).WithCause(err)
	}
	folder, err := e.folder(&e.o.Dir)
	if err != nil {
		return "", err
	}
	sum := strings.TrimSpace(string(want))
	file := filepath.Join(folder, "init-"+sum[:min(len(sum), 16)])
	if there, err := os.ReadFile(file); err == nil && sumOf(there) == sum {
		e.init = file
		return file, nil
	}
	packed, err := embedded.ReadFile(path.Join(artefacts, "init.gz"))
	if err != nil {
		return "", unavailable(initMissing).WithCause(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", err
	}
	program, err := io.ReadAll(z)
	if err != nil {
		return "", err
	}
	if sumOf(program) != sum {
		return "", unavailable(initMissing)
	}
	t, err := os.CreateTemp(folder, "init-*.tmp")
	if err != nil {
		return "", err
	}
	defer os.Remove(t.Name()) // after a failure
	_, err = t.Write(program)
	if err = errors.Join(err, t.Chmod(0o755), t.Close()); err == nil {
		err = os.Rename(t.Name(), file)
	}
	if err == nil {
		e.init = file
	}
	return file, err
}

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// folder returns *dir, which only this user can enter, and creates it. Without a name it is temporary.
func (e *Engine) folder(dir *string) (string, error) {
	if *dir == "" {
		made, err := os.MkdirTemp("", "helix-c")
		if err != nil {
			return "", err
		}
		*dir = made
		e.temporary = append(e.temporary, made)
	}
	return *dir, os.MkdirAll(*dir, 0o700)
}

// socketFolder creates the folder of a run's socket.
func (e *Engine) socketFolder() (string, error) {
	e.files.Lock()
	defer e.files.Unlock()
	parent, err := e.folder(&e.o.Runtime)
	if err != nil {
		return "", err
	}
	const longest = 80 // the path of a socket has at most 104 bytes on some systems
	if len(parent) > longest {
		e.o.Runtime = ""
		if parent, err = e.folder(&e.o.Runtime); err != nil {
			return "", err
		}
	}
	return os.MkdirTemp(parent, "c")
}

// mismatch returns the first field in which a container is less isolated than was asked; "": none. What the
// kernel does not say is left to what the engine says.
func mismatch(r *guest.Report, want *createBody) string {
	if r.Version != guest.Version {
		return "version"
	}
	h := &want.HostConfig
	uid, gid, _ := strings.Cut(want.User, ":")
	limit := func(name string) int64 {
		for _, u := range h.Ulimits {
			if u.Name == name {
				return u.Hard
			}
		}
		return -1
	}
	const zero = "0000000000000000"
	for _, f := range []struct {
		name string
		ok   bool
	}{
		{"pid", r.PID == 1},
		{"uid", strconv.Itoa(r.UID) == uid},
		{"gid", strconv.Itoa(r.GID) == gid},
		{"capEff", r.CapEff == capabilities(h.CapAdd)},
		{"capBnd", r.CapBnd == zero || len(h.CapAdd) > 0},
		{"noNewPrivs", r.NoNewPrivs == 1},
		{"seccomp", r.Seccomp == 2},
		{"rootMount", slices.Contains(strings.Split(r.RootMount, ","), "ro")},
		{"interfaces", len(r.Interfaces) == 0 || len(r.Interfaces) == 1 && r.Interfaces[0] == "lo"},
		{"noFile", r.NoFile == limit("nofile")},
		{"core", r.Core == limit("core")},
		{"fileSize", r.FileSize == limit("fsize")},
		{"memory", r.Memory < 0 || r.Memory > 0 && r.Memory <= h.Memory},
		{"swap", r.Swap <= 0},
		{"pids", r.Pids < 0 || r.Pids == h.PidsLimit},
		{"cpu", r.CPUPercent < 0 || r.CPUPercent == h.CPUQuota*100/h.CPUPeriod},
	} {
		if !f.ok {
			return f.name
		}
	}
	return ""
}

func errMismatch(field string) error {
	return fault.Unavailablef("The container is less isolated than asked: %s. The program was not started.", field).
		WithDetails(map[string]string{"code": "hardening_mismatch", "field": field})
}

// capabilities returns the hexadecimal set of the named capabilities, as the kernel writes it.
func capabilities(names []string) string {
	bits := uint64(0)
	for _, n := range names {
		bits |= map[string]uint64{"CHOWN": 1 << 0, "FOWNER": 1 << 3}[n]
	}
	return fmt.Sprintf("%016x", bits)
}
