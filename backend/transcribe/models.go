package transcribe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"helix/backend/fault"
	"helix/backend/safehttp"
)

// Model is a file that a local engine needs, and where to download it.
type Model struct {
	ID     string
	Size   int64 // bytes
	SHA256 string
	URL    string
}

// ModelState says how much of a model is on this device.
type ModelState struct {
	ID          string `json:"id"`
	Size        int64  `json:"size"` // bytes
	Installed   bool   `json:"installed"`
	Downloading bool   `json:"downloading"`
	Done        int64  `json:"done"` // downloaded bytes; a download continues there
}

// ModelsOptions configure Models. All fields are required.
type ModelsOptions struct {
	Dir     string
	HTTP    *safehttp.Client
	Catalog []Model // best last
}

// Models downloads, checks and deletes the models of an engine. It is safe for concurrent use.
type Models struct {
	o ModelsOptions

	mu     sync.Mutex
	active map[string]*download
	// checked holds the files whose SHA-256 was right in this process.
	checked map[string]fileVersion
}

// download is a download in progress.
type download struct {
	cancel context.CancelFunc
	ended  chan struct{}
}

// fileVersion changes when a file is written.
type fileVersion struct {
	size int64
	time time.Time
}

// NewModels returns the models of a folder.
func NewModels(o ModelsOptions) *Models {
	return &Models{o: o, active: map[string]*download{}, checked: map[string]fileVersion{}}
}

func (m *Models) path(id string) string { return filepath.Join(m.o.Dir, id+".bin") }

func (m *Models) partial(id string) string { return m.path(id) + ".part" }

func sizeOf(path string) int64 {
	if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
		return st.Size()
	}
	return 0
}

// find returns a model of the catalog.
func (m *Models) find(id string) (Model, error) {
	for _, c := range m.o.Catalog {
		if c.ID == id {
			return c, nil
		}
	}
	return Model{}, fault.InvalidField("model", fault.CodeRange, "There is no model %.40q. List the models with: helix voice models", id)
}

// List returns the state of all models in the catalog, best last.
func (m *Models) List() (out []ModelState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.o.Catalog {
		s := ModelState{ID: c.ID, Size: c.Size, Installed: sizeOf(m.path(c.ID)) == c.Size, Downloading: m.active[c.ID] != nil}
		if s.Done = c.Size; !s.Installed {
			s.Done = min(sizeOf(m.partial(c.ID)), c.Size)
		}
		out = append(out, s)
	}
	return out
}

// Installed returns the ids of the models on this device, best last.
func (m *Models) Installed() []string {
	out := []string{}
	for _, s := range m.List() {
		if s.Installed {
			out = append(out, s.ID)
		}
	}
	return out
}

// File returns the path of a model. The first call checks its SHA-256; a damaged file is deleted.
func (m *Models) File(ctx context.Context, id string) (string, error) {
	c, err := m.find(id)
	if err != nil {
		return "", failure(Refused, fault.As(err))
	}
	path := m.path(id)
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", failure(Missing, fault.Unavailablef("The model %s is not installed. Install it with: helix voice models install %s", id, id))
	}
	if err != nil {
		return "", fmt.Errorf("model %s: %w", id, err)
	}
	v := fileVersion{st.Size(), st.ModTime()}
	m.mu.Lock()
	known := m.checked[id] == v
	m.mu.Unlock()
	if known {
		return path, nil
	}
	if err := check(ctx, path, c); err != nil {
		if fault.Is(err, fault.Invalid) {
			err = failure(Missing, fault.Unavailablef("The model %s was damaged and is deleted. Install it again with: helix voice models install %s", id, id).WithCause(errors.Join(err, os.Remove(path))))
		}
		return "", err
	}
	m.mu.Lock()
	m.checked[id] = v
	m.mu.Unlock()
	return path, nil
}

// reader is a file whose reads fail when ctx is done.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// check compares a file with its entry in the catalog. It returns an Invalid error if they differ.
func check(ctx context.Context, path string, c Model) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("model %s: %w", c.ID, err)
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, reader{ctx, f})
	if err != nil {
		return fmt.Errorf("model %s: %w", c.ID, err)
	}
	if sum := hex.EncodeToString(h.Sum(nil)); n != c.Size || sum != c.SHA256 {
		return fault.Invalidf("The model %s has %d bytes and the checksum %s.", c.ID, n, sum)
	}
	return nil
}

// Install downloads a model and calls progress with the bytes that are there. It continues a
// download that was canceled or interrupted. The model can be used only after its SHA-256 was
// checked; a file that differs is deleted.
func (m *Models) Install(ctx context.Context, id string, progress func(done int64)) error {
	c, err := m.find(id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d := &download{cancel, make(chan struct{})}
	m.mu.Lock()
	if m.active[id] != nil {
		m.mu.Unlock()
		return fault.Conflictf("The model %s is being downloaded already.", id)
	}
	m.active[id] = d
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		delete(m.active, id)
		m.mu.Unlock()
		close(d.ended)
	}()
	if _, err := m.File(ctx, id); err == nil || CauseOf(err) != Missing {
		return err
	}
	if err := os.MkdirAll(m.o.Dir, 0o700); err != nil {
		return fault.Unavailablef("Couldn't create the folder of the models.").WithCause(err)
	}
	partial := m.partial(id)
	if err := m.fetch(ctx, c, partial, progress); err != nil {
		return err
	}
	if err := check(ctx, partial, c); err != nil {
		if fault.Is(err, fault.Invalid) {
			err = fault.Unavailablef("The downloaded model %s is damaged and was deleted. Try again.", id).WithCause(errors.Join(err, os.Remove(partial)))
		}
		return err
	}
	if err := os.Rename(partial, m.path(id)); err != nil {
		return fmt.Errorf("model %s: %w", id, err)
	}
	_, err = m.File(ctx, id)
	return err
}

// fetch downloads what is missing of a model.
func (m *Models) fetch(ctx context.Context, c Model, path string, progress func(int64)) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fault.Unavailablef("Couldn't create the file of the model.").WithCause(err)
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	at, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if at == c.Size {
		return nil
	}
	header := map[string][]string{}
	if at > 0 && at < c.Size {
		header["Range"] = []string{"bytes=" + strconv.FormatInt(at, 10) + "-"}
	}
	s, err := m.o.HTTP.Stream(ctx, safehttp.StreamRequest{Request: safehttp.Request{URL: c.URL, Header: header}, MaxBody: c.Size + 1, Idle: time.Minute})
	if err != nil {
		return err
	}
	defer s.Body.Close()
	switch {
	case s.Status == 206 && len(header) > 0 && strings.HasPrefix(s.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", at)):
	case s.Status == 200: // without the support for ranges
		if err := f.Truncate(0); err != nil {
			return err
		}
		if at, err = f.Seek(0, io.SeekStart); err != nil {
			return err
		}
	case s.Status == 416: // the file on the server is another one
		return errors.Join(fault.Unavailablef("Couldn't continue the download of the model. Try again."), f.Truncate(0))
	default:
		return fault.Unavailablef("Couldn't download the model: the server answered with status %d.", s.Status)
	}
	progress(at)
	for buf := make([]byte, 256<<10); ; {
		n, err := s.Body.Read(buf)
		if _, bad := f.Write(buf[:n]); bad != nil {
			return fault.Unavailablef("Couldn't store the model. Check the free disk space.").WithCause(bad)
		}
		if at += int64(n); n > 0 {
			progress(at)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if at < c.Size {
		return fault.Unavailablef("The download of the model ended early. Try again to continue it.")
	}
	return f.Sync()
}

// Remove ends the download of a model, and deletes what is there.
func (m *Models) Remove(id string) error {
	if _, err := m.find(id); err != nil {
		return err
	}
	m.mu.Lock()
	d := m.active[id]
	m.mu.Unlock()
	if d != nil {
		d.cancel()
		<-d.ended
	}
	removed := false
	for _, path := range []string{m.path(id), m.partial(id)} {
		err := os.Remove(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fault.Unavailablef("Couldn't delete the model %s.", id).WithCause(err)
		}
		removed = removed || err == nil
	}
	if !removed {
		return fault.NotFoundf("The model %s isn't on this device.", id)
	}
	return nil
}
