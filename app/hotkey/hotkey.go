// Package hotkey registers one combination of keys that works anywhere on the desktop: on X11 and on
// Windows. Only app imports it.
package hotkey

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of Register.
var (
	// ErrTaken means that another program has the combination.
	ErrTaken = errors.New("another program uses these keys")
	// ErrUnsupported means that programs cannot register keys on this desktop.
	ErrUnsupported = errors.New("programs cannot register keys on this desktop")
)

// Modifiers of a combination.
const (
	Ctrl = 1 << iota
	Alt
	Shift
	Super // the Windows key, or Command
)

// Combination is a key with the modifiers that are held.
type Combination struct {
	Modifiers int
	Key       string // as in names, or one of A to Z, 0 to 9, F1 to F12
}

var modifiers = map[string]int{
	"ctrl": Ctrl, "control": Ctrl, "alt": Alt, "option": Alt, "shift": Shift, "super": Super, "meta": Super, "win": Super, "cmd": Super,
}

// names are the keys with a name: their X11 keysym and their virtual key code on Windows.
var names = map[string]struct{ keysym, virtual uint32 }{
	"Space": {0x20, 0x20}, "Enter": {0xff0d, 0x0d}, "Tab": {0xff09, 0x09}, "Escape": {0xff1b, 0x1b}, "Delete": {0xffff, 0x2e}, "Insert": {0xff63, 0x2d},
	"Home": {0xff50, 0x24}, "End": {0xff57, 0x23}, "PageUp": {0xff55, 0x21}, "PageDown": {0xff56, 0x22},
	"Left": {0xff51, 0x25}, "Up": {0xff52, 0x26}, "Right": {0xff53, 0x27}, "Down": {0xff54, 0x28},
}

// Parse reads a combination such as Ctrl+Shift+Space. Keys that a person types need Ctrl, Alt or
// Super: without one, they could no longer be typed.
func Parse(keys string) (Combination, error) {
	parts := strings.Split(keys, "+")
	var c Combination
	for _, p := range parts[:len(parts)-1] {
		m, ok := modifiers[strings.ToLower(strings.TrimSpace(p))]
		if !ok {
			return Combination{}, fmt.Errorf("%q is not a modifier. Use Ctrl, Alt, Shift or Super", p)
		}
		c.Modifiers |= m
	}
	last := strings.TrimSpace(parts[len(parts)-1])
	function := false
	switch {
	case len(last) == 1 && (letter(last[0]) || last[0] >= '0' && last[0] <= '9'):
		c.Key = strings.ToUpper(last)
	case functionKey(strings.ToUpper(last)) > 0:
		c.Key, function = strings.ToUpper(last), true
	default:
		for n := range names {
			if strings.EqualFold(n, last) {
				c.Key = n
			}
		}
	}
	if c.Key == "" {
		return Combination{}, fmt.Errorf("%q is not a key that can be registered. Use a letter, a digit, F1 to F12, Space or an arrow", last)
	}
	if !function && c.Modifiers&(Ctrl|Alt|Super) == 0 {
		return Combination{}, errors.New("add Ctrl, Alt or Super, so that the key can still be typed")
	}
	return c, nil
}

func letter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

// functionKey returns the number of a function key, or 0.
func functionKey(key string) uint32 {
	for i := uint32(1); i <= 12; i++ {
		if key == fmt.Sprintf("F%d", i) {
			return i
		}
	}
	return 0
}

// keysym returns the X11 keysym of the key without modifiers.
func (c Combination) keysym() uint32 {
	switch n := functionKey(c.Key); {
	case n > 0:
		return 0xffbe + n - 1
	case len(c.Key) == 1:
		return uint32(strings.ToLower(c.Key)[0])
	}
	return names[c.Key].keysym
}

// virtual returns the virtual key code on Windows.
func (c Combination) virtual() uint32 {
	switch n := functionKey(c.Key); {
	case n > 0:
		return 0x70 + n - 1
	case len(c.Key) == 1:
		return uint32(c.Key[0])
	}
	return names[c.Key].virtual
}
