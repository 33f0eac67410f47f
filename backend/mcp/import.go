package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"helix/backend/fault"
	"helix/backend/openapi"
	"helix/backend/storage"
)

const maxConfigBytes = 4 << 20

// Imported is a server that a configuration of another program contains.
type Imported struct {
	Name     string   `json:"name"`
	Server   *Server  `json:"server,omitempty"`   // nil: skipped
	Conflict string   `json:"conflict,omitempty"` // why it cannot be added under its name
	Secrets  []string `json:"secrets"`            // names of the secrets that its values are moved to
	Missing  []string `json:"missing"`            // secrets that must be filled in
	Skipped  string   `json:"skipped,omitempty"`  // why it cannot be added at all

	values map[string]string // of Secrets
}

// ImportParams name one configuration: a known place, a file or its content.
type ImportParams struct {
	Source  string   `json:"source,omitempty"` // of mcp.sources
	Path    string   `json:"path,omitempty"`
	Content string   `json:"content,omitempty"`
	Names   []string `json:"names,omitempty"`  // default all
	DryRun  *bool    `json:"dryRun,omitempty"` // default true: only show what is found
}

// ImportResult lists what was found, and what was added.
type ImportResult struct {
	Found []Imported `json:"found"`
	Added []string   `json:"added"`
}

// Source is a place where another program keeps its MCP servers.
type Source struct {
	ID      string `json:"id"`
	Title   string `json:"title"`
	Path    string `json:"path"`
	Servers int    `json:"servers"`         // 0 with an error
	Error   string `json:"error,omitempty"` // why the file cannot be read
}

// SourcesResult lists the known places that exist on this computer.
type SourcesResult struct {
	Sources []Source `json:"sources"`
}

// place is a known place, relative to a folder of the user.
type place struct{ id, title, goos, base, path string }

var places = []place{
	{"claude-desktop", "Claude Desktop", "darwin", "HOME", "Library/Application Support/Claude/claude_desktop_config.json"},
	{"claude-desktop", "Claude Desktop", "windows", "APPDATA", "Claude/claude_desktop_config.json"},
	{"claude-desktop", "Claude Desktop", "linux", "HOME", ".config/Claude/claude_desktop_config.json"},
	{"cursor", "Cursor", "", "HOME", ".cursor/mcp.json"},
	{"lm-studio", "LM Studio", "", "HOME", ".lmstudio/mcp.json"},
	{"jan", "Jan", "darwin", "HOME", "Library/Application Support/Jan/data/mcp_config.json"},
	{"jan", "Jan", "windows", "APPDATA", "Jan/data/mcp_config.json"},
	{"jan", "Jan", "linux", "HOME", ".local/share/Jan/data/mcp_config.json"},
	{"vscode", "VS Code", "darwin", "HOME", "Library/Application Support/Code/User/mcp.json"},
	{"vscode", "VS Code", "windows", "APPDATA", "Code/User/mcp.json"},
	{"vscode", "VS Code", "linux", "HOME", ".config/Code/User/mcp.json"},
	{"goose", "goose", "windows", "APPDATA", "Block/goose/config/config.yaml"},
	{"goose", "goose", "", "HOME", ".config/goose/config.yaml"},
}

// known returns the known places for a system that exist.
func known(goos string, getenv func(string) string, exists func(string) bool) (out []Source) {
	for _, p := range places {
		base := getenv(p.base)
		if p.goos != "" && p.goos != goos || base == "" {
			continue
		}
		path := filepath.Join(base, filepath.FromSlash(p.path))
		if exists(path) && !slices.ContainsFunc(out, func(s Source) bool { return s.ID == p.id }) {
			out = append(out, Source{ID: p.id, Title: p.title, Path: path})
		}
	}
	return out
}

// Sources lists the configurations of other programs on this computer that contain MCP servers.
// Nothing is imported.
func (s *Service) Sources(context.Context, struct{}) (SourcesResult, error) {
	out := SourcesResult{Sources: []Source{}}
	for _, src := range known(runtime.GOOS, s.o.Getenv, func(p string) bool { st, err := os.Stat(p); return err == nil && st.Mode().IsRegular() }) {
		text, err := readConfig(src.Path)
		if err == nil {
			var found []Imported
			found, err = parseConfig(text)
			src.Servers = len(found)
		}
		if err != nil {
			src.Error = fault.As(err).Message
		}
		out.Sources = append(out.Sources, src)
	}
	return out, nil
}

func readConfig(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // a file that the user chose
	if err != nil {
		return nil, fault.Unavailablef("Couldn't read %s.", filepath.Base(path)).WithCause(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil || len(b) > maxConfigBytes {
		return nil, fault.Invalidf("Couldn't read %s: it is larger than %d bytes or not readable.", filepath.Base(path), maxConfigBytes).WithCause(err)
	}
	return b, nil
}

// Import shows the MCP servers in a configuration of another program, and adds those that are named.
// Values that look like secrets are stored as secrets. The configuration is not changed.
func (s *Service) Import(ctx context.Context, p ImportParams) (ImportResult, error) {
	out := ImportResult{Found: []Imported{}, Added: []string{}}
	text, source, err := s.configOf(p)
	if err != nil {
		return out, err
	}
	found, err := parseConfig(text)
	if err != nil {
		return out, err
	}
	for _, i := range found {
		if len(p.Names) == 0 || slices.Contains(p.Names, i.Name) {
			out.Found = append(out.Found, i)
		}
	}
	err = s.write(ctx, func(tx *storage.Tx) error {
		out.Added = out.Added[:0]
		taken := map[string]bool{}
		for k := range out.Found {
			i := &out.Found[k]
			if i.Server == nil {
				continue
			}
			_, err := loadServer(tx, i.Server.Name)
			switch i.Conflict = ""; {
			case taken[i.Server.Name]:
				i.Conflict = fmt.Sprintf("Another server of the configuration is named %q too. Rename one of them there.", i.Server.Name)
			case err == nil:
				i.Conflict = fmt.Sprintf("You already have a server named %q.", i.Server.Name)
			case !fault.Is(err, fault.NotFound):
				return err
			}
			taken[i.Server.Name] = true
			if i.Conflict != "" || p.DryRun == nil || *p.DryRun {
				continue
			}
			for name, value := range i.values {
				if err := s.o.SetSecret(tx, name, []byte(value)); err != nil {
					return err
				}
			}
			if _, err := s.addTx(tx, *i.Server, source); err != nil {
				return err
			}
			out.Added = append(out.Added, i.Server.Name)
		}
		return nil
	})
	return out, err
}

// configOf returns the text of a configuration and what it is called.
func (s *Service) configOf(p ImportParams) (text []byte, source string, err error) {
	switch {
	case p.Source != "":
		for _, src := range known(runtime.GOOS, s.o.Getenv, func(p string) bool { _, err := os.Stat(p); return err == nil }) {
			if src.ID == p.Source {
				text, err = readConfig(src.Path)
				return text, src.ID, err
			}
		}
		return nil, "", fault.NotFoundf("No configuration of %q was found on this computer.", visible(p.Source, 64))
	case p.Path != "":
		text, err = readConfig(p.Path)
		return text, "file", err
	case p.Content != "":
		return []byte(p.Content), "file", nil
	}
	return nil, "", fault.Invalidf("Provide source, path or content.")
}

// foreign is an entry in the configurations of other programs.
type foreign struct {
	Type, Command, Cmd, URL, URI string
	ServerURL                    string `json:"serverUrl"`
	Args                         []any
	Env, Envs, Headers           map[string]any
	EnvKeys                      []string `json:"env_keys"`
	Cwd, Description             string
	Timeout                      float64
	Enabled, Disabled            *bool
}

// parseConfig reads the configuration of another program, JSON with comments or YAML. An entry that can't be
// read doesn't keep the others from being used.
func parseConfig(text []byte) ([]Imported, error) {
	if begin := bytes.TrimLeft(text, "\ufeff \t\r\n"); len(begin) > 0 && (begin[0] == '{' || begin[0] == '/') {
		text = stripComments(text)
	}
	doc, err := openapi.Decode(text)
	if err != nil {
		return nil, err
	}
	inner, _ := doc["mcp"].(map[string]any)
	out := []Imported{}
	for _, group := range []any{doc["mcpServers"], doc["servers"], doc["extensions"], inner["servers"]} {
		all, _ := group.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			out = append(out, importedFrom(name, all[name]))
		}
	}
	if len(out) == 0 {
		return nil, fault.Invalidf("The configuration contains no MCP servers: mcpServers, servers or extensions are expected.")
	}
	return out, nil
}

func importedFrom(name string, entry any) Imported {
	var f foreign
	text, err := json.Marshal(entry)
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		err = d.Decode(&f)
	}
	if err != nil {
		return Imported{Name: name, Secrets: []string{}, Missing: []string{}, Skipped: fmt.Sprintf("Its entry can't be read: %s.", strings.TrimPrefix(err.Error(), "json: "))}
	}
	return f.convert(name)
}

// formatValue returns a value of a configuration as text: numbers and switches are often written without quotes.
func formatValue(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// stripComments replaces comments and trailing commas by spaces, so that positions stay the same.
func stripComments(text []byte) []byte {
	out := slices.Clone(text)
	comma := -1 // a comma after which only space and comments came
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == '"':
			for i++; i < len(out) && out[i] != '"'; i++ {
				if out[i] == '\\' {
					i++
				}
			}
			comma = -1
		case c == '/' && i+1 < len(out) && out[i+1] == '/':
			end := i
			for end < len(out) && out[end] != '\n' {
				end++
			}
			blank(i, end)
			i = end - 1
		case c == '/' && i+1 < len(out) && out[i+1] == '*':
			end := len(out)
			if n := strings.Index(string(out[i+2:]), "*/"); n >= 0 {
				end = i + 2 + n + 2
			}
			blank(i, end)
			i = end - 1
		case c == ',':
			comma = i
		case c == '}' || c == ']':
			if comma >= 0 {
				out[comma] = ' '
			}
			comma = -1
		case c != ' ' && c != '\t' && c != '\n' && c != '\r':
			comma = -1
		}
	}
	return out
}

// reference is a variable in the notation of another program.
var reference = regexp.MustCompile(`\$\{(input|env):([A-Za-z0-9_.-]+)\}`)

// convert converts an entry of another program.
func (f *foreign) convert(name string) Imported {
	i := Imported{Name: name, Secrets: []string{}, Missing: []string{}, values: map[string]string{}}
	e := Server{Name: slugName(name), Command: first(f.Command, f.Cmd), Cwd: f.Cwd, URL: first(f.URL, f.ServerURL, f.URI), Description: visible(f.Description, 500)}
	if !serverName.MatchString(name) && e.Name == "" {
		i.Skipped = "Its name has no usable characters."
		return i
	}
	switch kind := strings.ToLower(f.Type); kind {
	case "builtin", "frontend", "platform", "inline_python":
		i.Skipped = fmt.Sprintf("The type %s is a part of the other program.", kind)
		return i
	case "sse":
		e.Transport = SSE
	case "", "stdio", "http", "streamable-http", "streamable_http", "streamablehttp":
	default:
		i.Skipped = fmt.Sprintf("The type %q is unknown.", visible(f.Type, 40))
		return i
	}
	if e.URL != "" && e.Transport != SSE {
		e.Transport = HTTP
	}
	on := (f.Enabled == nil || *f.Enabled) && (f.Disabled == nil || !*f.Disabled)
	e.Enabled = &on
	if f.Timeout > 0 { // goose writes seconds
		e.TimeoutMs = min(int64(f.Timeout*1000), maxTimeoutMs)
	}
	storeSecret := func(key, v string) string {
		base := "mcp/" + e.Name + "/" + strings.Map(safeKey, clip(strings.TrimLeft(key, "-"), 40))
		secret := base
		for n := 2; i.values[secret] != "" && i.values[secret] != v; n++ {
			secret = fmt.Sprintf("%s_%d", base, n)
		}
		if i.values[secret] == "" {
			i.Secrets, i.values[secret] = append(i.Secrets, secret), v
		}
		return "${" + secret + "}"
	}
	resolveRefs := func(v string) string {
		return reference.ReplaceAllStringFunc(v, func(m string) string {
			part := reference.FindStringSubmatch(m)
			if part[1] == "env" {
				return "${" + part[2] + "}"
			}
			secret := "mcp/" + e.Name + "/" + part[2]
			i.Missing = append(i.Missing, secret)
			return "${" + secret + "}"
		})
	}
	text := func(key string, value any) string {
		v := resolveRefs(formatValue(value))
		if !looksSecret(key, v) {
			return v
		}
		return storeSecret(key, v)
	}
	for _, a := range f.Args {
		e.Args = append(e.Args, resolveRefs(formatValue(a)))
	}
	e.Args, e.URL = hideInArgs(e.Args, storeSecret), hideInURL(resolveRefs(e.URL), storeSecret)
	own := map[string]any{}
	maps.Copy(own, f.Env)
	maps.Copy(own, f.Envs)
	e.Env = map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(own)) {
		e.Env[k] = text(k, own[k])
	}
	for _, k := range f.EnvKeys { // kept in the keyring of the other program
		secret := "mcp/" + e.Name + "/" + strings.Map(safeKey, k)
		i.Missing = append(i.Missing, secret)
		e.Env[k] = "${" + secret + "}"
	}
	e.Headers = map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(f.Headers)) {
		e.Headers[k] = text(k, f.Headers[k])
	}
	if e.URL != "" {
		e.Env = nil
	} else {
		e.Headers = nil
	}
	slices.Sort(i.Missing)
	i.Missing = slices.Compact(i.Missing)
	if err := e.normalize(); err != nil {
		i.Skipped = fault.As(err).Message
		return i
	}
	i.Server = &e
	return i
}

func safeKey(r rune) rune {
	if r < 128 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-') {
		return r
	}
	return '_'
}

// slugName converts the name of a server in another program.
func slugName(name string) string {
	s := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '-'
	}, name), "-_")
	return strings.Trim(s[:min(len(s), 32)], "-_")
}

var (
	secretKey   = regexp.MustCompile(`(?i)(token|secret|passw|api_?-?key|access_?-?key|authorization|credential|private_?-?key|_key$|_pat$)`)
	secretValue = regexp.MustCompile(`^(sk-|ghp_|github_pat_|gho_|glpat-|xox[abp]-|AKIA|AIza|Bearer |Basic |eyJ)`)
)

// looksSecret reports whether a value should be stored as a secret.
func looksSecret(key, value string) bool {
	return !variable.MatchString(value) && (secretKey.MatchString(key) && len(value) >= 8 || secretValue.MatchString(value) && len(value) >= 12)
}

// hideInArgs passes what looks like a secret among the arguments of a program to storeSecret, and returns the arguments
// with what storeSecret returned instead. The name of a value is in front of it or is the argument before it.
func hideInArgs(args []string, storeSecret func(key, value string) string) []string {
	out := slices.Clone(args)
	for k, a := range args {
		name, value, named := a, "", false
		if at := strings.IndexAny(a, "=:"); at > 0 && !strings.Contains(a, "://") {
			name, value, named = a[:at], strings.TrimLeft(a[at+1:], " "), true
		}
		flag := ""
		if k > 0 && strings.HasPrefix(args[k-1], "-") && !strings.HasPrefix(a, "-") && !strings.Contains(a, "://") {
			flag = args[k-1]
		}
		switch {
		case named && looksSecret(name, value):
			out[k] = strings.TrimSuffix(a, value) + storeSecret(name, value)
		case looksSecret(flag, a):
			out[k] = storeSecret(first(flag, "argument"), a)
		default:
			out[k] = hideInURL(a, storeSecret)
		}
	}
	return out
}

// inQuery is a parameter of an address.
var inQuery = regexp.MustCompile(`[?&][^?&=#\s]+=[^&#\s]+`)

// hideInURL is hideInArgs for the parameters of an address.
func hideInURL(address string, storeSecret func(key, value string) string) string {
	if !strings.Contains(address, "://") {
		return address
	}
	return inQuery.ReplaceAllStringFunc(address, func(m string) string {
		name, value, _ := strings.Cut(m, "=")
		if !looksSecret(name, value) {
			return m
		}
		return name + "=" + storeSecret(name[1:], value)
	})
}

// ExportParams select servers.
type ExportParams struct {
	Names []string `json:"names,omitempty"` // default all
}

// ExportResult is a configuration in the form that most programs read.
type ExportResult struct {
	Content string `json:"content"`
}

// Export writes MCP servers in the mcpServers form, without the values of secrets.
func (s *Service) Export(ctx context.Context, p ExportParams) (ExportResult, error) {
	type entry struct {
		Type        string            `json:"type,omitempty"`
		Command     string            `json:"command,omitempty"`
		Args        []string          `json:"args,omitempty"`
		Env         map[string]string `json:"env,omitempty"`
		Cwd         string            `json:"cwd,omitempty"`
		URL         string            `json:"url,omitempty"`
		Headers     map[string]string `json:"headers,omitempty"`
		Description string            `json:"description,omitempty"`
		Disabled    bool              `json:"disabled,omitempty"`
	}
	all := map[string]entry{}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		rows, err := loadServers(tx)
		for _, r := range rows {
			if len(p.Names) > 0 && !slices.Contains(p.Names, r.Name) {
				continue
			}
			e := entry{Command: r.Command, Args: r.Args, Env: r.Env, Cwd: r.Cwd, URL: r.URL, Headers: r.Headers, Description: r.Description, Disabled: !*r.Enabled}
			if r.Transport != Stdio {
				e.Type = r.Transport
			}
			all[r.Name] = e
		}
		return err
	})
	for _, name := range p.Names {
		if _, ok := all[name]; err == nil && !ok {
			return ExportResult{}, errNoServer(name)
		}
	}
	if err != nil {
		return ExportResult{}, err
	}
	b, err := json.MarshalIndent(map[string]any{"mcpServers": all}, "", "  ")
	return ExportResult{string(b) + "\n"}, err
}
