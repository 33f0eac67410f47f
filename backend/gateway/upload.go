package gateway

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"helix/backend/fault"
)

// Upload is a body that was streamed to a file.
type Upload struct {
	File        *os.File // positioned at its start
	Size        int64
	Name        string            // as sent by the client; only for display
	ContentType string            // as sent by the client; not verified
	Fields      map[string]string // the other parts, each at most 64 KiB
}

// Close closes and removes the file.
func (u *Upload) Close() error {
	return errors.Join(u.File.Close(), os.Remove(u.File.Name()))
}

const (
	maxField  = 64 << 10
	maxFields = 16
)

// ReceiveUpload streams the request's body to a temporary file in dir ("": os.TempDir()): the part
// named part of a multipart body, or the whole of any other body. More than max bytes is Limit with
// the HTTP status 413; a malformed body is Invalid. After an error no file is left. The caller must
// close the upload.
func ReceiveUpload(w http.ResponseWriter, r *http.Request, part string, max int64, dir string) (_ *Upload, err error) {
	if r.ContentLength > max+maxField*maxFields {
		return nil, tooLarge(max)
	}
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(30 * time.Minute)) //nolint:errcheck // only a real connection has one
	f, err := os.CreateTemp(dir, "upload-*")
	if err != nil {
		return nil, fault.Internalf(err, "The upload could not be stored.")
	}
	u := &Upload{File: f, Fields: map[string]string{}}
	defer func() {
		if err != nil {
			u.Close() //nolint:errcheck // the first error counts
		}
	}()
	kind, params, mimeErr := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "multipart/form-data" {
		if kind == "" && mimeErr != nil && r.Header.Get("Content-Type") != "" {
			return nil, fault.Invalidf("The Content-Type is malformed.")
		}
		u.ContentType = kind
		if u.Size, err = store(r.Context(), f, r.Body, max); err != nil {
			return nil, err
		}
		return u, rewind(f)
	}
	if err := u.parts(r, params["boundary"], part, max); err != nil {
		return nil, err
	}
	return u, rewind(f)
}

func (u *Upload) parts(r *http.Request, boundary, part string, max int64) error {
	if boundary == "" {
		return fault.Invalidf("The multipart body has no boundary.")
	}
	mr := multipart.NewReader(r.Body, boundary)
	found := false
	for n := 0; ; n++ {
		p, err := mr.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || n > maxFields {
			return badUpload(r.Context(), err)
		}
		if p.FormName() == part {
			if found {
				return fault.Invalidf("The part %q occurs twice.", part)
			}
			found = true
			u.Name, u.ContentType = p.FileName(), p.Header.Get("Content-Type")
			if u.Size, err = store(r.Context(), u.File, p, max); err != nil {
				return err
			}
			continue
		}
		b, err := io.ReadAll(io.LimitReader(p, maxField+1))
		if err != nil {
			return badUpload(r.Context(), err)
		}
		if len(b) > maxField {
			return fault.Invalidf("The part %q is too large.", p.FormName())
		}
		u.Fields[p.FormName()] = string(b)
	}
	if !found {
		return fault.Invalidf("The body has no part %q.", part)
	}
	return nil
}

// Folder is a multipart body whose parts were streamed to files in a folder.
type Folder struct {
	Dir   string
	Size  int64
	Files int
}

const (
	maxPath    = 1024 // bytes of the path of a file in a folder
	maxFolders = 32   // above it
)

// ReceiveFolder streams the parts of a multipart body to a new folder in dir. The file name of each
// part is its path below the folder, with slashes. A path that points outside, contains an empty or
// hidden name, or occurs twice is Invalid; more than max bytes or maxFiles files are Limit. After
// an error nothing is left. The caller must remove the folder.
func ReceiveFolder(w http.ResponseWriter, r *http.Request, max int64, maxFiles int, dir string) (_ *Folder, err error) {
	if r.ContentLength > max+int64(maxFiles)*maxField {
		return nil, tooLarge(max)
	}
	kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, fault.Invalidf("Send the files of a folder as multipart/form-data.")
	}
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(30 * time.Minute)) //nolint:errcheck // only a real connection has one
	f := &Folder{}
	if f.Dir, err = os.MkdirTemp(dir, "upload-*"); err != nil {
		return nil, fault.Internalf(err, "The upload could not be stored.")
	}
	defer func() {
		if err != nil {
			os.RemoveAll(f.Dir) //nolint:errcheck // the first error counts
		}
	}()
	root, err := os.OpenRoot(f.Dir)
	if err != nil {
		return nil, fault.Internalf(err, "The upload could not be stored.")
	}
	defer root.Close()
	for body := multipart.NewReader(r.Body, params["boundary"]); ; f.Files++ {
		p, err := body.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, badUpload(r.Context(), err)
		}
		if f.Files == maxFiles {
			return nil, &statusError{fault.Limitf("The folder has more than %d files.", maxFiles), http.StatusRequestEntityTooLarge}
		}
		n, err := storePart(r.Context(), root, p, max-f.Size)
		if err != nil {
			if fault.Is(err, fault.Limit) && f.Size+n > max {
				err = tooLarge(max)
			}
			return nil, err
		}
		f.Size += n
	}
	if f.Files == 0 {
		return nil, fault.Invalidf("The folder has no files.")
	}
	return f, nil
}

// storePart streams a part to the file that it names.
func storePart(ctx context.Context, root *os.Root, p *multipart.Part, max int64) (int64, error) {
	_, params, err := mime.ParseMediaType(p.Header.Get("Content-Disposition"))
	name := params["filename"] // FileName would return only its last element
	if err != nil || !uploadPath(name) {
		return 0, fault.Invalidf("%q is not the path of a file in the folder. Nothing was kept.", name)
	}
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return 0, storeError(name, err)
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, storeError(name, err)
	}
	n, err := store(ctx, f, p, max)
	return n, errors.Join(err, f.Close())
}

// storeError returns why a file of a folder cannot be created: a path that already exists is the
// client's error.
func storeError(name string, err error) error {
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTDIR) {
		return fault.Invalidf("The folder has %q twice. Nothing was kept.", name).WithCause(err)
	}
	if errors.Is(err, syscall.ENAMETOOLONG) || errors.Is(err, syscall.EINVAL) {
		return fault.Invalidf("%q is not the path of a file in the folder. Nothing was kept.", name).WithCause(err)
	}
	if errors.Is(err, syscall.ENOSPC) {
		return fault.Limitf("The disk is full, so the upload was discarded. Free some space, then send it again.").WithCause(err)
	}
	return fault.Internalf(err, "The upload could not be stored.")
}

// uploadPath reports whether name is a slash-separated path below a folder, valid on every system.
func uploadPath(name string) bool {
	return fs.ValidPath(name) && filepath.IsLocal(name) && name != "." && len(name) <= maxPath && strings.Count(name, "/") <= maxFolders &&
		!strings.HasPrefix(name, ".") && !strings.Contains(name, "/.") && !strings.ContainsAny(name, "\\:\x00\r\n")
}

func tooLarge(max int64) error {
	return &statusError{fault.Limitf("The upload is larger than %d MiB.", max>>20), http.StatusRequestEntityTooLarge}
}

// statusError sets the HTTP status of an error.
type statusError struct {
	err    error
	status int
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

func badUpload(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fault.Invalidf("The body is not what its Content-Type says.").WithCause(err)
}

// store copies at most max bytes.
func store(ctx context.Context, f *os.File, r io.Reader, max int64) (int64, error) {
	n, err := io.Copy(f, io.LimitReader(r, max+1))
	if err != nil {
		var pe *os.PathError
		if errors.Is(err, syscall.ENOSPC) {
			return n, fault.Limitf("The disk is full, so the upload was discarded. Free some space, then send it again.").WithCause(err)
		}
		if errors.As(err, &pe) {
			return n, fault.Internalf(err, "The upload could not be stored.")
		}
		return n, badUpload(ctx, err)
	}
	if n > max {
		return n, tooLarge(max)
	}
	return n, nil
}

func rewind(f *os.File) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fault.Internalf(err, "The upload could not be stored.")
	}
	return nil
}
