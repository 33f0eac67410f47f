package app

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPlace(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state", "window.json")
	if p := loadPlace(path); p.Known || p.W != defaultWidth || p.H != defaultHeight {
		t.Fatalf("missing file: %+v", p)
	}
	want := place{X: 30, Y: 40, W: 900, H: 700, Maximised: true, Known: true}
	if err := want.save(path); err != nil {
		t.Fatal(err)
	}
	if got := loadPlace(path); got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, err %v", st.Mode(), err)
	}
	for _, bad := range []string{"", "{", `{"w":10,"h":10}`, `{"w":900,"h":99999999}`, `{"x":-99999999,"w":900,"h":700}`} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if p := loadPlace(path); p.Known || p.W != defaultWidth {
			t.Errorf("%q gave %+v", bad, p)
		}
	}
}

func TestVisible(t *testing.T) {
	t.Parallel()
	one := []screen{{1920, 1080}}
	for _, c := range []struct {
		name    string
		p       place
		screens []screen
		want    bool
	}{
		{"inside", place{X: 10, Y: 10, W: 900, H: 700, Known: true}, one, true},
		{"unknown", place{X: 10, Y: 10, W: 900, H: 700}, one, false},
		{"display is gone", place{X: 2500, Y: 10, W: 900, H: 700, Known: true}, one, false},
		{"display is there", place{X: 2500, Y: 10, W: 900, H: 700, Known: true}, []screen{{1920, 1080}, {1920, 1080}}, true},
		{"title bar above the edge", place{X: 10, Y: -40, W: 900, H: 700, Known: true}, one, false},
		{"99 pixels left", place{X: -801, Y: 10, W: 900, H: 700, Known: true}, one, false},
		{"100 pixels left", place{X: -800, Y: 10, W: 900, H: 700, Known: true}, one, true},
		{"no displays reported", place{X: 10, Y: 10, W: 900, H: 700, Known: true}, nil, false},
	} {
		if got := c.p.visible(c.screens); got != c.want {
			t.Errorf("%s: visible = %v, want %v", c.name, got, c.want)
		}
	}
}
