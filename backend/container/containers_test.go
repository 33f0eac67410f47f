//go:build containers

package container

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/container/containertest"
	"helix/backend/container/guest"
	"helix/backend/fault"
	"helix/backend/testkit"
)

const childEnv = "HELIX_CONTAINER_CHILD"

// busybox makes a folder with a static busybox and its links.
func busybox(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := containertest.Busybox(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// each runs fn with every engine, reached in both ways, and an image with busybox.
func each(t *testing.T, fn func(t *testing.T, e *Engine, image Image)) {
	for _, s := range engines {
		for _, transport := range []string{guest.SocketArg, guest.AttachArg} {
			t.Run(s.Kind+" "+transport, func(t *testing.T) {
				e := openOn(t, s, t.TempDir())
				e.o.Transport = transport
				image, err := e.ImportImage(t.Context(), busybox(t), "busybox")
				if err != nil {
					t.Fatal(err)
				}
				fn(t, e, image)
				if left, err := e.Reap(t.Context()); err != nil || len(left) > 0 {
					t.Errorf("left over: %v, %v", left, err)
				}
			})
		}
	}
}

func openOn(t testing.TB, s *containertest.Engine, owner string) *Engine {
	t.Helper()
	e := Open(Options{Owner: owner, Host: "unix://" + s.Socket})
	t.Cleanup(func() { e.Close() })
	return e
}

func sh(image Image, script string) Spec {
	return Spec{ImageID: image.ID, Argv: []string{"/bin/sh", "-c", script}, RunID: uuid.New(), Limits: Limits{Wall: 5 * time.Minute}}
}

func execute(t *testing.T, e *Engine, s Spec) Result {
	t.Helper()
	r, err := e.Execute(t.Context(), s)
	if err != nil {
		t.Fatalf("%+v: %v", fault.As(err), err)
	}
	return r
}

func TestStatusNamesTheEngine(t *testing.T) {
	each(t, func(t *testing.T, e *Engine, _ Image) {
		s := e.Status()
		if s.Engine == nil || !s.Tiers[1].Available || s.Engine.Version == "" {
			t.Fatalf("%+v", s)
		}
		t.Logf("%+v, %+v", *s.Engine, s.Tiers)
	})
}

func TestRunsReturnOutputAndExitCode(t *testing.T) {
	each(t, func(t *testing.T, e *Engine, image Image) {
		s := sh(image, `cat; echo problem >&2; exit 3`)
		s.Input = []byte(`{"a":1}`)
		r := execute(t, e, s)
		if string(r.Stdout) != `{"a":1}` || string(r.StderrTail) != "problem\n" || r.ExitCode != 3 || r.Outcome != Failure {
			t.Errorf("%s, %s, %+v", r.Stdout, r.StderrTail, r)
		}
		s = Spec{ImageID: image.ID, Argv: []string{"/bin/echo", "a b", `"$HOME"`, "", "ü"}, RunID: uuid.New()}
		if r = execute(t, e, s); string(r.Stdout) != "a b \"$HOME\"  ü\n" || r.Outcome != Success {
			t.Errorf("%s, %+v", r.Stdout, r)
		}
		s = sh(image, "cat")
		s.Input = bytes.Repeat([]byte("0123456789abcde\n"), 1<<16-1)
		if r = execute(t, e, s); !bytes.Equal(r.Stdout, s.Input) {
			t.Errorf("%d of %d bytes", len(r.Stdout), len(s.Input))
		}
		s = sh(image, "exit 0") // does not read its input
		s.Input = bytes.Repeat([]byte("x"), MaxInput)
		if r = execute(t, e, s); r.Outcome != Success {
			t.Errorf("%+v", r)
		}
		r = execute(t, e, Spec{ImageID: image.ID, Argv: []string{"nothing"}, RunID: uuid.New()})
		if r.Outcome != Failure || r.ExitCode != 127 || string(r.StderrTail) != "nothing: not found in image" {
			t.Errorf("%+v, %s", r, r.StderrTail)
		}
	})
}

func TestEnvironmentHasNothingOfTheHost(t *testing.T) {
	t.Setenv("HELIX_PLANTED", "secret-value-1")
	each(t, func(t *testing.T, e *Engine, image Image) {
		s := sh(image, "env")
		s.Env = []string{"TOOL_PARAMS={}"}
		r := execute(t, e, s)
		for line := range strings.Lines(string(r.Stdout)) {
			name, _, _ := strings.Cut(line, "=")
			switch name {
			case "PATH", "LANG", "HOME", "TOOL_PARAMS", "HELIX_RUN_ID", "HOSTNAME", "PWD", "SHLVL", "container", "TERM":
			default:
				t.Errorf("unexpected: %s", line)
			}
		}
		if strings.Contains(string(r.Stdout), "secret-value-1") || !strings.Contains(string(r.Stdout), "HOME=/tmp") {
			t.Errorf("%s", r.Stdout)
		}
	})
}

func TestInsideARunIsLockedDown(t *testing.T) {
	each(t, func(t *testing.T, e *Engine, image Image) {
		r := execute(t, e, sh(image, `
			id -u; id -g
			grep -E '^(CapEff|CapPrm|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status
			touch /x 2>/dev/null && echo writable root
			touch /proc/sys/kernel/hostname 2>/dev/null; echo x 2>/dev/null > /proc/sys/kernel/hostname && echo writable sys
			ls /sys/class/net; cat /proc/net/route | wc -l
			ls /var/run/docker.sock /run/podman/podman.sock 2>/dev/null && echo socket
			mount -t tmpfs none /tmp 2>/dev/null && echo mounted
			echo '#!/bin/sh' > /tmp/p; /bin/busybox chmod +x /tmp/p; /tmp/p 2>/dev/null && echo executable tmp; cat /tmp/p
			ps | wc -l; echo ok`))
		out := strings.Join(strings.Fields(string(r.Stdout)), " ")
		want := "65534 65534 CapPrm: 0000000000000000 CapEff: 0000000000000000 CapBnd: 0000000000000000 NoNewPrivs: 1 Seccomp: 2 lo 1"
		if !strings.HasPrefix(out, want) || !strings.HasSuffix(out, "#!/bin/sh 4 ok") && !strings.HasSuffix(out, "#!/bin/sh 5 ok") || strings.Contains(out, "writable") || strings.Contains(out, "socket") || strings.Contains(out, "mounted") || strings.Contains(out, "executable") {
			t.Errorf("%s\n%s", out, r.StderrTail)
		}
	})
}

func TestNothingIsReachableFromInside(t *testing.T) {
	each(t, func(t *testing.T, e *Engine, image Image) {
		r := execute(t, e, sh(image, `
			for a in 169.254.169.254:80 172.17.0.1:80 10.88.0.1:80 127.0.0.1:22 1.1.1.1:53; do
				nc -w 5 ${a%:*} ${a#*:} </dev/null >/dev/null 2>&1 && echo reached $a
			done
			wget -q -T 5 -O- http://localhost/ 2>/dev/null && echo reached localhost; echo done`))
		if string(r.Stdout) != "done\n" {
			t.Errorf("%s %s", r.Stdout, r.StderrTail)
		}
	})
}

func TestLimitsEndOrContainARun(t *testing.T) {
	each(t, func(t *testing.T, e *Engine, image Image) {
		s := sh(image, `awk 'BEGIN { s = "x"; while (1) s = s s }'`)
		s.Limits.MemoryBytes = 32 << 20
		if r := execute(t, e, s); r.Outcome != OOM {
			t.Errorf("memory: %+v %s", r, r.StderrTail)
		}
		// The kernel ends a program rather than the init process, which reports why.
		if r := execute(t, e, sh(image, `cat /proc/self/oom_score_adj`)); string(r.Stdout) != "1000\n" {
			t.Errorf("who is ended first when memory runs out: %s", r.Stdout)
		}
		s = sh(image, `dd if=/dev/zero of=/tmp/a bs=1M count=100 2>&1; ls -l /tmp; echo still`)
		s.Limits.StorageBytes = 1 << 20
		if r := execute(t, e, s); !strings.Contains(string(r.Stdout), "1048576") {
			t.Errorf("file size: %s", r.Stdout)
		}
		s = sh(image, `i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done; echo never`)
		s.Limits.Pids = 32
		if r := execute(t, e, s); r.Outcome == Success {
			t.Errorf("pids: %+v %s", r, r.Stdout)
		}
		s = sh(image, `yes`)
		s.Limits.OutputBytes = 1 << 16
		if r := execute(t, e, s); r.Outcome != TooLarge || len(r.Stdout) > 1<<16+100 || !strings.Contains(string(r.Stdout), "omitted") {
			t.Errorf("output: %d bytes, %+v", len(r.Stdout), r.Outcome)
		}
		s = sh(image, `yes | head -c 10000000 >&2; echo fine`)
		if r := execute(t, e, s); r.Outcome != Success || len(r.StderrTail) > 64<<10 || string(r.Stdout) != "fine\n" {
			t.Errorf("standard error: %d bytes, %+v", len(r.StderrTail), r.Outcome)
		}
	})
}

func TestDeadlineEndsWhatIgnoresSignals(t *testing.T) {
	each(t, func(t *testing.T, e *Engine, image Image) {
		s := sh(image, `trap '' TERM INT HUP; setsid sleep 3600 & (sleep 3600 &) ; echo begun >&2; sleep 3600`)
		s.Limits.Wall = 2 * time.Second
		if r := execute(t, e, s); r.Outcome != TimedOut || string(r.StderrTail) != "begun\n" {
			t.Errorf("%+v %s", r, r.StderrTail)
		}
	})
}

func TestCancelInEachPhaseLeavesNothing(t *testing.T) {
	each(t, func(t *testing.T, e *Engine, image Image) {
		for _, phase := range []string{PhaseCreate, PhaseStart, PhaseRunning, PhaseEnded} {
			ctx, cancel := context.WithCancel(t.Context())
			s := sh(image, `sleep 3600`)
			if phase == PhaseEnded {
				s = sh(image, `exit 0`)
			}
			s.Phase = func(p string) {
				if p == phase {
					cancel()
				}
			}
			r, err := e.Execute(ctx, s)
			if err == nil && r.Outcome != Cancelled && phase != PhaseEnded || err != nil && !fault.Is(err, fault.Canceled) {
				t.Errorf("%s: %+v, %v", phase, r, err)
			}
			cancel()
		}
	})
}

func TestImportIsReproducible(t *testing.T) {
	each(t, func(t *testing.T, e *Engine, image Image) {
		again, err := e.ImportImage(t.Context(), busybox(t), "busybox")
		if err != nil || again.ID != image.ID {
			t.Errorf("%+v and %+v, %v", image, again, err)
		}
		program, err := e.ImportImage(t.Context(), "/bin/busybox", "program")
		if err != nil {
			t.Fatal(err)
		}
		r := execute(t, e, Spec{ImageID: program.ID, RunID: uuid.New()}) // busybox complains about its name
		if !strings.Contains(string(r.StderrTail), "applet not found") {
			t.Errorf("%+v", r)
		}
		if list, err := e.Images(t.Context()); err != nil || len(list) < 2 {
			t.Errorf("%+v, %v", list, err)
		}
		if err := e.RemoveImage(t.Context(), program.Ref); err != nil {
			t.Error(err)
		}
		if _, err := e.Image(t.Context(), program.Ref); !fault.Is(err, fault.Unavailable) {
			t.Error(err)
		}
		_, err = e.Execute(t.Context(), Spec{ImageID: program.ID, Argv: []string{"/program"}, RunID: uuid.New()})
		if r, _ := fault.As(err).Details.(Refusal); r.Code != ImageMissing {
			t.Errorf("%v", err)
		}
	})
}

// runChild is a process that is killed in the middle of a run.
func runChild() {
	e := Open(Options{Owner: os.Getenv("HELIX_OWNER"), Host: os.Getenv("HELIX_HOST")})
	s := Spec{ImageID: os.Getenv("HELIX_IMAGE"), Argv: []string{"/bin/sleep", "3600"}, RunID: uuid.New(), Limits: Limits{Wall: 10 * time.Minute}}
	s.Phase = func(p string) { fmt.Println(p) }
	e.Execute(context.Background(), s) //nolint:errcheck // it is killed meanwhile
}

func TestReaperRemovesExactlyWhatAKilledProcessLeft(t *testing.T) {
	for _, s := range engines {
		t.Run(s.Kind, func(t *testing.T) {
			owner := t.TempDir()
			e := openOn(t, s, owner)
			image, err := e.ImportImage(t.Context(), busybox(t), "busybox")
			if err != nil {
				t.Fatal(err)
			}
			var foreign struct {
				ID string `json:"Id"`
			}
			err = e.client.call(t.Context(), "POST", "/containers/create", url.Values{"name": {"helix-foreign"}}, map[string]any{
				"Image": image.ID, "Cmd": []string{"/bin/true"}, "Labels": map[string]string{labelOwner: e.owner + "x", labelRun: uuid.NewString()}}, &foreign)
			if err != nil {
				t.Fatal(err)
			}
			defer e.client.remove(context.Background(), foreign.ID) //nolint:errcheck // the engine ends after the test
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), childEnv+"=1", "HELIX_OWNER="+owner, "HELIX_HOST=unix://"+s.Socket, "HELIX_IMAGE="+image.ID)
			out, err := child.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			for line := ""; line != PhaseRunning; {
				if _, err := fmt.Fscanln(out, &line); err != nil {
					t.Fatal(err)
				}
			}
			child.Process.Kill()
			io.Copy(io.Discard, out) //nolint:errcheck // until it has ended
			child.Wait()             //nolint:errcheck // it was killed
			removed, err := e.Reap(t.Context())
			if err != nil || len(removed) != 1 {
				t.Errorf("%v, %v", removed, err)
			}
			if removed, err = e.Reap(t.Context()); err != nil || len(removed) != 0 {
				t.Errorf("again: %v, %v", removed, err)
			}
			var x inspection
			if err := e.client.call(t.Context(), "GET", "/containers/"+foreign.ID+"/json", nil, nil, &x); err != nil {
				t.Errorf("the foreign container: %v", err)
			}
		})
	}
}

func TestInputIsInNoInspectOutput(t *testing.T) {
	const secret = "planted-secret-93741"
	each(t, func(t *testing.T, e *Engine, image Image) {
		s := sh(image, "cat >/dev/null; sleep 3600")
		s.Input = []byte(secret)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := e.Execute(ctx, s)
			done <- err
		}()
		id := testkit.Eventually(t, "the run", func() string {
			for _, r := range e.Status().Running {
				if r.Phase == PhaseRunning {
					return r.ContainerID
				}
			}
			return ""
		}, func(id string) bool { return id != "" })
		for _, path := range []string{"/containers/" + id + "/json", "/images/" + image.ID + "/json", "/containers/json?all=1"} {
			path, raw, _ := strings.Cut(path, "?")
			q, _ := url.ParseQuery(raw)
			var all json.RawMessage
			if err := e.client.call(t.Context(), "GET", path, q, nil, &all); err != nil || bytes.Contains(all, []byte(secret)) {
				t.Errorf("%s: %v", path, err)
			}
		}
		logs, err := e.client.send(t.Context(), "GET", "/containers/"+id+"/logs", url.Values{"stdout": {"1"}, "stderr": {"1"}}, nil)
		var api *apiError
		if err == nil {
			b, _ := io.ReadAll(logs.Body)
			logs.Body.Close()
			if bytes.Contains(b, []byte(secret)) {
				t.Error("the engine's log has the input")
			}
		} else if !errors.As(err, &api) {
			t.Error(err)
		}
		cancel()
		<-done
	})
}

// session starts a session that sees the folders of a workspace.
func session(t *testing.T, e *Engine, image Image) (s *Session, workspace string) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	workspace = filepath.Join(root, "user")
	for _, area := range []string{"shared", "tmp", "vault"} {
		if err := os.MkdirAll(filepath.Join(workspace, area), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	e.o.Workspaces = root
	s, err = e.Spawn(t.Context(), SessionSpec{ID: uuid.New(), ImageID: image.ID, Mounts: []Mount{
		{Source: filepath.Join(workspace, "shared"), Target: "/shared"}, {Source: filepath.Join(workspace, "tmp"), Target: "/tmp/workspace"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, workspace
}

func command(t *testing.T, s *Session, argv ...string) CommandResult {
	t.Helper()
	r, err := s.Exec(t.Context(), Command{Argv: argv, Timeout: MaxCommandTime})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSessionWorksInItsWorkspace(t *testing.T) {
	each(t, func(t *testing.T, e *Engine, image Image) {
		s, workspace := session(t, e, image)
		if err := os.WriteFile(filepath.Join(workspace, "vault", "secret"), []byte("planted-in-vault"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(workspace, "shared", "given"), []byte("given"), 0o600); err != nil {
			t.Fatal(err)
		}
		r := command(t, s, "sh", "-c", `cat given; echo " a;b" > made; echo kept > /tmp/workspace/x; cat made; ls -A / /shared /tmp/workspace; id -u; grep -r planted-in-vault /shared /tmp /data /root /home 2>/dev/null; exit 4`)
		if r.Status != Failure || r.ExitCode != 4 || !strings.HasPrefix(r.Output, "given a;b\n") || strings.Contains(r.Output, "planted") || strings.Contains(r.Output, "vault") {
			t.Errorf("%+v", r)
		}
		for name, want := range map[string]string{"shared/made": " a;b\n", "tmp/x": "kept\n"} {
			if b, err := os.ReadFile(filepath.Join(workspace, name)); err != nil || string(b) != want {
				t.Errorf("%s: %q, %v", name, b, err)
			}
		}
		// What a command leaves running stays until the session ends.
		if r := command(t, s, "sh", "-c", "sleep 3600 >/dev/null 2>&1 & echo begun"); r.Output != "begun\n" || r.Status != Success {
			t.Errorf("%+v", r)
		}
		if r := command(t, s, "sh", "-c", "ps | grep -c 'sleep 360[0]'"); r.Output != "1\n" {
			t.Errorf("%+v", r)
		}
		r, err := s.Exec(t.Context(), Command{Argv: []string{"sh", "-c", "trap '' TERM; sleep 3600"}, Timeout: time.Second})
		if err != nil || r.Status != TimedOut {
			t.Errorf("%+v, %v", r, err)
		}
		r, err = s.Exec(t.Context(), Command{Argv: []string{"cat"}, Stdin: bytes.Repeat([]byte("x"), 1<<20), Timeout: time.Minute})
		if err != nil || !r.Truncated || len(r.Output) > 65<<10 {
			t.Errorf("%d bytes, %+v", len(r.Output), err)
		}
		if r = command(t, s, "nothing"); r.ExitCode != 127 || r.Output != "nothing: not found in image" {
			t.Errorf("%+v", r)
		}
		s.Close()
	})
}

func TestKillingTheContainerEndsItsSession(t *testing.T) {
	each(t, func(t *testing.T, e *Engine, image Image) {
		s, _ := session(t, e, image)
		_, err := s.Exec(t.Context(), Command{Argv: []string{"sh", "-c", "echo begun; sleep 3600"}, Timeout: MaxCommandTime, Output: func(Chunk) { s.b.kill() }})
		if d, _ := fault.As(err).Details.(Refusal); d.Code != SidecarConnectionFailed {
			t.Errorf("%v", err)
		}
		<-s.Done()
	})
}

// oneHost is an Egress that reaches one server.
type oneHost struct{ address string }

func (o oneHost) Dial(ctx context.Context, host string, port int) (net.Conn, error) {
	if host != "example.com" || port != 443 {
		return nil, fault.Deniedf("%s isn't allowed.", host)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", o.address)
}

func (oneHost) Secret(_ context.Context, _, name string) (string, error) {
	return "planted-secret-5513", nil
}

func TestOnlyTheRelayIsReachedFromInside(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Key") != "" && r.Header.Get("X-Key") != "planted-secret-5513" {
			t.Errorf("%v", r.Header)
		}
		if r.URL.Path == "/large" {
			w.Write(make([]byte, 20<<20)) //nolint:errcheck // the test counts it
			return
		}
		fmt.Fprintf(w, "hello %s %s", r.URL.Path, r.Header.Get("X-Key"))
	}))
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	each(t, func(t *testing.T, e *Engine, image Image) {
		e.o.TLS = &tls.Config{RootCAs: roots}
		s := sh(image, `
			env | grep -i proxy | sort
			wget -q -O- $HELIX_EGRESS_URL/https/example.com/a
			echo; wget -q -O- --header 'X-Key: {{secret:K}}' $HELIX_EGRESS_URL/https/example.com/b
			echo; wget -q -O- $HELIX_EGRESS_URL/https/example.com/large | wc -c
			for h in example.org 169.254.169.254 127.0.0.1 localhost; do wget -q -O- $HELIX_EGRESS_URL/https/$h/ 2>/dev/null && echo reached $h; done
			wget -q -O- http://169.254.169.254/ 2>/dev/null && echo reached metadata
			no_proxy=example.com wget -q -T 5 -O- http://example.com/ 2>/dev/null && echo reached without proxy
			cat /proc/net/dev | grep -c :; echo done`)
		s.Egress = oneHost{server.Listener.Addr().String()}
		r := execute(t, e, s)
		out := string(r.Stdout)
		if !strings.Contains(out, "hello /a \nhello /b [secret]\n20971520\n1\ndone\n") || strings.Contains(out, "reached") || !strings.Contains(out, "HTTPS_PROXY=http://127.0.0.1:3128") || strings.Contains(out, "planted-secret") {
			t.Errorf("%s\n%s", out, r.StderrTail)
		}
		if r.Usage.BytesIn < 20<<20 || r.Usage.BytesOut == 0 && r.Usage.BytesIn == 0 {
			t.Errorf("%+v", r.Usage)
		}
	})
}

func TestStoredDataStaysBetweenRunsWithinItsQuota(t *testing.T) {
	each(t, func(t *testing.T, e *Engine, image Image) {
		v := &Volume{Name: "helix-tool-" + uuid.NewString(), Quota: 4 << 20}
		t.Cleanup(func() { e.RemoveVolume(context.Background(), v.Name) }) //nolint:errcheck // it was removed
		with := func(script string) Spec {
			s := sh(image, script)
			s.Volume = v
			return s
		}
		if r := execute(t, e, with(`id -u; echo kept > /data/file && ls -ln /data`)); r.Outcome != Success || !strings.Contains(string(r.Stdout), "65534") {
			t.Fatalf("%s %s", r.Stdout, r.StderrTail)
		}
		var all sync.WaitGroup
		for range 3 { // one after another
			all.Go(func() {
				if r, err := e.Execute(t.Context(), with(`test ! -e /data/lock && touch /data/lock && sleep 0.1 && cat /data/file && /bin/busybox rm /data/lock`)); err != nil || string(r.Stdout) != "kept\n" {
					t.Errorf("%s, %v", r.Stdout, err)
				}
			})
		}
		all.Wait()
		if r := execute(t, e, with(`dd if=/dev/zero of=/data/large bs=1M count=8; ls -l /data/large >&2`)); r.Outcome == Success && !strings.Contains(string(r.StderrTail), "4194304") {
			t.Errorf("one file: %+v %s", r.Outcome, r.StderrTail)
		}
		r, err := e.Execute(t.Context(), with(`i=0; mkdir -p /data/d; while [ $i -lt 10000 ]; do dd if=/dev/zero of=/data/d/$i bs=64k count=16 2>/dev/null; i=$((i+1)); done`))
		if !fault.Is(err, fault.Limit) && (err != nil || r.Outcome != Storage || r.Usage.DiskBytes < 4<<20) {
			t.Errorf("many files: %+v, %v", r, err)
		}
		if _, err := e.Execute(t.Context(), with(`true`)); !fault.Is(err, fault.Limit) {
			t.Errorf("over the quota: %v", err)
		}
		v.Quota = 1 << 30
		if r := execute(t, e, with(`cat /data/file`)); string(r.Stdout) != "kept\n" {
			t.Errorf("after a higher quota: %+v", r)
		}
		if err := e.RemoveVolume(t.Context(), v.Name); err != nil {
			t.Fatal(err)
		}
		if r := execute(t, e, with(`ls -A /data`)); len(r.Stdout) > 0 || r.Outcome != Success {
			t.Errorf("after removal: %s", r.Stdout)
		}
	})
}

func TestSnapshotBringsStoredDataBack(t *testing.T) {
	each(t, func(t *testing.T, e *Engine, image Image) {
		v := Volume{Name: "helix-tool-" + uuid.NewString(), Quota: 8 << 20}
		snapshot := "helix-back-" + uuid.NewString()
		for _, name := range []string{v.Name, snapshot} {
			t.Cleanup(func() { e.RemoveVolume(context.Background(), name) }) //nolint:errcheck // it was removed
		}
		in := func(script string) string {
			s := sh(image, script)
			s.Volume = &v
			return string(execute(t, e, s).Stdout)
		}
		if err := e.SnapshotVolume(t.Context(), image.ID, v, snapshot); !fault.Is(err, fault.NotFound) {
			t.Errorf("before the first run: %v", err)
		}
		in(`mkdir /data/d && echo one > /data/d/file && ln -s d/file /data/link && echo hidden > /data/closed && chmod 0 /data/closed`)
		if err := e.SnapshotVolume(t.Context(), image.ID, v, snapshot); err != nil {
			t.Fatal(err)
		}
		in(`echo two > /data/d/file; rm -f /data/link; touch /data/more`)
		if err := e.RestoreVolume(t.Context(), image.ID, snapshot, v); err != nil {
			t.Fatal(err)
		}
		if out := in(`cat /data/link; ls -A /data; chmod 600 /data/closed && cat /data/closed; echo three > /data/d/file && cat /data/d/file`); out != "one\nclosed\nd\nlink\nhidden\nthree\n" {
			t.Errorf("%q", out)
		}
	})
}

func TestUsageIsMeasuredInside(t *testing.T) {
	each(t, func(t *testing.T, e *Engine, image Image) {
		s := sh(image, `i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; dd if=/dev/zero of=/dev/null bs=60M count=1 2>/dev/null`)
		s.Limits.CPUPercent = 100
		r := execute(t, e, s)
		if r.Usage.CPU <= 0 || r.Usage.PeakMemory < 60<<20 || r.Usage.Samples < 1 {
			t.Errorf("%+v", r.Usage)
		}
		if r = execute(t, e, sh(image, `true`)); r.Usage.CPU <= 0 || r.Usage.PeakMemory <= 0 {
			t.Errorf("a short run: %+v", r.Usage)
		}
		h := r.Hardening
		if h.UID != 65534 || h.Seccomp != 2 || h.NoNewPrivs != 1 || h.PID != 1 || h.Memory != 256<<20 || h.Pids != 64 || h.CPUPercent != 50 {
			t.Errorf("%+v", h)
		}
		for phase, d := range map[string]time.Duration{"create": r.Phases.Create, "start": r.Phases.Start, "running": r.Phases.Running, "remove": r.Phases.Remove} {
			if d <= 0 {
				t.Errorf("%s was not timed", phase)
			}
		}
	})
}

func TestInitProcessCannotBeTouchedFromInside(t *testing.T) {
	each(t, func(t *testing.T, e *Engine, image Image) {
		r := execute(t, e, sh(image, `
			i=1; while [ $i -le 64 ]; do kill -$i 1 2>/dev/null; i=$((i+1)); done
			cat /proc/1/mem >/dev/null 2>&1 && echo memory
			cat /proc/1/environ >/dev/null 2>&1 && echo environment
			ls /proc/1/fd/ >/dev/null 2>&1 && echo files
			echo x 2>/dev/null > /proc/1/fd/1 && echo output
			nc -h >/dev/null 2>&1; echo alive`))
		if string(r.Stdout) != "alive\n" || r.Outcome != Success {
			t.Errorf("%s, %s, %+v", r.Stdout, r.StderrTail, r)
		}
	})
}

// leftovers are what runs could leave behind, in the engine and in this process.
type leftovers struct{ containers, volumes, sockets, goroutines, files int }

func countLeftovers(t *testing.T, e *Engine) (l leftovers) {
	t.Helper()
	var list []json.RawMessage
	if err := e.client.call(t.Context(), "GET", "/containers/json", url.Values{"all": {"1"}}, nil, &list); err != nil {
		t.Fatal(err)
	}
	volumes, err := e.Volumes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e.client.http.CloseIdleConnections()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	sockets, _ := os.ReadDir(e.o.Runtime) //nolint:errcheck // there are none then
	return leftovers{len(list), len(volumes), len(sockets), runtime.NumGoroutine(), len(files)}
}

// Every third run has stored data, and every second one fails.
func TestAThousandRunsLeaveNothing(t *testing.T) {
	n := 20
	if os.Getenv("HELIX_LONG") != "" {
		n = 1000
	}
	each(t, func(t *testing.T, e *Engine, image Image) {
		v := &Volume{Name: "helix-tool-" + uuid.NewString(), Quota: 4 << 20}
		t.Cleanup(func() { e.RemoveVolume(context.Background(), v.Name) }) //nolint:errcheck // it was removed
		run := func(i int) {
			s := sh(image, fmt.Sprintf("exit %d", i%2))
			if i%3 == 0 {
				s.Volume = v
			}
			if _, err := e.Execute(t.Context(), s); err != nil {
				t.Errorf("run %d: %v", i, err)
			}
		}
		run(0)
		before := countLeftovers(t, e)
		var all sync.WaitGroup
		turns := make(chan struct{}, 4)
		for i := range n {
			turns <- struct{}{}
			all.Go(func() {
				defer func() { <-turns }()
				run(i)
			})
		}
		all.Wait()
		after := testkit.Eventually(t, "what is left", func() leftovers { return countLeftovers(t, e) }, func(l leftovers) bool {
			return l.containers <= before.containers && l.volumes <= before.volumes && l.sockets <= before.sockets && l.goroutines <= before.goroutines+2 && l.files <= before.files+2
		})
		t.Logf("%d runs: %+v before, %+v after", n, before, after)
	})
}

func TestFiftyMixedRunsAtOnce(t *testing.T) {
	each(t, func(t *testing.T, e *Engine, image Image) {
		var all sync.WaitGroup
		turns := make(chan struct{}, maxRunning)
		for i := range 50 {
			turns <- struct{}{}
			all.Go(func() {
				defer func() { <-turns }()
				s, want := sh(image, fmt.Sprintf("cat; echo %d; exit %d", i, i%3)), Success
				s.Input = bytes.Repeat([]byte("x"), i*1000)
				if i%3 > 0 {
					want = Failure
				}
				if i%7 == 0 {
					s, want = sh(image, "sleep 3600"), TimedOut
					s.Limits.Wall = time.Second
				}
				r, err := e.Execute(t.Context(), s)
				if err != nil || r.Outcome != want || want == Success && len(r.Stdout) != i*1000+len(fmt.Sprint(i))+1 {
					t.Errorf("%d: %d bytes, %+v, %v", i, len(r.Stdout), r.Outcome, err)
				}
			})
		}
		all.Wait()
	})
}
