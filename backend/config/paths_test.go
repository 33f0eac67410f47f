package config

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"helix/backend/fault"
)

func TestFoldersOfEachSystem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		m       Machine
		env     map[string]string
		want    Paths
		dataDir string
	}{
		"linux": {
			m: Machine{OS: "linux", Home: "/home/é u"},
			want: Paths{"/home/é u/.config/helix", "/home/é u/.local/share/helix", "/home/é u/.local/state/helix",
				"/home/é u/.cache/helix", "/home/é u/.local/state/helix", "/home/é u/.helix"},
		},
		"linux with everything set": {
			m: Machine{OS: "linux", Home: "/home/u"},
			env: map[string]string{"XDG_CONFIG_HOME": "/c c", "XDG_DATA_HOME": "/d", "XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "/k",
				"XDG_RUNTIME_DIR": "/run/user/7", "HELIX_PROJECT_DIR": "/p/ö"},
			want: Paths{"/c c/helix", "/d/helix", "/s/helix", "/k/helix", "/run/user/7/helix", "/p/ö"},
		},
		"linux, relative folders are ignored": {
			m:    Machine{OS: "linux", Home: "/home/u"},
			env:  map[string]string{"XDG_CONFIG_HOME": "c", "XDG_RUNTIME_DIR": "r", "HELIX_PROJECT_DIR": "~/mine"},
			want: Paths{"/home/u/.config/helix", "/home/u/.local/share/helix", "/home/u/.local/state/helix", "/home/u/.cache/helix", "/home/u/.local/state/helix", "/home/u/mine"},
		},
		"macOS": {
			m:   Machine{OS: "darwin", Home: "/Users/u", UID: 501},
			env: map[string]string{"TMPDIR": "/var/folders/x/T", "XDG_CONFIG_HOME": "/ignored"},
			want: Paths{"/Users/u/Library/Application Support/Helix", "/Users/u/Library/Application Support/Helix/data",
				"/Users/u/Library/Logs/Helix", "/Users/u/Library/Caches/Helix", "/var/folders/x/T/helix-501", "/Users/u/.helix"},
		},
		"Windows": {
			m:   Machine{OS: "windows"},
			env: map[string]string{"USERPROFILE": `C:\Users\J Ü`, "APPDATA": `C:\Users\J Ü\AppData\Roaming`, "LOCALAPPDATA": `D:\Local`},
			want: Paths{`C:\Users\J Ü\AppData\Roaming\Helix`, `D:\Local\Helix\data`, `D:\Local\Helix\state`, `D:\Local\Helix\cache`,
				`D:\Local\Helix\run`, `C:\Users\J Ü\.helix`},
		},
		"Windows without variables": {
			m:   Machine{OS: "windows", Home: `C:\Users\u`},
			env: map[string]string{"HELIX_PROJECT_DIR": `\\nas\me`},
			want: Paths{`C:\Users\u\AppData\Roaming\Helix`, `C:\Users\u\AppData\Local\Helix\data`, `C:\Users\u\AppData\Local\Helix\state`,
				`C:\Users\u\AppData\Local\Helix\cache`, `C:\Users\u\AppData\Local\Helix\run`, `\\nas\me`},
		},
	} {
		c.m.Env = func(k string) string { return c.env[k] }
		got, err := FindPaths(c.m, "")
		slash := func(p Paths) Paths { // paths of another system are joined with the rules of this one
			if c.m.OS == runtime.GOOS {
				return p
			}
			return Paths{clean(p.Config), clean(p.Data), clean(p.State), clean(p.Cache), clean(p.Runtime), clean(p.User)}
		}
		if err != nil || slash(got) != slash(c.want) {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", name, got, err, c.want)
		}
	}
}

func clean(p string) string {
	out := []rune{}
	for _, r := range p {
		if (r == '/' || r == '\\') && len(out) > 1 && (out[len(out)-1] == '/' || out[len(out)-1] == '\\') {
			continue
		}
		out = append(out, r)
	}
	return string(out)
}

func TestDataDirHoldsEverything(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "my data é")
	s, err := Load(Options{DataDir: dir, Environ: env(map[string]string{"HOME": t.TempDir(), "USERPROFILE": t.TempDir(), "XDG_CONFIG_HOME": "/elsewhere"})})
	if err != nil {
		t.Fatal(err)
	}
	p := s.Paths()
	for _, d := range []string{p.Config, p.Data, p.State, p.Cache, p.Runtime} {
		if rel, err := filepath.Rel(dir, d); err != nil || !filepath.IsLocal(rel) {
			t.Errorf("%s is not under %s", d, dir)
		}
		if st, err := os.Stat(d); err != nil || runtime.GOOS != "windows" && st.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", d, st, err)
		}
	}
	if p.ConfigFile() != filepath.Join(p.Config, "config.toml") || p.Database() != filepath.Join(p.Data, "helix.db") {
		t.Errorf("files: %s, %s", p.ConfigFile(), p.Database())
	}
	if _, err := FindPaths(Machine{OS: "linux", Env: env(nil)}, ""); err == nil {
		t.Error("without a home folder")
	}
	if _, err := FindPaths(Machine{OS: "linux", Env: env(map[string]string{"HOME": "/h", "HELIX_PROJECT_DIR": "rel"})}, ""); err == nil {
		t.Error("a relative HELIX_PROJECT_DIR")
	}
}

func env(m map[string]string) func(string) string { return func(k string) string { return m[k] } }

// TestFoldersAreClosed makes folders private that other users could access before.
func TestFoldersAreClosed(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("folders inherit an access list here")
	}
	dir := t.TempDir()
	p := Paths{Config: filepath.Join(dir, "c"), Data: filepath.Join(dir, "d"), State: filepath.Join(dir, "s"), Cache: filepath.Join(dir, "x"), Runtime: filepath.Join(dir, "r")}
	for _, d := range []string{p.Data, p.Runtime} {
		if err := errors.Join(os.Mkdir(d, 0o700), os.Chmod(d, 0o777)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Make(); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{p.Config, p.Data, p.State, p.Cache, p.Runtime} {
		if st, err := os.Stat(d); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v %v", d, st.Mode(), err)
		}
	}
	if os.Geteuid() == 0 {
		t.Skip("the superuser may use any folder")
	}
	p.Runtime = "/usr" // the superuser's
	if err := p.Make(); !fault.Is(err, fault.Denied) {
		t.Errorf("a foreign runtime folder: %v", err)
	}
}
