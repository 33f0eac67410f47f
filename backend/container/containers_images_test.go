//go:build containers

package container

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/container/containertest"
	"helix/backend/container/guest"
	"helix/backend/fault"
	"helix/backend/testkit"
)

// registry serves one image with one file at /v2/box. hold, if it is set, delays the layer until it is closed.
func registry(t *testing.T, hold <-chan struct{}) (ref, digest string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var plain, layer bytes.Buffer
	tw := tar.NewWriter(&plain)
	must(tw.WriteHeader(&tar.Header{Name: "file", Mode: 0o644, Size: 6, Typeflag: tar.TypeReg}))
	_, err := tw.Write([]byte("pulled"))
	must(err)
	must(tw.Close())
	zw := gzip.NewWriter(&layer)
	_, err = zw.Write(plain.Bytes())
	must(err)
	must(zw.Close())
	config, err := json.Marshal(map[string]any{"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{"Cmd": []string{"/x"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + sumOf(plain.Bytes())}}})
	must(err)
	const kind = "application/vnd.docker."
	part := func(kind string, b []byte) map[string]any {
		return map[string]any{"mediaType": kind, "size": len(b), "digest": "sha256:" + sumOf(b)}
	}
	manifest, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": kind + "distribution.manifest.v2+json",
		"config": part(kind+"container.image.v1+json", config), "layers": []any{part(kind+"image.rootfs.diff.tar.gzip", layer.Bytes())}})
	must(err)
	digest = "sha256:" + sumOf(manifest)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case path == "/v2/":
		case strings.HasPrefix(path, "/v2/box/manifests/"):
			w.Header().Set("Content-Type", kind+"distribution.manifest.v2+json")
			w.Header().Set("Docker-Content-Digest", digest)
			w.Write(manifest) //nolint:errcheck // the engine is gone then
		case strings.HasSuffix(path, sumOf(config)):
			w.Write(config) //nolint:errcheck // as above
		case strings.HasSuffix(path, sumOf(layer.Bytes())):
			if hold != nil {
				select {
				case <-hold:
				case <-r.Context().Done():
				}
			}
			w.Write(layer.Bytes()) //nolint:errcheck // as above
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://") + "/box:1", digest
}

// docker returns an engine on Docker, which trusts registries of this computer without TLS.
func docker(t *testing.T) *Engine {
	t.Helper()
	return openOn(t, engines[0], t.TempDir())
}

func TestPullGetsTheImageWithTheDigestOnly(t *testing.T) {
	e := docker(t)
	ref, digest := registry(t, nil)
	wrong := "sha256:" + strings.Repeat("0", 64)
	if _, err := e.Pull(t.Context(), ref, wrong, nil); err == nil {
		t.Error("another digest was pulled")
	}
	if _, err := e.Image(t.Context(), ref); !fault.Is(err, fault.Unavailable) {
		t.Errorf("after a refused pull: %v", err)
	}
	var last Progress
	i, err := e.Pull(t.Context(), ref, digest, func(p Progress) { last = p })
	if err != nil || i.Digest != digest || i.ID == "" {
		t.Fatalf("%+v, %v", i, err)
	}
	if last.Done > last.Size {
		t.Errorf("%+v", last)
	}
	if _, err := e.Pull(t.Context(), strings.Replace(ref, "box:1", "other:1", 1), "", nil); err == nil {
		t.Error("an image that doesn't exist was pulled")
	}
	if err := e.RemoveImage(t.Context(), i.ID); err != nil {
		t.Error(err)
	}
}

func TestCanceledPullLeavesNoImage(t *testing.T) {
	e := docker(t)
	hold := make(chan struct{})
	defer close(hold)
	ref, _ := registry(t, hold)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := e.Pull(ctx, ref, "", nil)
		done <- err
	}()
	cancel()
	if err := <-done; !fault.Is(fault.As(err), fault.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := e.Image(t.Context(), ref); !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
	if e.Recheck(t.Context()).Engine == nil {
		t.Error("the engine was given up")
	}
}

// one runs fn with every engine, reached as usual.
func one(t *testing.T, fn func(t *testing.T, s *containertest.Engine, e *Engine, image Image)) {
	for _, s := range engines {
		t.Run(s.Kind, func(t *testing.T) {
			e := openOn(t, s, t.TempDir())
			image, err := e.ImportImage(t.Context(), busybox(t), "busybox")
			if err != nil {
				t.Fatal(err)
			}
			fn(t, s, e, image)
		})
	}
}

func TestVolumesAreListedWithTheirSizeAndRefuseHiding(t *testing.T) {
	one(t, func(t *testing.T, _ *containertest.Engine, e *Engine, image Image) {
		if q := e.Status().Quota; q != "guard" {
			t.Logf("stored data is limited: %s", q)
		}
		v := &Volume{Name: "helix-tool-" + uuid.NewString(), Quota: 4 << 20}
		t.Cleanup(func() { e.RemoveVolume(context.Background(), v.Name) }) //nolint:errcheck // it was removed
		with := func(script string) Spec {
			s := sh(image, script)
			s.Volume = v
			return s
		}
		if r := execute(t, e, with(`dd if=/dev/zero of=/data/a bs=1M count=1 2>/dev/null; dd if=/dev/zero of=/data/sparse bs=1 count=1 seek=3M 2>/dev/null; ln /data/a /data/b; echo ok`)); r.Outcome != Success || r.Usage.DiskBytes < 1<<20 || r.Usage.DiskBytes > 2<<20 {
			t.Errorf("a sparse file and two links count as %d bytes, %s", r.Usage.DiskBytes, r.Outcome)
		}
		list, err := e.Volumes(t.Context())
		if err != nil || len(list) != 1 || list[0].Name != v.Name || list[0].UsedBytes == 0 {
			t.Errorf("%+v, %v", list, err)
		}
		r, err := e.Execute(t.Context(), with(`mkdir -p /data/h/i; i=0; while [ $i -lt 8 ]; do dd if=/dev/zero of=/data/h/i/$i bs=1M count=1 2>/dev/null; i=$((i+1)); done; chmod 000 /data/h/i /data/h; sleep 3600`))
		if err != nil || r.Outcome != Storage {
			t.Errorf("hidden files: %+v, %v", r.Outcome, err)
		}
		if err := e.RemoveVolume(t.Context(), v.Name); err != nil {
			t.Error(err)
		}
		if list, err = e.Volumes(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

func TestRunsFromThePoolBehaveLikeOthers(t *testing.T) {
	each(t, func(t *testing.T, e *Engine, image Image) {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		testkit.Eventually(t, "the pool", func() bool {
			e.mu.Lock()
			defer e.mu.Unlock()
			return e.pooling != nil
		}, func(ok bool) bool { return ok })
		for i := range 3 {
			s := sh(image, "cat; ls -A /tmp; touch /tmp/mark; exit 3")
			s.Input = fmt.Appendf(nil, "run %d", i)
			if r := execute(t, e, s); string(r.Stdout) != string(s.Input) || r.ExitCode != 3 {
				t.Errorf("%q, %+v", r.Stdout, r)
			}
			testkit.Eventually(t, "a prepared container", func() int { return e.Status().Pool }, func(n int) bool { return n == 1 })
		}
		stop()
		if err := <-ended; err != nil || e.Status().Pool != 0 {
			t.Errorf("%d are prepared, %v", e.Status().Pool, err)
		}
	})
}

// The caller of a run does not wait for an engine that is dead.
func TestARunEndsWithItsEngine(t *testing.T) {
	for _, kind := range containertest.Kinds {
		for _, transport := range []string{guest.SocketArg, guest.AttachArg} {
			t.Run(kind+" "+transport, func(t *testing.T) {
				s, err := containertest.Start(kind)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(s.Stop)
				e := openOn(t, s, t.TempDir())
				e.o.Transport = transport
				image, err := e.ImportImage(t.Context(), busybox(t), "busybox")
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				spec := sh(image, "sleep 3600")
				spec.Phase = func(p string) {
					if p == PhaseRunning {
						s.Kill()
						cancel()
					}
				}
				r, err := e.Execute(ctx, spec) // it must return
				if err != nil || r.Outcome != Cancelled {
					t.Errorf("%+v, %v", r, err)
				}
				if n := len(e.Status().Running); n != 0 {
					t.Errorf("%d runs are left over", n)
				}
				if _, err := e.Execute(t.Context(), sh(image, "true")); !fault.Is(err, fault.Unavailable) {
					t.Errorf("without an engine: %v", err)
				}
			})
		}
	}
}
