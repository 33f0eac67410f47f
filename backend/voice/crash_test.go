package voice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"helix/backend/bus"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/transcribe"
)

const (
	crashDir  = "HELIX_VOICE_CRASH_DIR"
	crashStep = "HELIX_VOICE_CRASH_STEP"
	crashFile = "HELIX_VOICE_CRASH_FILE"
)

// crashRoot is the key of the database, which the processes share.
func crashRoot() storage.Root {
	return &storagetest.Root{Key: bytes.Repeat([]byte{7}, storage.RootKeySize)}
}

func crashService(dir string, db *storage.DB) *Service {
	return New(db, Options{Bus: bus.New(), Dir: filepath.Join(dir, "cache"), Engines: []transcribe.Engine{&scripted{id: "pocketsphinx", local: true}}})
}

// crashChild stores and transcribes a recording, and is killed at one of the steps.
func crashChild(dir string) error {
	db, err := storage.Open(context.Background(), storage.Options{Path: filepath.Join(dir, "helix.db"), Keys: storage.NewKeys(crashRoot())})
	if err != nil {
		return err
	}
	ctx := identity.With(context.Background(), identity.Identity{User: db.LocalUser().ID, Scopes: identity.Admin.Closed()})
	s := crashService(dir, db)
	s.crashPoint = func(step string) {
		if step == os.Getenv(crashStep) {
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Kill()
			}
			select {}
		}
	}
	r, err := s.Process(ctx, ProcessParams{Path: os.Getenv(crashFile), Title: "Kept"})
	return errors.Join(err, fmt.Errorf("the step was never reached: %+v", r))
}

// TestKillAtAnyStepLosesNothing kills a process between any two steps from the upload to the stored
// transcript. The next process must have the sound, and transcribes it unless that is already done.
func TestKillAtAnyStepLosesNothing(t *testing.T) {
	t.Parallel()
	file := say(t, "Practice makes perfect.")
	for _, step := range []string{"received", "stored", "claimed", "decoded", "transcribed", "finished"} {
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), crashDir+"="+dir, crashStep+"="+step, crashFile+"="+file)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() == 3 {
			t.Fatalf("%s: %v\n%s", step, err, out)
		}
		db := storagetest.OpenAt(t, filepath.Join(dir, "helix.db"), crashRoot())
		f := &fixture{Service: crashService(dir, db), db: db, ctx: storagetest.Ctx(t, db), t: t}
		l, err := f.ListMemos(f.ctx, ListParams{})
		f.must(err)
		if step == "received" { // the caller has no answer yet, but the file is stored
			n := 0
			f.must(db.Blobs().Each(func(storage.Ref, time.Time) error { n++; return nil }))
			if l.Total != 0 || n != 1 {
				t.Errorf("%s: %d memos, %d files", step, l.Total, n)
			}
			continue
		}
		if l.Total != 1 || !l.Memos[0].HasAudio {
			t.Errorf("%s: %+v", step, l)
			continue
		}
		f.must(f.recover(f.ctx))
		for f.next() {
		}
		if m := f.memo(l.Memos[0].ID); m.Status != completed || m.Text == "" || len(f.jobs()) != 0 {
			t.Errorf("%s: %+v", step, m)
		}
		tr, err := f.GetTranscript(f.ctx, RecordingParams{l.Memos[0].RecordingID})
		if err != nil || len(tr.Versions) != 1 {
			t.Errorf("%s: %d versions, %v", step, len(tr.Versions), err)
		}
		if files, _ := os.ReadDir(f.tempDir()); len(files) > 0 {
			t.Errorf("%s: left %v", step, files)
		}
	}
}
