package picks

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/identity"
)

const (
	maxBytes    = 4 << 30 // maximum size of a file or a folder for an import
	maxFiles    = 100_000 // maximum number of files in a folder for an import
	uploadSweep = 10 * time.Minute
	partUploads = "upload-*" // the gateway's name for a file that is still being received
)

// NoFolder is the name of an upload of several files without a common folder.
const NoFolder = "."

// Uploads stores files and folders sent by a browser until a method has read them. Each has a token
// like a file from a native dialog. An upload is deleted when its token has expired and nothing
// reads it, when Wake is called after the end of its import, or when its owner deletes it.
type Uploads struct {
	dir      string
	max      int64
	maxFiles int
	picks    *Picks
	reading  func(ctx context.Context, path string) (bool, error)
	log      *slog.Logger
	again    chan struct{} // requests a sweep
}

// uploaded is the response of POST /upload.
type uploaded struct {
	Token string `json:"token"` // replaces the path of the file in methods that read one
	Name  string `json:"name"`
	Size  int64  `json:"size"`
}

// NewUploads deletes what a killed process left in dir. If the folder cannot be written, such as on
// a full disk, only uploads fail. reading reports whether a file is being read.
func NewUploads(dir string, picks *Picks, reading func(ctx context.Context, path string) (bool, error), log *slog.Logger) *Uploads {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		log.Warn("files cannot be uploaded", "err", err)
	}
	u := &Uploads{dir: dir, max: maxBytes, maxFiles: maxFiles, picks: picks, reading: reading, log: log, again: make(chan struct{}, 1)}
	parts, err := filepath.Glob(filepath.Join(dir, partUploads))
	if err != nil {
		log.Warn("list unfinished uploads", "err", err)
	}
	for _, p := range parts {
		u.remove(p)
	}
	return u
}

// Post handles POST /upload?name=NAME. The body is a file. With folder=true it is a multipart form
// in which the file name of each part is its path in the folder NAME; without a name the files have
// no common folder.
func (u *Uploads) Post(w http.ResponseWriter, r *http.Request) error {
	folder := r.URL.Query().Get("folder") == "true"
	name := filepath.Base(strings.ToValidUTF8(strings.ReplaceAll(r.URL.Query().Get("name"), "\x00", ""), "�"))
	if name == NoFolder && !folder || name == ".." || name == "/" || len(name) > 255 {
		return fault.Invalidf("Name the file: POST /upload?name=NAME, with a name of at most 255 bytes.")
	}
	part, size, err := u.receive(w, r, folder)
	if err != nil {
		return err
	}
	path := filepath.Join(u.dir, uuid.NewString())
	answer := uploaded{Token: u.picks.addUpload(identity.UserID(r.Context()), path, name), Name: name, Size: size} // before the sweep can see the file
	if err := os.Rename(part, path); err != nil {
		u.picks.Forget(answer.Token)
		u.remove(part)
		return fault.Internalf(err, "The upload could not be stored.")
	}
	if r.Context().Err() != nil { // nobody has received the token
		u.picks.Forget(answer.Token)
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

// receive stores the body under a generated name.
func (u *Uploads) receive(w http.ResponseWriter, r *http.Request, folder bool) (path string, size int64, err error) {
	if folder {
		f, err := gateway.ReceiveFolder(w, r, u.max, u.maxFiles, u.dir)
		if err != nil {
			return "", 0, err
		}
		return f.Dir, f.Size, nil
	}
	up, err := gateway.ReceiveUpload(w, r, "file", u.max, u.dir)
	if err != nil {
		return "", 0, err
	}
	if err := up.File.Close(); err != nil {
		u.remove(up.File.Name())
		return "", 0, fault.Internalf(err, "The upload could not be stored.")
	}
	return up.File.Name(), up.Size, nil
}

// Delete handles DELETE /upload?token=TOKEN. If an import is reading the file, it is kept
// until the import ends.
func (u *Uploads) Delete(w http.ResponseWriter, r *http.Request) error {
	token := r.URL.Query().Get("token")
	path, ok := u.picks.uploaded(identity.UserID(r.Context()), token)
	if !ok {
		return fault.NotFoundf("Upload not found.")
	}
	u.picks.Forget(token)
	u.drop(r.Context(), path)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// Done invalidates the token of an upload that a method has accepted; it ignores other paths and
// tokens. The upload is deleted when no import reads it any more.
func (u *Uploads) Done(path string) {
	if u.picks.Name(path) != "" {
		u.picks.Forget(path)
		u.Wake()
	}
}

// Run deletes files that are no longer needed, until ctx ends.
func (u *Uploads) Run(ctx context.Context) error {
	tick := time.NewTicker(uploadSweep)
	defer tick.Stop()
	for {
		u.Sweep(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-u.again:
		case <-tick.C:
		}
	}
}

// Wake makes Run check soon for files to delete.
func (u *Uploads) Wake() {
	select {
	case u.again <- struct{}{}:
	default: // a sweep is already requested
	}
}

// Sweep deletes the files without a token that no import reads.
func (u *Uploads) Sweep(ctx context.Context) {
	files, err := os.ReadDir(u.dir)
	if err != nil {
		u.log.Warn("list uploads", "err", err)
		return
	}
	for _, f := range files {
		path := filepath.Join(u.dir, f.Name())
		if part, _ := filepath.Match(partUploads, f.Name()); part || u.picks.holdsPath(path) {
			continue
		}
		u.drop(ctx, path)
	}
}

// drop deletes a file unless an import reads it.
func (u *Uploads) drop(ctx context.Context, path string) {
	busy, err := u.reading(ctx, path)
	if err != nil {
		u.log.Warn("an upload is kept: it is not known if an import reads it", "err", err)
	}
	if err == nil && !busy {
		u.remove(path)
	}
}

func (u *Uploads) remove(path string) {
	if err := os.RemoveAll(path); err != nil {
		u.log.Warn("an upload was not removed", "err", err)
	}
}
