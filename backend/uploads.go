package backend

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/identity"
	"helix/backend/memory"
)

const (
	maxUpload   = 4 << 30 // the largest file that an import reads
	uploadSweep = 10 * time.Minute
	partUploads = "upload-*" // what the gateway calls a file that is still arriving
)

// uploads keeps files that a browser sent until a method has read them. Each has a token as a file
// from a native dialog has. A file goes when its token has expired and no import reads it, when
// its import ends, or when its owner deletes it.
type uploads struct {
	dir     string
	max     int64
	receive func(w http.ResponseWriter, r *http.Request, part string, max int64) (*gateway.Upload, error)
	picks   *Picks
	reading func(ctx context.Context, path string) (bool, error) // an import reads the file
	bus     *bus.Bus
	log     *slog.Logger
	again   chan struct{} // a sweep is wanted
}

// uploaded is the answer of POST /upload.
type uploaded struct {
	Token string `json:"token"` // stands for the path of the file in methods that read one
	Name  string `json:"name"`
	Size  int64  `json:"size"`
}

// openUploads removes what a killed program left in dir. A folder that cannot be written, as on a
// full disk, fails uploads and nothing else.
func openUploads(dir string, picks *Picks, log *slog.Logger) *uploads {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		log.Warn("files cannot be uploaded", "err", err)
	}
	u := &uploads{dir: dir, max: maxUpload, picks: picks, log: log, again: make(chan struct{}, 1)}
	parts, err := filepath.Glob(filepath.Join(dir, partUploads))
	if err != nil {
		log.Warn("list unfinished uploads", "err", err)
	}
	for _, p := range parts {
		u.remove(p)
	}
	return u
}

// post answers POST /upload?name=NAME: the body is a file of the caller's.
func (u *uploads) post(w http.ResponseWriter, r *http.Request) error {
	name := filepath.Base(strings.ToValidUTF8(strings.ReplaceAll(r.URL.Query().Get("name"), "\x00", ""), "�"))
	if name == "." || name == "/" || len(name) > 255 {
		return fault.Invalidf("Name the file: POST /upload?name=NAME, with a name of at most 255 bytes.")
	}
	up, err := u.receive(w, r, "file", u.max)
	if err != nil {
		return err
	}
	path := filepath.Join(u.dir, uuid.NewString())
	answer := uploaded{Token: u.picks.addUpload(identity.UserID(r.Context()), path, name), Name: name, Size: up.Size} // first, for sweep
	if err := errors.Join(up.File.Close(), os.Rename(up.File.Name(), path)); err != nil {
		u.picks.forget(answer.Token)
		u.remove(up.File.Name())
		return fault.Internalf(err, "The upload could not be stored.")
	}
	if r.Context().Err() != nil { // nobody has the token
		u.picks.forget(answer.Token)
		u.remove(path)
		return r.Context().Err()
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	w.Write(append(body, '\n')) //nolint:errcheck // the client has gone
	return nil
}

// delete answers DELETE /upload?token=TOKEN. An import that reads the file keeps it until it ends.
func (u *uploads) delete(w http.ResponseWriter, r *http.Request) error {
	token := r.URL.Query().Get("token")
	path, ok := u.picks.uploaded(identity.UserID(r.Context()), token)
	if !ok {
		return fault.NotFoundf("There is no such upload.")
	}
	u.picks.forget(token)
	u.drop(r.Context(), path)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// run removes files that nobody needs any more until ctx ends.
func (u *uploads) run(ctx context.Context) error {
	defer bus.Subscribe(u.bus, func(uuid.UUID, memory.ImportDone) { u.wake() })()
	tick := time.NewTicker(uploadSweep)
	defer tick.Stop()
	for {
		u.sweep(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-u.again:
		case <-tick.C:
		}
	}
}

// wake has run sweep soon.
func (u *uploads) wake() {
	select {
	case u.again <- struct{}{}:
	default: // a sweep waits already
	}
}

// sweep removes the files that have neither a token nor an import.
func (u *uploads) sweep(ctx context.Context) {
	files, err := os.ReadDir(u.dir)
	if err != nil {
		u.log.Warn("uploads cannot be looked through", "err", err)
		return
	}
	for _, f := range files {
		path := filepath.Join(u.dir, f.Name())
		if part, _ := filepath.Match(partUploads, f.Name()); part || u.picks.keeps(path) {
			continue
		}
		u.drop(ctx, path)
	}
}

// drop removes a file unless an import reads it.
func (u *uploads) drop(ctx context.Context, path string) {
	busy, err := u.reading(ctx, path)
	if err != nil {
		u.log.Warn("an upload is kept: it is not known if an import reads it", "err", err)
	}
	if err == nil && !busy {
		u.remove(path)
	}
}

func (u *uploads) remove(path string) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		u.log.Warn("an upload was not removed", "err", err)
	}
}
