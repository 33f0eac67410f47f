//go:build linux

// Package containertest starts real container engines for tests and benchmarks. It needs root and the packages podman,
// runc, docker.io and busybox-static. Only tests and benchmarks may import it.
package containertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Kinds are the engines that Start knows.
var Kinds = []string{"docker", "podman"}

// Engine is a running engine with a folder of its own.
type Engine struct {
	Kind, Socket string

	dir   string
	cmd   *exec.Cmd
	ended chan error
}

// Args returns the arguments by which the podman command uses the storage of the engine.
func (e *Engine) Args() []string { return podmanArgs(e.dir) }

func podmanArgs(dir string) []string {
	return []string{"--runtime", "runc", "--cgroup-manager", "cgroupfs", "--storage-driver", "vfs",
		"--root", filepath.Join(dir, "root"), "--runroot", filepath.Join(dir, "run"), "--tmpdir", filepath.Join(dir, "tmp")}
}

// Start starts podman or dockerd and waits until it answers.
func Start(kind string) (*Engine, error) {
	dir, err := os.MkdirTemp("", "helix-"+kind)
	if err != nil {
		return nil, err
	}
	e := &Engine{Kind: kind, Socket: filepath.Join(dir, "engine.sock"), dir: dir, ended: make(chan error, 1)}
	switch kind {
	case "podman":
		e.cmd = exec.Command("podman", append(podmanArgs(dir), "system", "service", "--time", "0", "unix://"+e.Socket)...)
	case "docker":
		e.cmd = exec.Command("dockerd", "--host", "unix://"+e.Socket, "--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"),
			"--pidfile", filepath.Join(dir, "pid"), "--iptables=false", "--ip6tables=false", "--bridge=none")
	default:
		return nil, fmt.Errorf("no engine is called %s", kind)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	e.cmd.Stdout, e.cmd.Stderr, e.cmd.Dir = log, log, dir // conmon writes where it is started
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := e.cmd.Start(); err != nil {
		os.RemoveAll(dir) //nolint:errcheck // a temporary folder
		return nil, err
	}
	go func() { e.ended <- e.cmd.Wait() }()
	for limit := time.After(2 * time.Minute); ; {
		if e.answers() { // Podman's first answer takes long
			return e, nil
		}
		select {
		case err := <-e.ended:
			e.ended <- err
			out, _ := os.ReadFile(log.Name()) //nolint:errcheck // it says less then
			e.Stop()
			return nil, fmt.Errorf("%s ended: %w\n%s", kind, err, out)
		case <-limit:
			e.Stop()
			return nil, errors.New(kind + " did not start")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (e *Engine) answers() bool {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", e.Socket)
	}}}
	resp, err := client.Get("http://engine/version")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Kill ends the engine as a crash would. Its containers stay.
func (e *Engine) Kill() {
	e.cmd.Process.Kill() //nolint:errcheck // it has ended already
	err := <-e.ended
	e.ended <- err
}

// stopTime is how long an engine may take to end before it is killed.
const stopTime = 30 * time.Second

// Stop ends the engine with everything that it started, and removes its folder.
func (e *Engine) Stop() {
	e.cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it has ended already
	select {
	case err := <-e.ended:
		e.ended <- err
	case <-time.After(stopTime):
		e.Kill()
	}
	e.killRest()
	if mounts, err := os.ReadFile("/proc/mounts"); err == nil {
		for line := range strings.Lines(string(mounts)) {
			if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], e.dir+"/") {
				syscall.Unmount(f[1], syscall.MNT_DETACH) //nolint:errcheck // the folder stays then
			}
		}
	}
	os.RemoveAll(e.dir) //nolint:errcheck // a temporary folder
}

// killRest ends what an engine that was killed left running: the processes whose command names its folder.
func (e *Engine) killRest() {
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return
	}
	for _, path := range lines {
		raw, err := os.ReadFile(path)
		pid, perr := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && perr == nil && pid != os.Getpid() && strings.Contains(string(raw), e.dir+"/") {
			syscall.Kill(pid, syscall.SIGKILL) //nolint:errcheck // it has ended then
		}
	}
}

// Busybox fills a folder with a static busybox and links of its commands, for ImportImage.
func Busybox(dir string) error {
	for _, d := range []string{"bin", "tmp", "etc", "proc", "dev", "sys", "data"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil { //nolint:gosec // an image
			return err
		}
	}
	raw, err := os.ReadFile("/bin/busybox")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "bin/busybox"), raw, 0o755); err != nil { //nolint:gosec // an image
		return err
	}
	for _, name := range strings.Fields("sh cat echo sleep id env ls grep dd head wc mkdir touch true false ps kill setsid nc wget ip mount printf yes awk tr seq chmod ln rm") {
		if err := os.Symlink("busybox", filepath.Join(dir, "bin", name)); err != nil {
			return err
		}
	}
	return nil
}
