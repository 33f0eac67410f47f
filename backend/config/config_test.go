package config

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"helix/backend/testkit"
)

var update = flag.Bool("update", false, "write golden files")

func TestMain(m *testing.M) {
	if path := os.Getenv(writerEnv); path != "" {
		writeForEver(path)
	}
	os.Exit(testkit.Run(m))
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.ReplaceAll(string(want), "\r\n", "\n") != string(got) {
		t.Errorf("%s differs; run go test ./backend/config -update and look at the change", name)
	}
}

// Every setting is complete: key, default within its range, help; the list is a golden file, so
// that a changed default shows up in review.
func TestEverySettingHasTagsAndDefault(t *testing.T) {
	t.Parallel()
	if n := reflect.TypeFor[Config]().NumField(); n != len(Settings()) {
		t.Fatalf("%d fields, %d settings", n, len(Settings()))
	}
	var b strings.Builder
	folded, env := map[string]bool{}, map[string]bool{}
	for _, s := range Settings() {
		if !regexp.MustCompile(`^[a-z]+(\.[a-z][A-Za-z_]+)+$`).MatchString(s.Key) || folded[fold(s.Key)] || env[s.Env] {
			t.Errorf("key %q or variable %s", s.Key, s.Env)
		}
		folded[fold(s.Key)], env[s.Env] = true, true
		v, err := s.Parse(s.def)
		if err != nil {
			t.Errorf("%s: default: %v", s.Key, err)
		}
		if s.Help == "" || !strings.HasSuffix(s.Help, ".") {
			t.Errorf("%s: help %q is not a sentence", s.Key, s.Help)
		}
		if s.Type == "integer" && !s.Bounded {
			t.Errorf("%s has no range", s.Key)
		}
		if s.check != "" && (checks[s.check] == nil || checkHelp[s.check] == "") {
			t.Errorf("%s: check %q is unknown", s.Key, s.check)
		}
		var c Config
		s.put(&c, v)
		if got := s.get(&c); !equal(got, v) {
			t.Errorf("%s: %v comes back as %v", s.Key, v, got)
		}
		if s.Bounded {
			for _, bad := range []int64{s.Min - 1, s.Max + 1} {
				if _, err := s.Accept(bad); err == nil {
					t.Errorf("%s accepts %d", s.Key, bad)
				}
			}
			for _, good := range []int64{s.Min, s.Max} {
				if _, err := s.Accept(good); err != nil {
					t.Errorf("%s refuses %d: %v", s.Key, good, err)
				}
				s.put(&c, good)
				if s.get(&c) != good {
					t.Errorf("%s: %d overflows", s.Key, good)
				}
			}
		}
		text, _ := json.Marshal(v)
		fmt.Fprintf(&b, "%s = %s\n  %s, %s; restart %v\n  %s\n", s.Key, text, s.Env, s.Range(), s.Restart, s.Help)
	}
	golden(t, "settings.txt", []byte(b.String()))
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	var c Config
	for _, s := range settings() {
		s.put(&c, s.Default())
	}
	if !c.GatewayEnabled || c.GatewayAddr != "127.0.0.1:18789" || c.GatewayCallTimeout != time.Minute || c.HistoryMaxAge != 90*24*time.Hour ||
		c.BackupMaxBytes != 10<<30 || c.GatewayOrigins == nil || len(c.GatewayOrigins) != 0 || c.SandboxMinIsolation != "process" {
		t.Errorf("%+v", c)
	}
}

func TestParseAndAccept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key, text string
		want      any // nil: rejected
	}{
		{"gateway.enabled", "off", false},
		{"gateway.enabled", "TRUE", true},
		{"gateway.enabled", "maybe", nil},
		{"gateway.addr", "127.0.0.1:0", "127.0.0.1:0"},
		{"gateway.addr", "[::1]:18789", "[::1]:18789"},
		{"gateway.addr", "localhost:1", "localhost:1"},
		{"gateway.addr", "0.0.0.0:18789", nil},
		{"gateway.addr", "192.168.1.5:18789", nil},
		{"gateway.addr", ":18789", nil},
		{"gateway.addr", "127.0.0.1", nil},
		{"gateway.addr", "127.0.0.1:99999", nil},
		{"gateway.addr", "localhost.evil.com:1", nil},
		{"gateway.origins", "http://localhost:5173, https://a.b", []string{"http://localhost:5173", "https://a.b"}},
		{"gateway.origins", "", []string{}},
		{"gateway.origins", "*", nil},
		{"gateway.origins", "http://a/path", nil},
		{"gateway.origins", "http://u@a", nil},
		{"gateway.origins", "file:///x", nil},
		{"gateway.max_payload", "1MiB", int64(1 << 20)},
		{"gateway.max_payload", "16777216", int64(16 << 20)},
		{"gateway.max_payload", "1 GB", nil},
		{"gateway.max_payload", "99999999999999999999", nil},
		{"gateway.maxPayload", "1mib", int64(1 << 20)},
		{"gateway.call_timeout_s", "2m", int64(120)},
		{"gateway.call_timeout_s", "1500ms", nil},
		{"gateway.call_timeout_s", "-5", nil},
		{"history.max_age_days", "30d", int64(30)},
		{"history.max_age_days", "12h", nil},
		{"backup.auto", "daily", "daily"},
		{"backup.auto", "Daily", nil},
		{"notifications.quiet", "22:00-07:00", "22:00-07:00"},
		{"notifications.quiet", "24:00-07:00", nil},
		{"notifications.quiet", "", ""},
		{"memory.weights", "1, 0.4, .5", "1, 0.4, .5"},
		{"memory.weights", "", ""},
		{"memory.weights", "0, 0, 0", nil},
		{"memory.weights", "1, 0.4", nil},
		{"memory.weights", "1, NaN, 0", nil},
		{"memory.weights", "1, -1, 0", nil},
		{"memory.weights", "1, 1e300, 0", nil},
		{"memory.zone", "Europe/Berlin", "Europe/Berlin"},
		{"memory.zone", "Local", nil},
		{"memory.zone", "Middle/Earth", nil},
	} {
		s, ok := lookup(c.key)
		if !ok {
			t.Fatalf("no setting %s", c.key)
		}
		got, err := s.Parse(c.text)
		if c.want == nil {
			if err == nil {
				t.Errorf("%s accepts %q as %v", c.key, c.text, got)
			}
		} else if err != nil || !equal(got, c.want) {
			t.Errorf("%s %q = %v, %v; want %v", c.key, c.text, got, err, c.want)
		}
	}
	s, _ := lookup("skills.max_live")
	for _, v := range []any{3.5, "x", true, nil, []any{}, 1e300} {
		if _, err := s.Accept(v); err == nil {
			t.Errorf("a number accepts %v", v)
		}
	}
	if v, err := s.Accept(float64(7)); err != nil || v != int64(7) {
		t.Errorf("7.0 from JSON: %v, %v", v, err)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"gateway.adr": "gateway.addr", "gateway.enalbed": "gateway.enabled", "history.maxrows": "history.max_rows", "theme": "app.theme",
		"ui.theme": "app.theme", "sandbox.min_isolation": "sandbox.minIsolation", "entirely.different.thing": "",
	} {
		if got := Nearest(key); got != want {
			t.Errorf("nearest of %s is %q, want %q", key, got, want)
		}
	}
	if h := nearestEnv("HELIX_GATEWAY_ADRR"); !strings.Contains(h, "HELIX_GATEWAY_ADDR") {
		t.Errorf("hint %q", h)
	}
	for _, v := range Variables() {
		if v.Name == serviceRoleKey {
			t.Error("the service role key is known")
		}
	}
}
