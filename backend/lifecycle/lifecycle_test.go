package lifecycle

import (
	"testing"
)

func TestNewerComparesNumbers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"1.0.1", "1.0.0", true}, {"1.0.0", "1.0.0", false}, {"1.10.0", "1.9.9", true}, {"", "1.0.0", false}, {"1.0.0", "", true},
		{"x.y.z", "", false}, {"2.0.0-rc.1", "1.9.0", true},
	} {
		if Newer(c.a, c.b) != c.want {
			t.Errorf("Newer(%q, %q)", c.a, c.b)
		}
	}
}

func TestNumberedNamesStayWithinTheLimit(t *testing.T) {
	t.Parallel()
	k := &Kind{MaxName: 12}
	for _, c := range []struct {
		name string
		n    int
		want string
	}{
		{"Short", 2, "Short 2"}, {"Copy (Clone)", 3, "Copy (Clo 3)"}, {"A (Clone)", 2, "A (Clone 2)"}, {"Twelve chars", 10, "Twelve ch 10"}, {"ÄÖÜ äöü éèê x", 2, "ÄÖÜ äöü éè 2"},
	} {
		if got := k.numbered(c.name, c.n); got != c.want {
			t.Errorf("numbered(%q, %d) = %q, want %q", c.name, c.n, got, c.want)
		}
	}
}

func TestRaisePatch(t *testing.T) {
	t.Parallel()
	for v, want := range map[string]string{"1.2.3": "1.2.4", "1.2.3-rc.1": "1.2.4", "": "1.0.1", "0.9": "1.0.1"} {
		if got := RaisePatch(v); got != want {
			t.Errorf("RaisePatch(%q) = %q, want %q", v, got, want)
		}
	}
}
