package gateway

import (
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"syscall"
	"time"

	"helix/backend/fault"
)

// Upload is a body that was streamed to a file.
type Upload struct {
	File        *os.File // positioned at its start
	Size        int64
	Name        string            // as the client called it; only for showing
	ContentType string            // as the client called it; not checked
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
// named part of a multipart body, or the whole of any other body. More than max bytes is
// Limit with the HTTP status 413; what is malformed is Invalid. Whatever fails, no file is
// left. The caller closes the upload.
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

func tooLarge(max int64) error {
	return &statusError{fault.Limitf("The upload is larger than %d MiB.", max>>20), http.StatusRequestEntityTooLarge}
}

// statusError narrows the HTTP status of an error.
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
