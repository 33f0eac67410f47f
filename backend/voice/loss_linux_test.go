package voice

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"helix/backend/audio"
	"helix/backend/audio/capture"
	"helix/backend/audio/capture/capturetest"
	"helix/backend/bus"
	"helix/backend/identity"
	"helix/backend/safehttp"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/transcribe"
)

const (
	lossSound = "HELIX_VOICE_LOSS_SOUND" // the file of what the microphone hears
	lossKind  = "HELIX_VOICE_LOSS_KIND"  // kill, full or unplug
	lossAt    = "HELIX_VOICE_LOSS_AT"    // after so many samples
	lossPiece = audio.Rate / 100
	mostLost  = audio.Rate / 10
)

// lossChild records and prints how many samples the microphone has heard, until the disk is full, the
// microphone has gone, or this process is killed.
func lossChild(dir string) error {
	sound, err := wavSamples(os.Getenv(lossSound))
	if err != nil {
		return err
	}
	at, err := strconv.Atoi(os.Getenv(lossAt))
	if err != nil {
		return err
	}
	db, err := storage.Open(context.Background(), storage.Options{Path: filepath.Join(dir, "helix.db"), Keys: storage.NewKeys(crashRoot())})
	if err != nil {
		return err
	}
	ctx := identity.With(context.Background(), identity.Identity{User: db.LocalUser().ID, Scopes: identity.Admin.Closed()})
	mic := &capturetest.Mic{}
	s := lossService(dir, db, mic)
	written, lost := make(chan int64, 10_000), make(chan struct{}, 1)
	bus.Subscribe(s.o.Bus, func(_ uuid.UUID, l LevelChanged) { written <- l.ElapsedMs * audio.Rate / 1000 })
	bus.Subscribe(s.o.Bus, func(_ uuid.UUID, c StateChanged) {
		if c.State == StateError {
			lost <- struct{}{}
		}
	})
	go func() { _ = s.Run(ctx) }() // until this process ends
	if _, err := s.Start(ctx, StartParams{Title: "Kept"}); err != nil {
		return err
	}
	kind, stored := os.Getenv(lossKind), int64(0)
	for n := 0; n+lossPiece <= len(sound); n += lossPiece {
		if n >= at && kind == "full" {
			if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(2*n + 1), Max: uint64(2*n + 1)}); err != nil {
				return err
			}
			at = len(sound)
		}
		if n >= at && kind == "unplug" {
			mic.Unplug(capture.ErrNoMicrophone)
			break
		}
		for stored < int64(n+lossPiece-mostLost) { // in real time, the writer is never further behind
			select {
			case stored = <-written:
			case <-lost:
				fmt.Println("lost")
				select {}
			}
		}
		mic.Play(sound[n : n+lossPiece])
		fmt.Println(n + lossPiece)
	}
	<-lost
	fmt.Println("lost")
	select {}
}

func lossService(dir string, db *storage.DB, mic capture.Microphone) *Service {
	return New(db, Options{Bus: bus.New(), Dir: filepath.Join(dir, "cache"), Recordings: filepath.Join(dir, "recordings"), Microphone: mic, Engines: []transcribe.Engine{&scripted{id: "pocketsphinx", local: true}}})
}

// wavSamples returns the samples of a file at 16 kHz.
func wavSamples(path string) (out []float32, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	_, src, err := audio.Speech(f)
	if err != nil {
		return nil, err
	}
	for buf := make([]float32, 4096); ; {
		n, err := src.Read(buf)
		out = append(out, buf[:n]...)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// TestNothingIsLostAtAnyMomentOfARecording ends recordings at different moments in different ways: the
// process is killed, the disk is full, or the microphone is unplugged and the process killed soon
// afterwards. The next process must have all but the last 100 ms, and transcribes it.
func TestNothingIsLostAtAnyMomentOfARecording(t *testing.T) {
	t.Parallel()
	said := say(t, "Practice makes perfect. Practice makes perfect.")
	sound, err := wavSamples(said)
	if err != nil {
		t.Fatal(err)
	}
	moments := map[string][]int{"kill": {4000, 12_320, 30_000}, "full": {24_160}, "unplug": {16_000}}
	if os.Getenv("HELIX_LONG") != "" {
		for kind := range moments {
			moments[kind] = nil
			for range 20 {
				moments[kind] = append(moments[kind], 2*mostLost+rand.IntN(len(sound)-4*mostLost))
			}
		}
	}
	for kind, list := range moments {
		for _, at := range list {
			name := fmt.Sprintf("%s at %d of %d samples", kind, at, len(sound))
			dir := t.TempDir()
			played := lose(t, dir, said, kind, at)
			db := storagetest.OpenAt(t, filepath.Join(dir, "helix.db"), crashRoot())
			f := &fixture{Service: lossService(dir, db, &capturetest.Mic{}), db: db, ctx: storagetest.Ctx(t, db), t: t}
			f.must(f.recover(f.ctx))
			f.recoverParts(f.ctx)
			for f.next() {
			}
			l, err := f.ListMemos(f.ctx, ListParams{})
			f.must(err)
			if l.Total != 1 || l.Memos[0].Title != "Kept" || l.Memos[0].Status != completed || at > 2*leastSpeech*audio.Rate/1000 && l.Memos[0].Text == "" || len(f.parts()) != 0 {
				t.Errorf("%s: %+v, files %v", name, l, f.parts())
				continue
			}
			got := f.samplesOf(l.Memos[0].RecordingID)
			if len(got) < played-mostLost || len(got) > len(sound) {
				t.Errorf("%s: %d samples of %d are left", name, len(got), played)
			}
			for i, v := range got {
				if audio.PCM16(v) != audio.PCM16(sound[i]) {
					t.Errorf("%s: sample %d differs", name, i)
					break
				}
			}
			f.must(f.Close())
			f.must(db.Close())
		}
	}
}

// lose lets a process record until the moment and kills it. It returns the number of samples that
// the microphone had heard.
func lose(t *testing.T, dir, said, kind string, at int) (played int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashDir+"="+dir, lossKind+"="+kind, lossSound+"="+said, lossAt+"="+strconv.Itoa(at))
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	for in := bufio.NewScanner(out); in.Scan(); {
		if in.Text() == "lost" {
			return played
		}
		if played, err = strconv.Atoi(in.Text()); err != nil {
			t.Fatal(err)
		}
		if kind == "kill" && played >= at {
			return played
		}
	}
	_ = cmd.Wait()
	t.Fatalf("%s at %d: the process ended by itself\n%s", kind, at, log.String())
	return 0
}

// samplesOf decodes the stored sound of a recording.
func (f *fixture) samplesOf(recording uuid.UUID) []float32 {
	f.t.Helper()
	sum, _, err := f.Sound(f.ctx, AudioURLParams{RecordingID: recording})
	f.must(err)
	ref, err := blobRef(blobPrefix + sum)
	f.must(err)
	in, err := f.db.Blobs().Open(ref)
	f.must(err)
	defer in.Close()
	path := filepath.Join(f.t.TempDir(), "sound")
	b, err := io.ReadAll(in)
	f.must(err)
	f.must(os.WriteFile(path, b, 0o600))
	out, err := wavSamples(path)
	f.must(err)
	return out
}

// TestDeadNetworkLosesNothing cuts the connections to the service at different moments of a recording.
func TestDeadNetworkLosesNothing(t *testing.T) {
	t.Parallel()
	said, err := wavSamples(say(t, "Practice makes perfect."))
	if err != nil {
		t.Fatal(err)
	}
	for _, moment := range []string{"before the start", "during the recording", "after the end", "during the upload"} {
		var down, cut atomic.Bool
		streaming := make(chan struct{}, 10)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				n := int64(1 << 40)
				if cut.Load() {
					n = 8000
				}
				_, _ = io.CopyN(io.Discard, r.Body, n)
			}
			if down.Load() || cut.Load() {
				panic(http.ErrAbortHandler) // closes the connection
			}
			if r.Method == http.MethodPost {
				_ = json.NewEncoder(w).Encode(map[string]any{"results": map[string]any{"channels": []any{map[string]any{"alternatives": []any{map[string]any{"transcript": "Practice makes perfect.", "confidence": 0.9}}}}}})
				return
			}
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer c.CloseNow()
			for err == nil {
				_, _, err = c.Read(r.Context())
				select {
				case streaming <- struct{}{}:
				default:
				}
			}
		}))
		client := safehttp.New(safehttp.Options{AllowLoopback: func(int) bool { return true }, MaxRedirects: -1})
		mic := &capturetest.Mic{}
		f := newFixture(t, func(o *Options) {
			o.Microphone, o.Recordings = mic, t.TempDir()
			o.Engines[1] = transcribe.NewDeepgram(transcribe.DeepgramOptions{URL: server.URL, HTTP: client, Key: func(context.Context) (string, error) { return "key", nil }})
		})
		service := "deepgram"
		_, err := f.UpdateSettings(f.ctx, SettingsParams{Provider: &service})
		f.must(err)
		down.Store(moment == "before the start")
		r, err := f.Start(f.ctx, StartParams{Stream: true})
		f.must(err)
		for i, part := range slices.Collect(slices.Chunk(said, 800)) {
			if i == 10 && moment == "during the recording" {
				<-streaming
				down.Store(true)
				server.CloseClientConnections()
			}
			mic.Play(part)
		}
		stopped, err := f.Stop(f.ctx, StopParams{})
		f.must(err)
		down.Store(moment != "during the upload")
		cut.Store(moment == "during the upload")
		if !f.next() {
			t.Errorf("%s: no job was due", moment)
		}
		if m := f.memo(*stopped.MemoID); m.Status != pending || m.Error == "" {
			t.Errorf("%s: %+v", moment, m)
		}
		if got := f.samplesOf(r.RecordingID); len(got) != len(said) {
			t.Errorf("%s: %d samples of %d", moment, len(got), len(said))
		}
		down.Store(false)
		cut.Store(false)
		_, err = f.Retry(f.ctx, JobParams{f.jobs()[0].ID})
		f.must(err)
		f.next()
		if m := f.memo(*stopped.MemoID); m.Status != completed || !strings.HasPrefix(m.Text, "Practice") {
			t.Errorf("%s: once there is a network again: %+v", moment, m)
		}
		f.must(f.Close())
		client.Close()
		server.Close()
	}
}
