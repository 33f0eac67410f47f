package config

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"helix/backend/bus"
)

// Options configure Load. The zero value reads this machine.
type Options struct {
	DataDir string              // --data-dir: contains all folders except the user's own
	EnvFile string              // --env-file: read before the other .env files
	Environ func(string) string // default os.Getenv
	Flags   map[string]string   // settings given on the command line, by key
	Machine Machine             // OS, home and user id; for tests
	Bus     *bus.Bus            // receives Changed; nil: a new bus
	Logger  *slog.Logger        // nil: slog.Default()
}

// Source is where a value came from.
type Source string

// The sources, lowest priority first.
const (
	FromDefault Source = "default"
	FromFile    Source = "file"        // config.toml
	FromDotenv  Source = ".env"        // a .env file
	FromEnv     Source = "environment" // an environment variable of the process
	FromFlag    Source = "flag"
)

// Problem is a problem with the configuration that did not prevent the start.
type Problem struct {
	Code    string `json:"code"` // unparsable, unknown_key, bad_value, env_readable, env_line, ignored
	Key     string `json:"key,omitempty"`
	Message string `json:"message"`        // for people
	Hint    string `json:"hint,omitempty"` // how to fix it, or the nearest known key
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	// Degraded reports that the status shows the problem until it is solved.
	Degraded bool `json:"degraded,omitempty"`
}

// Service holds the current configuration. It is safe for concurrent use.
type Service struct {
	o     Options
	paths Paths
	env   environment

	mu       sync.Mutex // held while a change is written
	state    sync.RWMutex
	current  Config
	sources  map[string]Source
	problems []Problem
	entries  map[string]map[string]any // of sections whose entries have names chosen by the user
	audit    AuditFunc
	allow    AllowFunc
}

// environment is what variables and .env files set, by variable.
type environment struct {
	vars     map[string]string
	from     map[string]Source
	problems []Problem
}

// Load finds and creates the folders and reads the settings: defaults, config.toml, .env files, the
// environment, flags; later ones override earlier ones. If config.toml cannot be parsed, the result
// is the defaults and a degraded Problem. An invalid flag is an error.
func Load(o Options) (*Service, error) {
	if o.Environ == nil {
		o.Environ = os.Getenv
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Bus == nil {
		o.Bus = bus.New()
	}
	s := &Service{o: o}
	m := o.Machine
	m.Env = o.Environ
	p, err := FindPaths(m, o.DataDir)
	if err != nil {
		return nil, err
	}
	if err := s.readEnvironment(m, p); err != nil {
		return nil, err
	}
	if err := s.paths.Make(); err != nil {
		return nil, fmt.Errorf("make folders: %w", err)
	}
	for _, key := range slices.Sorted(maps.Keys(o.Flags)) {
		set, ok := lookup(key)
		if !ok {
			return nil, unknownKey(key)
		}
		if _, err := set.Parse(o.Flags[key]); err != nil {
			return nil, err
		}
	}
	s.Reload()
	return s, nil
}

// readEnvironment reads .env in the config folder, then that in the user's own folder, which the
// former may set. The current directory is never used.
func (s *Service) readEnvironment(m Machine, p Paths) error {
	s.env = environment{vars: map[string]string{}, from: map[string]Source{}}
	for _, k := range known() {
		if v := s.o.Environ(k.Name); v != "" {
			s.env.vars[k.Name], s.env.from[k.Name] = v, FromEnv
		}
	}
	if s.o.EnvFile != "" {
		if err := s.env.read(s.o.EnvFile); err != nil {
			return fmt.Errorf("read %s: %w", s.o.EnvFile, err)
		}
	}
	optional := func(dir string) {
		if err := s.env.read(filepath.Join(dir, ".env")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.env.problems = append(s.env.problems, Problem{Code: "env_line", Message: "A .env file could not be read.", Hint: err.Error()})
		}
	}
	optional(p.Config)
	if dir := s.env.vars["HELIX_PROJECT_DIR"]; dir != "" {
		environ := m.Env
		m.Env = func(name string) string {
			if name == "HELIX_PROJECT_DIR" {
				return dir
			}
			return environ(name)
		}
		var err error
		if p, err = FindPaths(m, s.o.DataDir); err != nil {
			return err
		}
	}
	s.paths = p
	optional(p.User)
	if s.o.Environ(serviceRoleKey) != "" {
		s.env.problems = append(s.env.problems, ignoredKey())
	}
	return nil
}

const serviceRoleKey = "SUPABASE_SERVICE_ROLE_KEY"

func ignoredKey() Problem {
	return Problem{Code: "ignored", Key: serviceRoleKey, Message: serviceRoleKey + " is ignored: Helix never uses a key that bypasses row level security.", Hint: "Remove it."}
}

// read adds the known variables of one file that are not yet set.
func (e *environment) read(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	name := filepath.Base(filepath.Dir(path)) + "/" + filepath.Base(path)
	if othersCanRead(path) {
		e.problems = append(e.problems, Problem{Code: "env_readable", Message: name + " can be read by other users of this computer.", Hint: "chmod 600 " + path})
	}
	lines, problems := parseDotenv(text)
	for _, p := range problems {
		e.problems = append(e.problems, Problem{Code: "env_line", Message: name + ", " + p})
	}
	here := map[string]bool{}
	for _, l := range lines {
		if l.Name == serviceRoleKey {
			e.problems = append(e.problems, ignoredKey())
			continue
		}
		if !isKnown(l.Name) {
			if strings.HasPrefix(l.Name, "HELIX_") {
				e.problems = append(e.problems, Problem{Code: "unknown_key", Key: l.Name, Line: l.No, Message: name + " sets " + l.Name + ", which Helix does not know.", Hint: nearestEnv(l.Name)})
			}
			continue
		}
		if from := e.from[l.Name]; from != "" && !here[l.Name] {
			continue // set elsewhere: a file never overrides
		}
		here[l.Name] = true // within one file the last line wins
		e.vars[l.Name], e.from[l.Name] = l.Value, FromDotenv
	}
	return nil
}

// Reload reads config.toml again and returns the problems found.
func (s *Service) Reload() []Problem {
	c, sources, problems, entries := s.evaluate()
	s.state.Lock()
	s.current, s.sources, s.problems, s.entries = c, sources, problems, entries
	s.state.Unlock()
	return slices.Clone(problems)
}

// sections contain entries with names chosen by the user; their domain reads and validates them.
var sections = []string{"providers", "models", "caps"}

func (s *Service) evaluate() (Config, map[string]Source, []Problem, map[string]map[string]any) {
	problems := slices.Clone(s.env.problems)
	file, err := s.readFile()
	if err != nil {
		p := Problem{Code: "unparsable", Message: err.Error(), Hint: "Helix uses the defaults until you fix the file. The file was not changed.", Degraded: true}
		p.Line, p.Column = positionOf(err)
		problems = append(problems, p)
	}
	entries := map[string]map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(file)) {
		if section, rest, _ := strings.Cut(key, "."); slices.Contains(sections, section) && rest != "" {
			if entries[section] == nil {
				entries[section] = map[string]any{}
			}
			entries[section][rest] = file[key]
			continue
		}
		if _, ok := lookup(key); !ok {
			problems = append(problems, Problem{Code: "unknown_key", Key: key, Message: "config.toml has the unknown key " + key + ".", Hint: hint(key)})
		}
	}
	var c Config
	sources := map[string]Source{}
	for _, set := range settings() {
		value, source := set.Default(), FromDefault
		try := func(v any, err error, from Source, where string) {
			if err == nil {
				value, source = v, from
				return
			}
			problems = append(problems, Problem{Code: "bad_value", Key: set.Key, Message: where + ": " + err.Error(), Degraded: true})
		}
		for key, v := range file {
			if fold(key) == fold(set.Key) {
				v, err := set.Accept(v)
				try(v, err, FromFile, "config.toml")
			}
		}
		for _, name := range append([]string{set.Env}, envAliases[set.Key]...) {
			if text, ok := s.env.vars[name]; ok {
				v, err := set.Parse(text)
				try(v, err, s.env.from[name], name)
				break
			}
		}
		for key, text := range s.o.Flags {
			if fold(key) == fold(set.Key) {
				v, err := set.Parse(text)
				try(v, err, FromFlag, key)
			}
		}
		set.put(&c, value)
		sources[set.Key] = source
	}
	return c, sources, problems, entries
}

// Section returns the entries of a section in config.toml, by the rest of the key. The caller must
// not change the result.
func (s *Service) Section(name string) map[string]any {
	s.state.RLock()
	defer s.state.RUnlock()
	return s.entries[name]
}

func (s *Service) readFile() (map[string]any, error) {
	text, err := os.ReadFile(s.paths.ConfigFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decodeTOML(text)
}

// Current returns the current configuration.
func (s *Service) Current() Config {
	s.state.RLock()
	defer s.state.RUnlock()
	return s.current
}

// Paths returns the current folders.
func (s *Service) Paths() Paths { return s.paths }

// Problems returns the problems found when the configuration was last read.
func (s *Service) Problems() []Problem {
	s.state.RLock()
	defer s.state.RUnlock()
	return slices.Clone(s.problems)
}

// Env returns the value and source of a known variable that is not a setting, such as
// DEEPGRAM_API_KEY; "" if it is not set.
func (s *Service) Env(name string) (value string, from Source) {
	return s.env.vars[name], s.env.from[name]
}
