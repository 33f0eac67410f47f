package picks

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
)

// uploader sends files to Uploads as one user.
type uploader struct {
	*Uploads
	t   *testing.T
	now time.Time
	me  context.Context
}

func newUploader(t *testing.T) *uploader {
	t.Helper()
	u := &uploader{t: t, now: time.Now(), me: identity.With(t.Context(), identity.Identity{User: uuid.New(), Pipe: "websocket"})}
	p := New("", "")
	p.now = func() time.Time { return u.now }
	u.Uploads = NewUploads(t.TempDir(), p, func(context.Context, string) (bool, error) { return false, nil }, slog.New(slog.DiscardHandler))
	return u
}

func (u *uploader) request(ctx context.Context, method, query string, body io.Reader) *http.Request {
	return httptest.NewRequest(method, "/upload?"+query, body).WithContext(ctx)
}

func (u *uploader) send(name, text string) (sent uploaded) {
	u.t.Helper()
	w := httptest.NewRecorder()
	if err := u.Post(w, u.request(u.me, http.MethodPost, "name="+name, strings.NewReader(text))); err != nil {
		u.t.Fatal(err)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &sent); err != nil {
		u.t.Fatal(err)
	}
	return sent
}

func (u *uploader) files() []string {
	u.t.Helper()
	found, err := filepath.Glob(filepath.Join(u.dir, "*"))
	if err != nil {
		u.t.Fatal(err)
	}
	return found
}

func TestOnlyTheOwnerDeletesAnUpload(t *testing.T) {
	t.Parallel()
	u := newUploader(t)
	sent := u.send("a.txt", "a text of mine")
	other := identity.With(t.Context(), identity.Identity{User: uuid.New(), Pipe: "websocket"})
	if err := u.Delete(httptest.NewRecorder(), u.request(other, http.MethodDelete, "token="+sent.Token, nil)); !fault.Is(err, fault.NotFound) || len(u.files()) != 1 {
		t.Errorf("another user: %v, %d files", err, len(u.files()))
	}
	if err := u.Delete(httptest.NewRecorder(), u.request(u.me, http.MethodDelete, "token="+sent.Token, nil)); err != nil || len(u.files()) != 0 {
		t.Errorf("the owner: %v, %d files", err, len(u.files()))
	}
}

func TestUploadsAboveTheLimitAreRefused(t *testing.T) {
	t.Parallel()
	u := newUploader(t)
	u.max = 1 << 20
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := u.Post(w, r.WithContext(u.me))
		if !fault.Is(err, fault.Limit) {
			t.Errorf("ended with %v", err)
		}
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	}))
	defer server.Close()
	big := bytes.Repeat([]byte("x"), 1<<20+1)
	for name, body := range map[string]io.Reader{"with its length": bytes.NewReader(big), "in chunks": struct{ io.Reader }{bytes.NewReader(big)}} {
		resp, err := http.Post(server.URL+"/upload?name=a", "application/octet-stream", body)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_ = resp.Body.Close()
		if len(u.files()) != 0 {
			t.Errorf("%s: left %v", name, u.files())
		}
	}
}

// TestCanceledUploadLeavesNothing aborts an upload in the middle.
func TestCanceledUploadLeavesNothing(t *testing.T) {
	t.Parallel()
	u := newUploader(t)
	ended := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ended <- u.Post(w, r.WithContext(identity.With(r.Context(), identity.Identity{User: uuid.New()})))
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	body, write := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/upload?name=a.zip", body)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		answered <- err
	}()
	if _, err := write.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
		t.Fatal(err)
	}
	cancel()
	_ = write.CloseWithError(context.Canceled)
	if err := <-answered; err == nil {
		t.Error("the upload was answered")
	}
	if err := <-ended; err == nil || len(u.files()) != 0 {
		t.Errorf("ended with %v, left %v", err, u.files())
	}
}

// TestUnusedUploadsAreRemoved leaves uploads unused, ends the process and starts it again.
func TestUnusedUploadsAreRemoved(t *testing.T) {
	t.Parallel()
	u := newUploader(t)
	sent := u.send("a.txt", "a text of mine")
	u.Sweep(u.me)
	if len(u.files()) != 1 {
		t.Fatal("an upload with a token was removed")
	}
	u.now = u.now.Add(uploadLife - time.Minute)
	if _, err := u.picks.Resolve(u.me, sent.Token, false); err != nil {
		t.Fatal(err)
	}
	u.now = u.now.Add(uploadLife - time.Minute) // counted from the last use
	if u.Sweep(u.me); len(u.files()) != 1 {
		t.Fatal("an upload that was used lately was removed")
	}
	u.now = u.now.Add(2 * time.Minute)
	if u.Sweep(u.me); len(u.files()) != 0 {
		t.Errorf("%v is left", u.files())
	}
	half := filepath.Join(u.dir, "upload-123")
	if err := os.WriteFile(half, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if u.Sweep(u.me); len(u.files()) != 1 {
		t.Error("a file that arrives was removed")
	}
	if NewUploads(u.dir, u.picks, u.reading, u.log); len(u.files()) != 0 {
		t.Errorf("after a restart: left %v", u.files())
	}
}
