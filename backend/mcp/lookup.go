package mcp

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"helix/backend/fault"
)

// finder finds programs by name. Its fields are what differs between systems.
type finder struct {
	windows bool
	path    []string // folders, in order
	pathExt []string // on Windows: endings of programs
	exists  func(path string) bool
	getenv  func(string) string
}

func newFinder(getenv func(string) string) *finder {
	f := &finder{windows: runtime.GOOS == "windows", path: filepath.SplitList(getenv("PATH")), exists: isProgram, getenv: getenv}
	if f.windows {
		f.pathExt = strings.Split(strings.ToLower(getenv("PATHEXT")), ";")
		if len(f.pathExt) < 2 {
			f.pathExt = []string{".com", ".exe", ".bat", ".cmd"}
		}
	}
	return f
}

func isProgram(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && (runtime.GOOS == "windows" || st.Mode()&0o111 != 0)
}

// find returns the path of a program: an absolute path or a name in one of the folders.
func (f *finder) find(command string) (string, error) {
	if f.isAbs(command) {
		if p := f.withEnding(command); p != "" {
			return p, nil
		}
		return "", fault.Unavailablef("%s doesn't exist or isn't a program.", command)
	}
	if strings.ContainsAny(command, `/\`) {
		return "", fault.Unavailablef("%s is a relative path. Use an absolute path or the name of a program.", command)
	}
	for _, dir := range f.path {
		if !f.isAbs(dir) { // never run a program from the current folder
			continue
		}
		if p := f.withEnding(dir + f.separator() + command); p != "" {
			return p, nil
		}
	}
	return "", fault.Unavailablef("Couldn't find the program %s%s. Looked in: %s.", command, install[command], strings.Join(f.path, ", "))
}

// install says how to get programs that servers are often started with.
var install = map[string]string{
	"npx": " (install Node.js: https://nodejs.org)", "node": " (install Node.js: https://nodejs.org)", "npm": " (install Node.js: https://nodejs.org)",
	"uvx": " (install uv: https://docs.astral.sh/uv)", "uv": " (install uv: https://docs.astral.sh/uv)",
	"docker": " (install Docker: https://docs.docker.com/get-docker)", "python3": " (install Python: https://www.python.org)", "deno": " (install Deno: https://deno.com)", "bunx": " (install Bun: https://bun.sh)",
}

func (f *finder) isAbs(p string) bool {
	if !f.windows {
		return strings.HasPrefix(p, "/")
	}
	return len(p) > 2 && p[1] == ':' && (p[2] == '\\' || p[2] == '/') || strings.HasPrefix(p, `\\`)
}

func (f *finder) separator() string {
	if f.windows {
		return `\`
	}
	return "/"
}

func (f *finder) withEnding(path string) string {
	if !f.windows {
		if f.exists(path) {
			return path
		}
		return ""
	}
	lower := strings.ToLower(path)
	if slices.ContainsFunc(f.pathExt, func(e string) bool { return e != "" && strings.HasSuffix(lower, e) }) && f.exists(path) {
		return path
	}
	for _, e := range f.pathExt {
		if e != "" && f.exists(path+e) {
			return path + e
		}
	}
	return ""
}

// batchLine returns the command line of a batch file. cmd.exe has no escape for the characters that
// are refused here.
func batchLine(args []string) (string, error) {
	quoted := make([]string, len(args))
	for i, a := range args {
		if strings.ContainsAny(a, "\"%\r\n") {
			return "", fault.Invalidf("Arguments of %s can't contain \", %% or a line end, because it is a batch file.", args[0])
		}
		if strings.HasSuffix(a, `\`) {
			a += `\` // or it would escape the closing quote
		}
		quoted[i] = `"` + a + `"`
	}
	return strings.Join(quoted, " "), nil
}

// passed are the variables of the environment that servers get.
var passed = []string{
	"HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TMP", "TEMP", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME",
	"SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "WINDIR", "USERPROFILE", "USERNAME", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "HOMEDRIVE", "HOMEPATH",
}

// environment returns the environment of a server: a few variables of the system and the entry's own.
func (f *finder) environment(own map[string]string) []string {
	out := []string{"PATH=" + strings.Join(f.path, string(filepath.ListSeparator))}
	for _, k := range passed {
		if v := f.getenv(k); v != "" {
			out = append(out, k+"="+v)
		}
	}
	for k, v := range own { // the last of equal names counts
		out = append(out, k+"="+v)
	}
	return out
}

// shellPath returns the folders of PATH in the user's login shell. Programs started from a desktop
// often have a shorter PATH than those in a terminal.
var shellPath = sync.OnceValue(func() []string {
	shell := os.Getenv("SHELL")
	if runtime.GOOS == "windows" || !filepath.IsAbs(shell) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell, "-l", "-c", `printf '\n%s' "$PATH"`) //nolint:gosec // the user's own shell
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return nil
	}
	return filepath.SplitList(string(out[strings.LastIndexByte(string(out), '\n')+1:]))
})

// findOr is find, and tries again with the folders of the login shell.
func (f *finder) findOr(command string, more func() []string) (string, error) {
	path, err := f.find(command)
	if err == nil || f.isAbs(command) {
		return path, err
	}
	for _, dir := range more() {
		if !slices.Contains(f.path, dir) {
			f.path = append(f.path, dir)
		}
	}
	return f.find(command)
}
