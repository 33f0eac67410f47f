package capture

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/audio"
)

const (
	partExt   = ".part"
	headExt   = ".json"
	syncEvery = 2 * time.Second
)

// Header describes a recording. It is stored before the first sample.
type Header struct {
	ID        uuid.UUID       `json:"id"`
	Rate      int             `json:"rate"`
	StartedAt time.Time       `json:"startedAt"`
	Note      json.RawMessage `json:"note,omitempty"` // data of the caller
}

// Part is a recording that is stored only in its own folder yet: 16-bit samples without a header.
type Part struct {
	Header
	dir     string
	f       *os.File
	raw     []byte
	samples int64
	synced  time.Time
	gaps    []audio.Span
}

// createPart creates the files of a recording.
func createPart(dir string, h Header) (*Part, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	p := &Part{Header: h, dir: dir, synced: time.Now()}
	b, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	if err := writeSynced(p.path(headExt), b); err != nil {
		return nil, err
	}
	if p.f, err = os.OpenFile(p.path(partExt), os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, 0o600); err != nil {
		return nil, errors.Join(err, os.Remove(p.path(headExt)))
	}
	if d, err := os.Open(dir); err == nil { // so that a power failure keeps the names too
		_ = d.Sync() // not possible on all systems
		_ = d.Close()
	}
	return p, nil
}

func writeSynced(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

func (p *Part) path(ext string) string { return filepath.Join(p.dir, p.ID.String()+ext) }

// append writes samples to the file.
func (p *Part) append(samples []float32) error {
	p.raw = p.raw[:0]
	for _, v := range samples {
		p.raw = binary.LittleEndian.AppendUint16(p.raw, uint16(audio.PCM16(v)))
	}
	n, err := p.f.Write(p.raw)
	p.samples += int64(n / 2)
	if err == nil && time.Since(p.synced) >= syncEvery {
		p.synced = time.Now()
		err = p.f.Sync()
	}
	return err
}

// missing writes silence for samples that were not received.
func (p *Part) missing(n int) error {
	from := p.ms(p.samples)
	block := make([]float32, min(n, 4096))
	for left := n; left > 0; left -= len(block) {
		if err := p.append(block[:min(left, len(block))]); err != nil {
			return err
		}
	}
	p.gaps = append(p.gaps, audio.Span{StartMs: from, EndMs: p.ms(p.samples)})
	return nil
}

func (p *Part) ms(samples int64) int64 { return samples * 1000 / int64(p.Rate) }

// DurationMs returns the length of the recording.
func (p *Part) DurationMs() int64 { return p.ms(p.samples) }

// Gaps returns the spans that were not received and are silent.
func (p *Part) Gaps() []audio.Span { return p.gaps }

// close ends writing. The files stay.
func (p *Part) close() error {
	err := p.f.Sync()
	return errors.Join(err, p.f.Close())
}

// WAV opens the recording as a WAV file.
func (p *Part) WAV() (io.ReadCloser, error) {
	f, err := os.Open(p.path(partExt))
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	size := st.Size() &^ 1 // a crash may leave half a sample
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader(string(audio.WAVHeader(p.Rate, size/2))), io.LimitReader(f, size)), f}, nil
}

// Remove deletes the files, when the recording is stored elsewhere.
func (p *Part) Remove() error {
	err := os.Remove(p.path(partExt))
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.Remove(p.path(headExt)) // last, so that the samples never lack their header
	}
	return err
}

// Orphans returns the recordings in a folder that a crash left behind, except the active one. Files
// that can't be read are left alone and reported.
func Orphans(dir string, active uuid.UUID) (out []*Part, err error) {
	heads, err := filepath.Glob(filepath.Join(dir, "*"+headExt))
	if err != nil {
		return nil, err
	}
	var bad []error
	for _, path := range heads {
		p := &Part{dir: dir}
		b, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(b, &p.Header)
		}
		if err == nil && (p.Rate <= 0 || p.ID == uuid.Nil) {
			err = errors.New("no rate or id")
		}
		if err != nil {
			bad = append(bad, fmt.Errorf("recording %s: %w", filepath.Base(path), err))
			continue
		}
		if p.ID == active {
			continue
		}
		st, err := os.Stat(p.path(partExt))
		switch {
		case errors.Is(err, fs.ErrNotExist) || err == nil && st.Size() < 2: // nothing was recorded yet
			bad = append(bad, p.Remove())
			continue
		case err != nil:
			bad = append(bad, err)
			continue
		}
		p.samples = st.Size() / 2
		out = append(out, p)
	}
	return out, errors.Join(bad...)
}
