package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
)

// api makes bare requests to the engine.
type api struct {
	http.Client
	image string
}

func (b *bench) api() *api {
	return &api{http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", b.Socket)
	}}}, b.image.ID}
}

func (a *api) call(method, path string, body any) []byte {
	raw, err := json.Marshal(body)
	check(err)
	req, err := http.NewRequest(method, "http://engine/v1.41"+path, bytes.NewReader(raw))
	check(err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.Do(req)
	check(err)
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	check(err)
	if resp.StatusCode >= 300 {
		check(fmt.Errorf("%s %s: %d %s", method, path, resp.StatusCode, out))
	}
	return out
}

// create creates a container that is isolated like ours and runs true.
func (a *api) create(labels map[string]string) string {
	limit := func(name string, n int) map[string]any { return map[string]any{"Name": name, "Soft": n, "Hard": n} }
	var made struct{ ID string }
	check(json.Unmarshal(a.call("POST", "/containers/create", map[string]any{
		"Image": a.image, "User": "65534:65534", "Cmd": []string{"/bin/true"}, "Labels": labels, "NetworkDisabled": true,
		"HostConfig": map[string]any{
			"NetworkMode": "none", "ReadonlyRootfs": true, "CapDrop": []string{"ALL"}, "SecurityOpt": []string{"no-new-privileges"}, "Memory": 256 << 20, "MemorySwap": 256 << 20,
			"CpuPeriod": 100_000, "CpuQuota": 100_000, "PidsLimit": 64, "Ulimits": []any{limit("nofile", 1024), limit("core", 0), limit("nproc", 4096), limit("fsize", 100<<20)},
			"Tmpfs": map[string]string{"/tmp": "rw,noexec,nosuid,nodev,size=67108864"}, "ShmSize": 16 << 20, "IpcMode": "private", "LogConfig": map[string]string{"Type": "none"},
		},
	}), &made))
	return made.ID
}
