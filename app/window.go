package app

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
)

// Default and minimum size of the window, in device-independent pixels.
const (
	defaultWidth, defaultHeight = 1200, 800
	minWidth, minHeight         = 800, 600
)

// place is the last position of the window; the file is <state>/window.json.
type place struct {
	X         int  `json:"x"`
	Y         int  `json:"y"`
	W         int  `json:"w"`
	H         int  `json:"h"`
	Maximised bool `json:"maximised"`
	Known     bool `json:"-"` // X and Y are known and may be used
	// NoDMABuf is set if the page did not appear with WebKit's default renderer.
	NoDMABuf bool `json:"noDmabuf,omitempty"`
	// HideExplained is set once the person was told that a hidden window keeps running.
	HideExplained bool `json:"hideExplained,omitempty"`
}

// loadPlace reads the file. If it is missing, invalid or implausible, it returns the default
// position.
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
		def.NoDMABuf, def.HideExplained = p.NoDMABuf, p.HideExplained
		return def
	}
	p.Known = true
	return p
}

// save writes the file atomically.
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

// screen is the size of one display.
type screen struct{ W, H int }

// visible reports whether at least 100×50 pixels of the title bar would be on one of the screens.
// Wails reports only their sizes, so they are assumed to be side by side.
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
