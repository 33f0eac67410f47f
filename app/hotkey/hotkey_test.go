package hotkey

import (
	"os"
	"testing"

	"helix/backend/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

func TestParse(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string]Combination{
		"Ctrl+Shift+Space":      {Ctrl | Shift, "Space"},
		"ctrl + alt + a":        {Ctrl | Alt, "A"},
		"Super+9":               {Super, "9"},
		"Cmd+Option+left":       {Super | Alt, "Left"},
		"F9":                    {0, "F9"},
		"Control+Shift+Alt+f12": {Ctrl | Shift | Alt, "F12"},
	} {
		if got, err := Parse(keys); err != nil || got != want {
			t.Errorf("%q: %+v, %v", keys, got, err)
		}
	}
	for _, keys := range []string{"", "+", "Ctrl+", "Ctrl", "A", "Shift+A", "Shift+Space", "Ctrl+Ä", "Ctrl+F13", "Ctrl+A+B", "Hyper+A", "Ctrl+Space+"} {
		if c, err := Parse(keys); err == nil {
			t.Errorf("%q is %+v, want an error", keys, c)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("Ctrl+Shift+Space")
	f.Fuzz(func(t *testing.T, keys string) {
		if c, err := Parse(keys); err == nil && (c.keysym() == 0 || c.virtual() == 0) {
			t.Errorf("%q: %+v has no code", keys, c)
		}
	})
}
