package app

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Default and least size of the window, in device-independent pixels.
const (
	defaultWidth, defaultHeight = 1200, 800
	minWidth, minHeight         = 800, 600
)

// place is where the window was when it was last seen; the file is <state>/window.json.
type place struct {
	X         int  `json:"x"`
	Y         int  `json:"y"`
	W         int  `json:"w"`
	H         int  `json:"h"`
	Maximised bool `json:"maximised"`
	Known     bool `json:"-"` // X and Y were read and may be used
	// NoDMABuf is remembered when the page did not come up with WebKit's default renderer.
	NoDMABuf bool `json:"noDmabuf,omitempty"`
}

// loadPlace reads the file. A missing, broken or absurd one gives the default place.
func loadPlace(path string) place {
	def := place{W: defaultWidth, H: defaultHeight}
	b, err := os.ReadFile(path)
	if err != nil {
		return def
	}
	var p place
	if json.Unmarshal(b, &p) != nil {
		return def
	}
	const far = 1 << 15 // beyond any arrangement of displays
	if p.W < minWidth || p.H < minHeight || p.W > far || p.H > far || p.X < -far || p.X > far || p.Y < -far || p.Y > far {
		def.NoDMABuf = p.NoDMABuf
		return def
	}
	p.Known = true
	return p
}

// save writes the file in one step, so that a crash leaves the old or the new one.
func (p place) save(path string) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	tmp := path + ".new"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return nil
}

// screen is one display; the zero position is the primary one's corner.
type screen struct{ W, H int }

// visible reports whether at least 100×50 pixels of the title bar would be on one of the
// screens, taken side by side as Wails reports them.
func (p place) visible(screens []screen) bool {
	if !p.Known || len(screens) == 0 {
		return false
	}
	width, height := 0, 0
	for _, s := range screens {
		width += s.W
		height = max(height, s.H)
	}
	return p.X+p.W >= 100 && p.X <= width-100 && p.Y >= 0 && p.Y <= height-50
}

// frontendFS is the built interface inside the embedded folder.
func frontendFS(dist fs.FS) (fs.FS, error) { return fs.Sub(dist, "dist") }
