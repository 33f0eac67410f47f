//go:build containers

package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// started is an engine that the tests started, in a folder of its own.
type started struct {
	kind, socket, dir string
	cmd               *exec.Cmd
}

// startEngine starts podman or dockerd and waits until it answers.
func startEngine(kind string) (*started, error) {
	dir, err := os.MkdirTemp("", "helix-"+kind)
	if err != nil {
		return nil, err
	}
	s := &started{kind: kind, socket: filepath.Join(dir, "engine.sock"), dir: dir}
	switch kind {
	case "podman":
		s.cmd = exec.Command("podman", "--runtime", "runc", "--cgroup-manager", "cgroupfs", "--storage-driver", "vfs",
			"--root", filepath.Join(dir, "root"), "--runroot", filepath.Join(dir, "run"), "--tmpdir", filepath.Join(dir, "tmp"),
			"system", "service", "--time", "0", "unix://"+s.socket)
	case "docker":
		s.cmd = exec.Command("dockerd", "--host", "unix://"+s.socket, "--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"),
			"--pidfile", filepath.Join(dir, "pid"), "--iptables=false", "--ip6tables=false", "--bridge=none")
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.Dir = log, log, dir // conmon writes where it is started
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- s.cmd.Wait() }()
	c := newClient(s.socket)
	defer c.close()
	for limit := time.After(2 * time.Minute); ; {
		if err := c.call(context.Background(), "GET", "/version", nil, nil, nil); err == nil { // Podman's first answer takes long
			s.cmd.Cancel = func() error {
				err := s.cmd.Process.Signal(syscall.SIGTERM)
				<-ended
				return err
			}
			return s, nil
		}
		select {
		case err := <-ended:
			out, _ := os.ReadFile(log.Name())
			return nil, fmt.Errorf("%s ended: %w\n%s", kind, err, out)
		case <-limit:
			return nil, errors.New(kind + " did not start")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *started) stop() {
	s.cmd.Cancel()          //nolint:errcheck // it has ended already
	if s.kind == "podman" { // what an overlay or a container left mounted
		exec.Command("umount", "-R", filepath.Join(s.dir, "root", "vfs")).Run() //nolint:errcheck // it may not be mounted
	}
	os.RemoveAll(s.dir) //nolint:errcheck // a temporary folder
}

var engines []*started

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		runChild()
		return
	}
	code := 1
	func() {
		for _, kind := range []string{"docker", "podman"} {
			s, err := startEngine(kind)
			if err != nil {
				fmt.Println(err)
				return
			}
			defer s.stop()
			engines = append(engines, s)
		}
		code = m.Run()
	}()
	os.Exit(code)
}
