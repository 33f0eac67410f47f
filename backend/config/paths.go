package config

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"helix/backend/fault"
)

// Paths are the folders of one installation, all absolute.
type Paths struct {
	Config  string // config.toml, .env, root.key
	Data    string // helix.db, blobs, backups
	State   string // logs, gateway-token, audit-head
	Cache   string // safe to delete
	Runtime string // endpoint file
	User    string // the user's own files: soul, psychology, skills
}

// Machine is the system that FindPaths uses; the zero value is this machine.
type Machine struct {
	OS   string              // linux, darwin or windows; default runtime.GOOS
	Env  func(string) string // default os.Getenv
	Home string              // default: from the environment
	UID  int                 // default os.Getuid
}

func (m Machine) filled() Machine {
	if m.OS == "" {
		m.OS = runtime.GOOS
		if m.UID == 0 {
			m.UID = os.Getuid()
		}
	}
	if m.Env == nil {
		m.Env = os.Getenv
	}
	if m.Home == "" {
		m.Home = m.Env("HOME")
		if m.OS == "windows" {
			m.Home = m.Env("USERPROFILE")
		}
	}
	return m
}

// FindPaths returns the folders, as documented in the manual. dataDir, if not empty, contains
// everything except the user's own files.
func FindPaths(m Machine, dataDir string) (Paths, error) {
	m = m.filled()
	if m.Home == "" && dataDir == "" {
		return Paths{}, fault.Invalidf("There is no home folder. Set HOME or use --data-dir.")
	}
	join := func(elem ...string) string { return joinFor(m.OS, elem...) }
	// The base directory specification requires that a relative XDG path is ignored.
	env := func(name string, or ...string) string {
		if v := m.Env(name); v != "" && absFor(m.OS, v) {
			return v
		}
		return join(or...)
	}
	var p Paths
	switch {
	case dataDir != "":
		d, err := filepath.Abs(dataDir)
		if err != nil {
			return Paths{}, err
		}
		p = Paths{Config: join(d, "config"), Data: join(d, "data"), State: join(d, "state"), Cache: join(d, "cache"), Runtime: join(d, "run")}
	case m.OS == "windows":
		local := join(env("LOCALAPPDATA", m.Home, "AppData", "Local"), "Helix")
		p = Paths{
			Config: join(env("APPDATA", m.Home, "AppData", "Roaming"), "Helix"),
			Data:   join(local, "data"), State: join(local, "state"), Cache: join(local, "cache"), Runtime: join(local, "run"),
		}
	case m.OS == "darwin":
		lib := join(m.Home, "Library")
		p = Paths{
			Config: join(lib, "Application Support", "Helix"), Data: join(lib, "Application Support", "Helix", "data"),
			State: join(lib, "Logs", "Helix"), Cache: join(lib, "Caches", "Helix"),
			Runtime: join(env("TMPDIR", "/tmp"), "helix-"+strconv.Itoa(m.UID)),
		}
	default:
		p = Paths{
			Config: join(env("XDG_CONFIG_HOME", m.Home, ".config"), "helix"),
			Data:   join(env("XDG_DATA_HOME", m.Home, ".local", "share"), "helix"),
			State:  join(env("XDG_STATE_HOME", m.Home, ".local", "state"), "helix"),
			Cache:  join(env("XDG_CACHE_HOME", m.Home, ".cache"), "helix"),
		}
		p.Runtime = p.State
		if r := m.Env("XDG_RUNTIME_DIR"); absFor(m.OS, r) {
			p.Runtime = join(r, "helix")
		}
	}
	switch u := m.Env("HELIX_PROJECT_DIR"); {
	case u == "~" || len(u) > 1 && u[0] == '~' && (u[1] == '/' || u[1] == '\\'):
		p.User = join(m.Home, u[1:])
	case absFor(m.OS, u):
		p.User = u
	case u != "":
		return Paths{}, fault.Invalidf("HELIX_PROJECT_DIR must be an absolute path.")
	case m.Home == "":
		p.User = join(filepath.Dir(p.Config), "user")
	default:
		p.User = join(m.Home, ".helix")
	}
	return p, nil
}

// joinFor is filepath.Join for the given system, independent of the current one.
func joinFor(goos string, elem ...string) string {
	if goos == runtime.GOOS {
		return filepath.Join(elem...)
	}
	sep := "/"
	if goos == "windows" {
		sep = `\`
	}
	out := ""
	for i, e := range elem {
		if i > 0 {
			out += sep
		}
		out += e
	}
	return out
}

func absFor(goos, p string) bool {
	if goos == "windows" {
		return len(p) > 2 && p[1] == ':' && (p[2] == '\\' || p[2] == '/') || len(p) > 2 && p[0] == '\\' && p[1] == '\\'
	}
	return len(p) > 0 && p[0] == '/'
}

// Make creates the folders with mode 0700 and removes other users' access. It does not create the
// user's own folder; that is done on the first write. It returns Denied if the runtime folder
// belongs to another user, because its content determines where the token is sent.
func (p Paths) Make() error {
	var errs []error
	for _, d := range []string{p.Config, p.Data, p.State, p.Cache, p.Runtime} {
		errs = append(errs, os.MkdirAll(d, 0o700), closeFolder(d, d == p.Runtime))
	}
	return errors.Join(errs...)
}

// ConfigFile returns the path of the settings file: config.toml in the config folder.
func (p Paths) ConfigFile() string { return filepath.Join(p.Config, "config.toml") }

// Database returns the path of the database file.
func (p Paths) Database() string { return filepath.Join(p.Data, "helix.db") }
