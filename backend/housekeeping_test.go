package backend

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/pause"
	"helix/backend/scheduler"
	"helix/backend/storage"
)

// Every blob that a row of the caller refers to has a URL; another user's blob does not.
func TestBlobAddressesFollowTheRows(t *testing.T) {
	t.Parallel()
	b := start(t)
	s := b.session(t)
	own := insertModule(t, b, b.LocalUser(), "mine")
	u, err := b.DB.AddUser(t.Context(), "Somebody else")
	if err != nil {
		t.Fatal(err)
	}
	other := u.ID
	strange := insertModule(t, b, other, "theirs")
	var url gateway.BlobURL
	s.call("blobs.url", gateway.BlobParams{SHA256: own.String()}, &url)
	resp, err := http.Get(url.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "mine" {
		t.Errorf("%q, %v", body, err)
	}
	orphan, err := b.DB.Blobs().PutBytes(t.Context(), []byte("nobody's"))
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []storage.Ref{strange, orphan} {
		if err := s.try("blobs.url", gateway.BlobParams{SHA256: ref.String()}, &url); fault.KindOf(err) != fault.NotFound {
			t.Errorf("a blob of others: %v", err)
		}
	}
	// Two users may have the same bytes.
	both := insertModule(t, b, other, "mine")
	if _, _, err := b.downloads.Open(b.as(other), both.SHA256); err != nil {
		t.Errorf("the same bytes of another user: %v", err)
	}
}

// insertModule stores text as the module of a new WASM tool of user.
func insertModule(t *testing.T, b *Backend, user uuid.UUID, text string) storage.Ref {
	t.Helper()
	ref, err := b.DB.Blobs().PutBytes(t.Context(), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256([]byte(text))
	if err := b.DB.Write(b.as(user), func(tx *storage.Tx) error {
		_, err := tx.Exec(`INSERT INTO skills (id, user_id, name, wasm_bytecode, wasm_size, definition_hash, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			storage.NewID(), user, "m-"+hex.EncodeToString(hash[:4]), "sha256:"+ref.String(), ref.Size, hash, tx.Now, tx.Now)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return ref
}

// TestPausedBackgroundWorkStaysPaused pauses, restarts the program and resumes.
func TestPausedBackgroundWorkStaysPaused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	paused := func(b *Backend) (reasons []pause.Reason, schedules bool) {
		var st gateway.SystemStatus
		var sched scheduler.StatusResult
		s := b.session(t)
		s.call("system.status", struct{}{}, &st)
		s.call("schedules.status", struct{}{}, &sched)
		return st.Background.Reasons, sched.PausedAll
	}
	b := startWith(t, testOptions(dir))
	var st pause.State
	b.session(t).call("app.pause_background", PauseBackgroundParams{For: "1h"}, &st)
	if !st.Paused || st.Until == nil {
		t.Errorf("paused as %+v", st)
	}
	if err := b.session(t).try("app.pause_background", PauseBackgroundParams{For: "1w"}, nil); !fault.Is(err, fault.Invalid) {
		t.Errorf("an unknown time: %v", err)
	}
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	b = startWith(t, testOptions(dir))
	if reasons, schedules := paused(b); !slices.Equal(reasons, []pause.Reason{pause.Person}) || !schedules {
		t.Errorf("after a restart: %v, schedules %v", reasons, schedules)
	}
	b.session(t).call("app.pause_background", PauseBackgroundParams{Resume: true}, &st)
	if reasons, schedules := paused(b); len(reasons) > 0 || schedules {
		t.Errorf("after resuming: %v, schedules %v", reasons, schedules)
	}
}
