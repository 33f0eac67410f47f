package backend

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/identity"
	"helix/backend/memory"
	"helix/backend/memory/search"
	"helix/backend/picks"
	"helix/backend/psychology"
	"helix/backend/storage"
)

// uploaded is the response of POST /upload.
type uploaded struct {
	Token, Name string
	Size        int64
}

// uploader sends files to a backend as a browser does.
type uploader struct {
	*Backend
	t     *testing.T
	token string // of a session with the scopes read and write
}

func newUploader(t *testing.T) *uploader {
	t.Helper()
	u := &uploader{Backend: start(t), t: t}
	u.token = u.tokenFor("read", "write", "approve")
	return u
}

// tokenFor opens a browser session as `helix ui` does.
func (u *uploader) tokenFor(scopes ...string) string {
	u.t.Helper()
	var ticket gateway.Ticket
	u.session(u.t).call("sessions.ticket", map[string]any{"scopes": scopes}, &ticket)
	_, fragment, _ := strings.Cut(ticket.URL, "#ticket=")
	resp, err := http.Post(u.Gateway.URL()+"/session", "application/json", strings.NewReader(`{"ticket":"`+fragment+`"}`))
	if err != nil {
		u.t.Fatal(err)
	}
	defer resp.Body.Close()
	var s struct{ Token string }
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil || s.Token == "" {
		u.t.Fatalf("no session: %d, %v", resp.StatusCode, err)
	}
	return s.Token
}

func (u *uploader) do(method, query string, body io.Reader, change func(*http.Request)) (int, uploaded) {
	u.t.Helper()
	req, err := http.NewRequestWithContext(u.t.Context(), method, u.Gateway.URL()+"/upload?"+query, body)
	if err != nil {
		u.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+u.token)
	req.Header.Set("Origin", u.Gateway.URL())
	req.Header.Set("Content-Type", "application/octet-stream")
	if change != nil {
		change(req)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		u.t.Fatal(err)
	}
	defer resp.Body.Close()
	var a uploaded
	if resp.StatusCode == http.StatusCreated {
		if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
			u.t.Fatal(err)
		}
	}
	return resp.StatusCode, a
}

func (u *uploader) send(name, text string) uploaded {
	u.t.Helper()
	status, a := u.do(http.MethodPost, "name="+url.QueryEscape(name), strings.NewReader(text), nil)
	if status != http.StatusCreated || a.Name != name || a.Size != int64(len(text)) || !strings.HasPrefix(a.Token, picks.Prefix) {
		u.t.Fatalf("upload of %s: %d %+v", name, status, a)
	}
	return a
}

// files returns the content of the uploads folder.
func (u *uploader) files() []string {
	u.t.Helper()
	entries, err := os.ReadDir(filepath.Join(u.Config.Paths().Cache, "uploads"))
	if err != nil {
		u.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// browser returns a session over the socket with the token of the browser.
func (u *uploader) browser() *remote {
	u.t.Helper()
	c, err := gateway.Dial(u.t.Context(), gateway.ClientOptions{URL: u.Gateway.URL(), Token: u.token, Scopes: []string{"read", "write", "approve"}, Client: gateway.ClientInfo{ID: "browser"}})
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() { _ = c.Close() })
	return &remote{u.t, c}
}

func (u *uploader) imported(r *remote, token string) memory.ImportStatus {
	u.t.Helper()
	ended := make(chan memory.ImportStatus, 1)
	defer bus.Subscribe(u.Bus, func(_ uuid.UUID, e memory.ImportDone) { ended <- e.ImportStatus })()
	var job memory.JobResult
	r.call("memory.import", memory.ImportParams{Path: token}, &job)
	select {
	case st := <-ended:
		return st
	case <-u.t.Context().Done():
		u.t.Fatal("the import did not end")
		return memory.ImportStatus{}
	}
}

// TestUploadedFileIsImported uploads a file, previews and imports it with the permissions of a
// browser session, which may not specify paths. Importing the same file again adds nothing, though
// it has another path. Uploads are removed after their import.
func TestUploadedFileIsImported(t *testing.T) {
	t.Parallel()
	u := newUploader(t)
	r := u.browser()
	const text = "The boiler was serviced in March.\n\nThe plumber is called Rosa."
	for round, want := range []struct{ added, skipped int64 }{{1, 0}, {0, 1}} {
		sent := u.send("house notes.txt", text)
		var p memory.PreviewResult
		r.call("memory.import_preview", memory.ImportParams{Path: sent.Token}, &p)
		if p.Format != "text" || p.Items == 0 {
			t.Fatalf("round %d: preview %+v", round, p)
		}
		st := u.imported(r, sent.Token)
		if st.Status != "completed" || st.Path != "house notes.txt" || (st.Added > 0) != (want.added > 0) || (st.Skipped > 0) != (want.skipped > 0) {
			t.Errorf("round %d: %+v", round, st)
		}
		if err := r.try("memory.import_preview", memory.ImportParams{Path: sent.Token}, nil); !fault.Is(err, fault.Denied) {
			t.Errorf("round %d: the token was accepted after the import: %v", round, err)
		}
		u.uploads.Sweep(t.Context())
		if left := u.files(); len(left) != 0 {
			t.Errorf("round %d: %v is left", round, left)
		}
	}
	var found search.Result
	r.call("memory.search", search.Params{Query: "plumber", Mode: "keyword"}, &found)
	if len(found.Results) != 1 || !found.Results[0].Untrusted {
		t.Errorf("found %+v", found.Results)
	}
	if err := r.try("memory.import", memory.ImportParams{Path: filepath.Join(u.Config.Paths().Data, "helix.db")}, nil); !fault.Is(err, fault.Denied) {
		t.Errorf("a browser session named a path: %v", err)
	}
}

// sendFolder uploads a folder; with the name "" the files have no common folder.
func (u *uploader) sendFolder(name string, files map[string]string) uploaded {
	u.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for path, text := range files {
		p, err := form.CreatePart(textproto.MIMEHeader{"Content-Disposition": {`form-data; name="file"; filename="` + path + `"`}})
		if err != nil {
			u.t.Fatal(err)
		}
		if _, err := io.WriteString(p, text); err != nil {
			u.t.Fatal(err)
		}
	}
	if err := form.Close(); err != nil {
		u.t.Fatal(err)
	}
	status, a := u.do(http.MethodPost, "folder=true&name="+url.QueryEscape(name), &body, func(r *http.Request) { r.Header.Set("Content-Type", form.FormDataContentType()) })
	if status != http.StatusCreated {
		u.t.Fatalf("upload of %s: %d %+v", name, status, a)
	}
	return a
}

// TestUploadedFolderIsImported uploads a folder of notes twice: the second time one note changed,
// one is deleted and one is new. The uploads have different paths, and are removed after their
// import.
func TestUploadedFolderIsImported(t *testing.T) {
	t.Parallel()
	u := newUploader(t)
	r := u.browser()
	for round, c := range []struct {
		files                   map[string]string
		added, updated, skipped int64
		vanished                []string
	}{
		{map[string]string{"House/boiler.md": "# Boiler\n\nServiced in March. See [[Plumber]].", "Plumber #1.md": "Rosa", "Plumber.md": "Her name is Rosa."}, 3, 0, 0, nil},
		{map[string]string{"House/boiler.md": "# Boiler\n\nServiced in April. See [[Plumber]].", "Plumber.md": "Her name is Rosa.", "new.md": "A new note."}, 1, 1, 1, []string{"Plumber #1.md"}},
	} {
		sent := u.sendFolder("My vault", c.files)
		var p memory.PreviewResult
		r.call("memory.import_preview", memory.ImportParams{Path: sent.Token}, &p)
		if p.Format != "markdown" || int(p.Items) != len(c.files) {
			t.Fatalf("round %d: preview %+v", round, p)
		}
		st := u.imported(r, sent.Token)
		if st.Status != "completed" || st.Path != "My vault" || st.Added != c.added || st.Updated != c.updated || st.Skipped != c.skipped || !slices.Equal(st.Vanished, c.vanished) {
			t.Errorf("round %d: %+v", round, st)
		}
		u.uploads.Sweep(t.Context())
		if left := u.files(); len(left) != 0 {
			t.Errorf("round %d: %v is left", round, left)
		}
	}
}

// TestUploadedFilesWithoutFolderAreKnownByTheirNames uploads several files at once, and one of them
// alone afterwards.
func TestUploadedFilesWithoutFolderAreKnownByTheirNames(t *testing.T) {
	t.Parallel()
	u := newUploader(t)
	r := u.browser()
	if st := u.imported(r, u.sendFolder("", map[string]string{"a.md": "# The first note", "b.md": "# The second note"}).Token); st.Added != 2 || st.Path != "Several files" {
		t.Errorf("both: %+v", st)
	}
	if st := u.imported(r, u.sendFolder("", map[string]string{"b.md": "# The second note", "c.md": "# The third note"}).Token); st.Added != 1 || st.Skipped != 1 || len(st.Vanished) != 0 {
		t.Errorf("another two: %+v", st)
	}
	if st := u.imported(r, u.send("a.md", "# The first note").Token); st.Added != 0 || st.Skipped != 1 {
		t.Errorf("one alone: %+v", st)
	}
}

// TestUploadedPsychologyIsImported uploads an export as a folder and as a file, both without a
// path.
func TestUploadedPsychologyIsImported(t *testing.T) {
	t.Parallel()
	u := newUploader(t)
	r := u.browser()
	goal := `{"version":1,"entries":[{"id":"` + uuid.NewString() + `","layerNumber":4,"kind":"goal","data":{"title":"Learn Portuguese"},"memoryIds":[],"origin":"person","initialStrength":1,
		"salienceTier":"medium","createdAt":"2024-01-01T00:00:00Z","updatedAt":"2024-01-01T00:00:00Z"}]}`
	var n psychology.Counts
	r.call("psychology.import", psychology.ImportParams{Path: u.sendFolder("export", map[string]string{"identity/goals.json": goal}).Token}, &n)
	if n.Files != 1 || n.Entries != 1 {
		t.Errorf("imported %+v", n)
	}
	u.uploads.Sweep(t.Context())
	if left := u.files(); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
	if err := r.try("psychology.import", psychology.ImportParams{Path: u.sendFolder("other", map[string]string{"x.json": goal}).Token}, nil); !fault.Is(err, fault.NotFound) {
		t.Errorf("a folder without an export: %v", err)
	}
	dir := t.TempDir()
	if err := r.try("psychology.import", psychology.ImportParams{Path: dir}, nil); !fault.Is(err, fault.Invalid) {
		t.Errorf("a browser session named a folder: %v", err)
	}
}

// TestOnlyThePersonHasAFolderWatched checks that only a session with all scopes may specify a path,
// and that an uploaded copy does not count as the folder itself.
func TestOnlyThePersonHasAFolderWatched(t *testing.T) {
	t.Parallel()
	u := newUploader(t)
	r := u.browser()
	if err := r.try("memory.watch_add", memory.WatchAddParams{Path: t.TempDir()}, nil); !fault.Is(err, fault.Denied) {
		t.Errorf("a browser session named a folder: %v", err)
	}
	if err := r.try("memory.watch_add", memory.WatchAddParams{Path: u.sendFolder("vault", map[string]string{"a.md": "one"}).Token}, nil); !fault.Is(err, fault.Invalid) {
		t.Errorf("a copy is watched: %v", err)
	}
	var w memory.WatchedFolder
	u.session(t).call("memory.watch_add", memory.WatchAddParams{Path: t.TempDir()}, &w)
	r.call("memory.watch_pause", memory.WatchParams{WatchID: w.WatchID}, &w)
	if w.State != "paused" {
		t.Errorf("paused: %+v", w)
	}
}

const uploadKilledDir = "HELIX_TEST_UPLOAD_KILLED_DIR"

// TestKillBetweenUploadAndImportLeavesNothing kills a process that has received a folder, before it
// is imported. The next start removes the folder.
func TestKillBetweenUploadAndImportLeavesNothing(t *testing.T) {
	if dir := os.Getenv(uploadKilledDir); dir != "" {
		u := &uploader{Backend: startWith(t, testOptions(dir)), t: t}
		u.token = u.tokenFor("read", "write", "approve")
		u.sendFolder("vault", map[string]string{"sub/a.md": "# A note"})
		u.send("b.md", "# Another note")
		fmt.Println("received")
		select {} // until it is killed
	}
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKillBetweenUploadAndImportLeavesNothing$")
	cmd.Env = append(os.Environ(), uploadKilledDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "received" {
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if left, err := os.ReadDir(filepath.Join(dir, "cache", "uploads")); err != nil || len(left) != 2 {
		t.Fatalf("the killed process left %v, %v", left, err)
	}
	u := &uploader{Backend: startWith(t, testOptions(dir)), t: t}
	u.uploads.Sweep(t.Context())
	if left := u.files(); len(left) != 0 {
		t.Errorf("after the next start: %v", left)
	}
}

// TestUploadedBackupIsRestored verifies and restores an uploaded backup.
func TestUploadedBackupIsRestored(t *testing.T) {
	t.Parallel()
	u := newUploader(t)
	admin := u.session(t)
	admin.call("memory.add", memory.AddParams{Content: "before the backup"}, nil)
	file := filepath.Join(t.TempDir(), "a.zip")
	admin.call("storage.backup", storage.BackupParams{Path: file}, nil)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sent := u.send("a.zip", string(data))
	var checked storage.VerifyBackupResult
	u.browser().call("storage.verify_backup", storage.VerifyBackupParams{Path: sent.Token}, &checked)
	if !checked.OK {
		t.Errorf("the backup is not right: %v", checked.Problems)
	}
	admin.call("memory.add", memory.AddParams{Content: "after the backup"}, nil)
	admin.call("storage.restore", storage.RestoreParams{Path: sent.Token}, nil)
	var l memory.ListResult
	u.session(t).call("memory.list", memory.ListParams{}, &l)
	if l.Total != 1 || l.Items[0].Content != "before the backup" {
		t.Errorf("after the restore: %+v", l.Items)
	}
}

// TestUploadRefusals sends uploads that must be refused: nothing is stored.
func TestUploadRefusals(t *testing.T) {
	t.Parallel()
	u := newUploader(t)
	reader := u.tokenFor("read")
	for name, c := range map[string]struct {
		query  string
		body   io.Reader
		change func(*http.Request)
		want   int
	}{
		"no name":               {"", strings.NewReader("x"), nil, http.StatusUnprocessableEntity},
		"no session":            {"name=a", strings.NewReader("x"), func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusUnauthorized},
		"wrong session":         {"name=a", strings.NewReader("x"), func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+strings.Repeat("0", 64)) }, http.StatusUnauthorized},
		"session that may read": {"name=a", strings.NewReader("x"), func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+reader) }, http.StatusForbidden},
		"foreign origin":        {"name=a", strings.NewReader("x"), func(r *http.Request) { r.Header.Set("Origin", "https://example.org") }, http.StatusForbidden},
		"cross-site":            {"name=a", strings.NewReader("x"), func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden},
		"foreign host":          {"name=a", strings.NewReader("x"), func(r *http.Request) { r.Host = "example.org" }, http.StatusForbidden},
	} {
		if status, _ := u.do(http.MethodPost, c.query, c.body, c.change); status != c.want {
			t.Errorf("%s: %d, want %d", name, status, c.want)
		}
	}
	if status, _ := u.do(http.MethodPut, "name=a", strings.NewReader("x"), nil); status != http.StatusMethodNotAllowed {
		t.Errorf("PUT: %d", status)
	}
	if left := u.files(); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
	if status, a := u.do(http.MethodPost, "name=../../evil", strings.NewReader("x"), nil); status != http.StatusCreated || a.Name != "evil" {
		t.Errorf("a name with folders: %d, %+v", status, a)
	}
}

// TestUploadTokenBelongsToItsUser uses and deletes another user's upload.
func TestUploadTokenBelongsToItsUser(t *testing.T) {
	t.Parallel()
	u := newUploader(t)
	sent := u.send("a.txt", "a text of mine")
	other := identity.With(t.Context(), identity.Identity{User: uuid.New(), Scopes: identity.Admin.Closed(), Pipe: "websocket"})
	if _, err := u.Picks.Resolve(other, sent.Token, false); !fault.Is(err, fault.Denied) {
		t.Errorf("another user read it: %v", err)
	}
	if status, _ := u.do(http.MethodDelete, "token=pick:0000", nil, nil); status != http.StatusNotFound {
		t.Errorf("DELETE of an unknown token: %d", status)
	}
	if status, _ := u.do(http.MethodDelete, "token="+sent.Token, nil, nil); status != http.StatusNoContent || len(u.files()) != 0 {
		t.Errorf("DELETE of my own: %d, left %v", status, u.files())
	}
	if err := u.browser().try("memory.import_preview", memory.ImportParams{Path: sent.Token}, nil); !fault.Is(err, fault.Denied) {
		t.Errorf("a deleted upload was read: %v", err)
	}
}
