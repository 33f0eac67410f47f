package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
)

// place is one installation in a temporary folder.
type place struct {
	dir string
	env map[string]string
	o   Options
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{dir: t.TempDir(), env: map[string]string{}}
	p.env["HOME"], p.env["USERPROFILE"] = filepath.Join(p.dir, "home"), filepath.Join(p.dir, "home")
	p.o = Options{DataDir: filepath.Join(p.dir, "d"), Environ: func(k string) string { return p.env[k] }}
	return p
}

func (p *place) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(p.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (p *place) load(t *testing.T) *Service {
	t.Helper()
	s, err := Load(p.o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const configTOML = "d/config/config.toml"

// Each layer overrides those before it; the table adds them one by one.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	check := func(theme string, from Source) {
		t.Helper()
		s := p.load(t)
		r, err := s.Get(t.Context(), GetParams{Keys: []string{"app.theme"}})
		if err != nil || r.Values["app.theme"] != theme || r.Sources["app.theme"] != from || s.Current().AppTheme != theme {
			t.Errorf("theme %v from %v, want %s from %s (%v)", r.Values["app.theme"], r.Sources["app.theme"], theme, from, s.Problems())
		}
	}
	check("system", FromDefault)
	p.write(t, configTOML, "[app]\ntheme = \"light\"\n")
	check("light", FromFile)
	p.write(t, "home/.helix/.env", "HELIX_APP_THEME=dark\n")
	check("dark", FromDotenv)
	p.write(t, "d/config/.env", "HELIX_APP_THEME=light\n")
	check("light", FromDotenv) // the config folder is read first, and a file never overrides
	p.o.EnvFile = p.write(t, "given.env", "HELIX_APP_THEME=dark\n")
	check("dark", FromDotenv)
	p.env["HELIX_APP_THEME"] = "system"
	check("system", FromEnv)
	p.o.Flags = map[string]string{"app.theme": "light"}
	check("light", FromFlag)
	p.o.Flags["app.theme"] = "pink"
	if _, err := Load(p.o); !fault.Is(err, fault.Invalid) {
		t.Errorf("a wrong flag: %v", err)
	}
	p.o.Flags = map[string]string{"app.thema": "dark"}
	if _, err := Load(p.o); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "app.theme") {
		t.Errorf("an unknown flag: %v", err)
	}
	p.o.Flags, p.o.EnvFile = nil, filepath.Join(p.dir, "absent.env")
	if _, err := Load(p.o); err == nil {
		t.Error("an --env-file that is not there")
	}
}

func TestHostileCurrentDirectoryIsNotRead(t *testing.T) { // not parallel, because it changes the directory
	p := newPlace(t)
	for _, f := range []string{".env", "config.toml", ".helix/.env", "config/config.toml", "config/.env"} {
		p.write(t, "cwd/"+f, "HELIX_APP_THEME=\"dark\"\n")
	}
	p.write(t, "cwd/config.toml", "app.theme = \"dark\"\n")
	t.Chdir(filepath.Join(p.dir, "cwd"))
	s := p.load(t)
	if s.Current().AppTheme != "system" || len(s.Problems()) != 0 {
		t.Errorf("theme %s, problems %v", s.Current().AppTheme, s.Problems())
	}
}

func TestDotenvRules(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	path := p.write(t, "d/config/.env", "HELIX_PROJECT_DIR="+filepath.ToSlash(filepath.Join(p.dir, "mine"))+
		"\nSUPABASE_SERVICE_ROLE_KEY=hunter2\nPATH=/evil\nHELIX_GATEWAY_ADRR=x\nDEEPGRAM_API_KEY=dg\nRUST_LOG=debug\nnonsense\nHELIX_LOG=warn\n")
	p.write(t, "mine/.env", "HELIX_SKILLS_MAX_LIVE=7\nDEEPGRAM_API_KEY=other\n")
	if runtime.GOOS != "windows" {
		if err := os.Chmod(path, 0o644); err != nil { //nolint:gosec // this is being tested
			t.Fatal(err)
		}
	}
	s := p.load(t)
	if s.Paths().User != filepath.Join(p.dir, "mine") || s.Current().SkillsMaxLive != 7 {
		t.Errorf("the user's folder: %s, %d live runs", s.Paths().User, s.Current().SkillsMaxLive)
	}
	if v, from := s.Env("DEEPGRAM_API_KEY"); v != "dg" || from != FromDotenv {
		t.Errorf("key %q from %s", v, from)
	}
	for _, name := range []string{"SUPABASE_SERVICE_ROLE_KEY", "PATH", "HELIX_GATEWAY_ADRR"} {
		if v, _ := s.Env(name); v != "" {
			t.Errorf("%s was taken", name)
		}
	}
	if s.Current().LogLevel != "warn" { // HELIX_LOG takes precedence over its alias
		t.Errorf("log level %s", s.Current().LogLevel)
	}
	codes := []string{}
	for _, pr := range s.Problems() {
		codes = append(codes, pr.Code)
		if strings.Contains(pr.Message+pr.Hint, "hunter2") {
			t.Error("a problem shows the value of a key")
		}
	}
	slices.Sort(codes)
	want := []string{"env_line", "env_readable", "ignored", "unknown_key"}
	if runtime.GOOS == "windows" {
		want = []string{"env_line", "ignored", "unknown_key"}
	}
	if !slices.Equal(codes, want) {
		t.Errorf("problems %v, want %v", codes, want)
	}
}

func TestBrokenConfigFileFallsBackToDefaults(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const broken = "app.theme = \"dark\"\ngateway.enabled = maybe\n"
	path := p.write(t, configTOML, broken)
	s := p.load(t)
	if s.Current().AppTheme != "system" || len(s.Problems()) != 1 {
		t.Fatalf("theme %s, problems %v", s.Current().AppTheme, s.Problems())
	}
	if pr := s.Problems()[0]; pr.Code != "unparsable" || !pr.Degraded || pr.Line != 2 || pr.Column == 0 {
		t.Errorf("problem %+v", pr)
	}
	if _, err := s.Set(t.Context(), SetParams{Values: map[string]any{"app.theme": "dark"}}); !fault.Is(err, fault.Invalid) {
		t.Errorf("set over a broken file: %v", err)
	}
	if got, _ := os.ReadFile(path); string(got) != broken {
		t.Errorf("the file was touched: %q", got)
	}
	p.write(t, configTOML, "app.theme = \"pink\"\nskills.max_live = 0\ngatway.enabled = false\nnotes = \"x\"\n")
	problems := s.Reload()
	if s.Current().AppTheme != "system" || s.Current().SkillsMaxLive != 8 || len(problems) != 4 {
		t.Fatalf("problems %+v", problems)
	}
	if problems[0].Key != "gatway.enabled" || !strings.Contains(problems[0].Hint, "gateway.enabled") || problems[1].Key != "notes" {
		t.Errorf("unknown keys: %+v", problems[:2])
	}
	if problems[2].Code != "bad_value" || !problems[2].Degraded {
		t.Errorf("bad values: %+v", problems[2:])
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.o.Bus = bus.New()
	path := p.write(t, configTOML, "# mine\napp.theme = \"light\" # day\n")
	p.env["HELIX_GATEWAY_ENABLED"] = "true"
	s := p.load(t)
	var mu sync.Mutex
	var events []Changed
	bus.Subscribe(p.o.Bus, func(user uuid.UUID, e Changed) {
		mu.Lock()
		defer mu.Unlock()
		if user == uuid.Nil {
			t.Error("the event belongs to nobody")
		}
		events = append(events, e)
	})
	var audited [][]string
	s.SetAudit(func(_ context.Context, keys []string) error { audited = append(audited, keys); return nil })
	ctx := identity.With(t.Context(), identity.Identity{User: uuid.New(), Client: identity.ClientWindow})
	set := func(values map[string]any) (SetResult, error) { return s.Set(ctx, SetParams{Values: values}) }

	r, err := set(map[string]any{"app.theme": "dark", "gateway.addr": "127.0.0.1:4000", "history.max_rows": float64(500), "gateway.origins": []any{"http://a"}, "backup.auto": "daily"})
	if err != nil || !slices.Equal(r.Applied, []string{"app.theme", "gateway.addr", "gateway.origins", "history.max_rows"}) ||
		!slices.Equal(r.Restart, []string{"gateway.addr", "gateway.origins"}) {
		t.Fatalf("result %+v, %v", r, err)
	}
	if c := s.Current(); c.AppTheme != "dark" || c.HistoryMaxRows != 500 || c.GatewayOrigins[0] != "http://a" {
		t.Errorf("current %+v", c)
	}
	text, _ := os.ReadFile(path)
	if !strings.HasPrefix(string(text), "# mine\napp.theme = \"dark\" # day\n") {
		t.Errorf("file:\n%s", text)
	}
	if bak, _ := os.ReadFile(path + ".bak"); string(bak) != "# mine\napp.theme = \"light\" # day\n" {
		t.Errorf("former version: %q", bak)
	}
	again, err := Load(p.o)
	if err != nil || again.Current().GatewayAddr != "127.0.0.1:4000" {
		t.Errorf("after a restart: %v", err)
	}
	if r, err := set(map[string]any{"app.theme": nil, "gateway.origins": nil}); err != nil || len(r.Applied) != 2 || s.Current().AppTheme != "system" {
		t.Errorf("reset: %+v, %v", r, err)
	}
	if r, err := set(map[string]any{"app.theme": nil}); err != nil || len(r.Applied) != 0 || r.Restart == nil {
		t.Errorf("reset of a default: %+v, %v", r, err)
	}
	if len(events) != 2 || len(audited) != 3 || len(events[1].Keys) != 2 {
		t.Errorf("events %v, audit %v", events, audited)
	}

	before, _ := os.ReadFile(path)
	for name, c := range map[string]struct {
		values map[string]any
		kind   fault.Kind
	}{
		"nothing":            {nil, fault.Invalid},
		"one of two wrong":   {map[string]any{"app.theme": "dark", "history.max_rows": -1}, fault.Invalid},
		"unknown":            {map[string]any{"app.theme": "dark", "app.thema": "x"}, fault.Invalid},
		"set by environment": {map[string]any{"app.theme": "dark", "gateway.enabled": false}, fault.Conflict},
		"named twice":        {map[string]any{"sandbox.minIsolation": "process", "sandbox.min_isolation": "process"}, fault.Invalid},
		"not loopback":       {map[string]any{"gateway.addr": "0.0.0.0:1"}, fault.Invalid},
	} {
		if _, err := set(c.values); !fault.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = set(map[string]any{"history.max_rows": 5})
	if f := fault.As(err); f.Details.(map[string]any)["key"] != "history.max_rows" || f.Details.(map[string]any)["range"] == "" {
		t.Errorf("details %v", f.Details)
	}
	s.SetAllow(func(_ context.Context, values map[string]any) error {
		if v, ok := values["app.theme"]; !ok || v != "dark" {
			t.Errorf("asked about %v", values)
		}
		return fault.Deniedf("not now")
	})
	if _, err := set(map[string]any{"app.theme": "dark"}); !fault.Is(err, fault.Denied) {
		t.Errorf("a forbidden change: %v", err)
	}
	s.SetAllow(nil)
	s.SetAudit(func(context.Context, []string) error { return errors.New("audit is full") })
	if _, err := set(map[string]any{"app.theme": "dark"}); err == nil {
		t.Error("a change without its audit entry")
	}
	if after, _ := os.ReadFile(path); string(after) != string(before) || s.Current().AppTheme != "system" || len(events) != 2 {
		t.Errorf("something was changed:\n%s", after)
	}
	left, _ := filepath.Glob(path + tempMark + "*")
	if len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if st, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if _, err := s.Get(ctx, GetParams{Keys: []string{"nope"}}); !fault.Is(err, fault.Invalid) {
		t.Errorf("get of an unknown key: %v", err)
	}
}

func TestSchemaDescribesEveryKey(t *testing.T) {
	t.Parallel()
	s := newPlace(t).load(t)
	schema, err := s.Schema(t.Context(), struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	props := schema["properties"].(map[string]any)
	r, err := s.Get(t.Context(), GetParams{})
	if err != nil || len(props) != len(Settings()) || len(r.Values) != len(props) || len(r.Sources) != len(props) {
		t.Fatalf("%d settings, %d properties, %d values, %v", len(Settings()), len(props), len(r.Values), err)
	}
	for key, p := range props {
		m := p.(map[string]any)
		if m["description"] == "" || m["x-restart"] == nil || r.Values[key] == nil {
			t.Errorf("%s: %v = %v", key, m, r.Values[key])
		}
	}
	if a := props["skills.max_live"].(map[string]any); a["minimum"] != int64(1) || a["maximum"] != int64(256) || a["default"] != int64(8) {
		t.Errorf("bounds: %v", a)
	}
}

func TestConcurrentWritersNeverTearFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	texts := []string{strings.Repeat("a", 5000), strings.Repeat("b", 5000), strings.Repeat("c", 5000)}
	if err := WriteFile(t.Context(), path, []byte(texts[0])); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if b, err := os.ReadFile(path); err != nil && runtime.GOOS != "windows" || err == nil && !slices.Contains(texts, string(b)) {
					t.Errorf("read %d bytes, %v", len(b), err)
					return
				}
			}
		}
	})
	for _, text := range texts {
		writers.Go(func() {
			for range 20 {
				if err := WriteFile(t.Context(), path, []byte(text)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	unlock, err := lockFile(t.Context(), path+".lock")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := WriteFile(ctx, path, nil); !fault.Is(err, fault.Unavailable) {
		t.Errorf("locked: %v", err)
	}
	unlock()
	if err := WriteFile(t.Context(), path, []byte("new")); err != nil {
		t.Error(err)
	}
}

func TestSectionsOfEntriesAreTheirDomains(t *testing.T) {
	p := newPlace(t)
	p.write(t, configTOML, "[providers.box]\ntype = \"openai\"\nrpm = 3\n[providers.box.extra_headers]\nX-Team = \"sea\"\n[provider]\nx = 1\n[models.roles.chat]\nchain = [\"box/one\"]\n[caps.overrides.\"box/llava:7b-v1.6\"]\nimages = true\n")
	s := p.load(t)
	got := s.Section("providers")
	if len(got) != 3 || got["box.type"] != "openai" || got["box.rpm"] != int64(3) || got["box.extra_headers.X-Team"] != "sea" {
		t.Errorf("%v", got)
	}
	if chain, ok := s.Section("models")["roles.chat.chain"].([]any); !ok || len(chain) != 1 || s.Section("caps")["overrides.box/llava:7b-v1.6.images"] != true {
		t.Errorf("%v %v", s.Section("models"), s.Section("caps"))
	}
	if problems := s.Problems(); len(problems) != 1 || problems[0].Key != "provider.x" {
		t.Errorf("%+v", problems)
	}
}
