package container

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// probeTime limits the check of one endpoint.
const probeTime = time.Minute

// endpoints returns the sockets to try, in order. only means that no other is tried.
func (e *Engine) endpoints() (list []string, only bool, problem *Reason) {
	env := e.o.Getenv
	for _, h := range []struct{ from, value string }{{"container.host", e.o.Host}, {"DOCKER_HOST", env("DOCKER_HOST")}} {
		if h.value == "" {
			continue
		}
		if h.value == "off" && h.from == "container.host" {
			return nil, true, &Reason{EngineNotFound, "Containers are switched off by the setting container.host.", "Clear the setting to use them."}
		}
		path, ok := strings.CutPrefix(h.value, "unix://")
		if !ok || !filepath.IsAbs(path) {
			return nil, true, &Reason{EngineNotFound, h.from + " isn't a socket that can be used.", "Set it to unix:// and an absolute path."}
		}
		return []string{path}, true, nil
	}
	list = []string{"/var/run/docker.sock"}
	if dir := env("XDG_RUNTIME_DIR"); dir != "" {
		list = append(list, filepath.Join(dir, "docker.sock"), filepath.Join(dir, "podman", "podman.sock"))
	}
	list = append(list, "/run/podman/podman.sock")
	if home := env("HOME"); home != "" {
		list = append(list, filepath.Join(home, ".docker/run/docker.sock"), filepath.Join(home, ".docker/desktop/docker.sock"),
			filepath.Join(home, ".local/share/containers/podman/machine/podman.sock"))
	}
	return list, false, nil
}

// Recheck looks for an engine again and returns the status.
func (e *Engine) Recheck(ctx context.Context) Status {
	e.probing.Lock()
	defer e.probing.Unlock()
	before := e.present()
	list, only, problem := e.endpoints()
	if problem == nil {
		problem = &Reason{EngineNotFound, "No container engine was found.", "Install Podman or Docker and start it, for example with: systemctl --user start podman.socket"}
	}
	var found *client
	var info *Info
	var reasons []Reason
	for _, socket := range list {
		if _, err := os.Stat(socket); err != nil && !only {
			continue
		}
		c := newClient(socket)
		i, r, err := probe(ctx, c)
		if err == nil {
			found, info, reasons = c, i, r
			break
		}
		c.close()
		if why := reasonOf(socket, err); why.Code != EngineNotFound || only {
			problem = &why
		}
	}
	e.mu.Lock()
	if e.client != nil {
		e.client.close()
	}
	if found == nil {
		reasons = []Reason{*problem}
	}
	e.client, e.info, e.reasons, e.checked = found, info, reasons, time.Now()
	e.mu.Unlock()
	if before != (found != nil) {
		e.o.Changed()
	}
	return e.Status()
}

var errTooOld = errors.New("the Engine API is older than " + apiVersion)

// reasonOf says why an endpoint cannot be used.
func reasonOf(socket string, err error) Reason {
	var netErr net.Error
	switch {
	case errors.Is(err, fs.ErrPermission):
		return Reason{EnginePermission, "You may not use the engine at " + socket + ".", "Add your user to its group, such as docker, and sign in again."}
	case errors.Is(err, errTooOld):
		return Reason{EngineTooOld, "The engine at " + socket + " is too old.", "Update it to Docker 20.10, Podman 4 or later."}
	case errors.Is(err, fs.ErrNotExist):
		return Reason{EngineNotFound, "There is no engine at " + socket + ".", "Start it, or correct the setting container.host."}
	case errors.Is(err, syscall.ECONNREFUSED), errors.As(err, &netErr):
		return Reason{EngineNotFound, "The engine at " + socket + " doesn't answer.", "Start it."}
	}
	return Reason{EngineNotFound, "What listens at " + socket + " isn't a container engine.", "Correct the setting container.host."}
}

// probe asks what the engine can do.
func probe(ctx context.Context, c *client) (*Info, []Reason, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	var version struct {
		Version, APIVersion, MinAPIVersion string
		Components                         []struct{ Name string }
	}
	if err := c.call(ctx, "GET", "/version", nil, nil, &version); err != nil {
		return nil, nil, err
	}
	if !atLeast(version.APIVersion, apiVersion) {
		return nil, nil, errTooOld
	}
	c.version = apiVersion
	if atLeast(version.MinAPIVersion, apiVersion) { // Docker 29 and later refuse older ones
		c.version = version.MinAPIVersion
	}
	var info struct {
		Driver, DefaultRuntime, CgroupVersion string
		SwapLimit, PidsLimit                  bool
		SecurityOptions                       []string
	}
	if err := c.call(ctx, "GET", "/info", nil, nil, &info); err != nil {
		return nil, nil, err
	}
	i := &Info{Kind: "docker", Version: version.Version, APIVersion: version.APIVersion, Endpoint: "unix://" + c.socket,
		Runtime: info.DefaultRuntime, Cgroup: info.CgroupVersion, StorageDriver: info.Driver}
	if slices.ContainsFunc(version.Components, func(x struct{ Name string }) bool { return strings.Contains(x.Name, "Podman") }) {
		i.Kind = "podman"
	}
	var reasons []Reason
	seccomp := false
	for _, o := range info.SecurityOptions {
		i.Rootless = i.Rootless || o == "name=rootless"
		seccomp = seccomp || strings.HasPrefix(o, "name=seccomp") && !strings.Contains(o, "profile=unconfined")
	}
	if !seccomp {
		reasons = append(reasons, Reason{SeccompMissing, "The engine doesn't filter system calls.", "Use an engine with seccomp."})
	}
	if !info.SwapLimit {
		reasons = append(reasons, Reason{SwapNotLimited, "The engine can't limit swap space.", "Start the system with swapaccount=1."})
	}
	if !info.PidsLimit {
		reasons = append(reasons, Reason{PidsNotLimited, "The engine can't limit the number of processes.", "Use a system with the pids controller."})
	}
	if i.hardQuota = c.limitsVolumes(ctx, i.Kind); !i.hardQuota {
		reasons = append(reasons, Reason{QuotaGuardOnly, "The file system of the engine doesn't limit stored data, so it is measured during each run.", "For a hard limit, keep the engine's data on XFS with project quotas."})
	}
	return i, reasons, nil
}

// atLeast compares versions of the API such as 1.41.
func atLeast(have, want string) bool {
	number := func(s string) (major, minor int) {
		a, b, _ := strings.Cut(s, ".")
		major, _ = strconv.Atoi(a)
		minor, _ = strconv.Atoi(b)
		return major, minor
	}
	a, b := number(have)
	c, d := number(want)
	return a > c || a == c && b >= d
}
