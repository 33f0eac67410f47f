package permission

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// foldPaths is set where file names are case-insensitive.
const foldPaths = runtime.GOOS == "windows" || runtime.GOOS == "darwin"

// pathVars are the variables of path patterns.
var pathVars = []string{"$HOME", "$WORKSPACE", "$STATE"}

// normalizePath validates a path pattern: absolute or below a variable, without "..", and with no
// wildcard except a final /**.
func normalizePath(c Capability, in string) (string, error) {
	bad := func(rule, format string, args ...any) (string, error) {
		return "", broken(string(c), in, rule, format, args...)
	}
	s := strings.TrimSpace(in)
	if runtime.GOOS == "windows" {
		s = strings.ReplaceAll(s, `\`, "/")
	}
	if rest, ok := strings.CutPrefix(s, "~"); ok && (rest == "" || rest[0] == '/') {
		s = "$HOME" + rest
	}
	tree := false
	if base, ok := strings.CutSuffix(s, "/**"); ok {
		s, tree = base, true
	} else if base, ok := strings.CutSuffix(s, "/"); ok && base != "" {
		s, tree = base, true
	}
	if strings.ContainsAny(s, "*?") {
		return bad("wildcard", "The only wildcard in a path is /** at the end, for a folder and what is in it.")
	}
	for _, part := range strings.Split(s, "/") {
		if part == ".." {
			return bad("parent", "A path must not contain .. .")
		}
	}
	root := ""
	for _, v := range pathVars {
		if rest, ok := strings.CutPrefix(s, v); ok && (rest == "" || rest[0] == '/') {
			root, s = v, rest
		}
	}
	if strings.HasPrefix(s, "$") {
		return bad("variable", "A path may start with $HOME, $WORKSPACE or $STATE, no other variable.")
	}
	if root == "" && !filepath.IsAbs(filepath.FromSlash(s)) && s != "" {
		return bad("absolute", "A path must be absolute.")
	}
	if s != "" {
		s = filepath.ToSlash(filepath.Clean(filepath.FromSlash(s)))
	}
	if s = strings.TrimSuffix(s, "/"); root == "" && (s == "" || filepath.VolumeName(filepath.FromSlash(s)) == filepath.FromSlash(s)) {
		return bad("root", "Access to all files cannot be granted.")
	}
	if c == FilesystemWrite && root != "$STATE" {
		return bad("write", "Writing is possible only inside the tool's own $STATE folder.")
	}
	if tree {
		return root + s + "/**", nil
	}
	if s == "" {
		return bad("folder", "Write %s/** to mean the folder and what is in it.", root)
	}
	return root + s, nil
}

// space resolves path patterns on one machine.
type space struct {
	home, workspace string
	state           func(Subject) string // the folder of the subject's own files; nil or "": none
	own             []string             // resolved: folders of Helix, which are never granted
}

// expand replaces the variable in a normalized pattern. ok is false if it has no value.
func (sp *space) expand(s string, sub Subject) (string, bool) {
	if !strings.HasPrefix(s, "$") {
		return s, true
	}
	name, rest, _ := strings.Cut(s, "/")
	val := ""
	switch name {
	case "$HOME":
		val = sp.home
	case "$WORKSPACE":
		val = sp.workspace
	case "$STATE":
		if sp.state != nil {
			val = sp.state(sub)
		}
	}
	if val == "" {
		return "", false
	}
	return strings.TrimSuffix(filepath.ToSlash(val), "/") + "/" + rest, true
}

// pattern expands and resolves a path pattern. ok is false if it cannot match anything.
func (sp *space) pattern(s string, sub Subject) (path string, tree, ok bool) {
	if s, ok = sp.expand(s, sub); !ok {
		return "", false, false
	}
	if s, tree = strings.CutSuffix(s, "/**"); tree {
		s += "/" // the root of a disk, which only a built-in declares, is a folder too
	}
	path, err := resolve(s)
	return path, tree, err == nil
}

// resolve follows all symbolic links in the existing part of path and keeps the rest, cleaned. A
// file to be created is therefore resolved by its folder.
func resolve(path string) (string, error) {
	p := filepath.Clean(filepath.FromSlash(path))
	if !filepath.IsAbs(p) {
		return "", errors.New("path is not absolute")
	}
	rest := ""
	for {
		r, err := filepath.EvalSymlinks(p)
		if err == nil {
			return filepath.Join(r, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if fi, lerr := os.Lstat(p); lerr == nil && fi.Mode()&fs.ModeSymlink != 0 {
			return "", errors.New("path ends in a broken link") // it could point anywhere once its target exists
		}
		up := filepath.Dir(p)
		if up == p {
			return "", err
		}
		rest, p = filepath.Join(filepath.Base(p), rest), up
	}
}

// within reports whether path is root or inside it. Both must be resolved.
func within(root, path string) bool {
	if foldPaths {
		root, path = strings.ToLower(root), strings.ToLower(path)
	}
	if root == path {
		return true
	}
	root = strings.TrimSuffix(root, string(filepath.Separator)) + string(filepath.Separator)
	return strings.HasPrefix(path, root)
}

// ours reports whether path is in a folder of Helix other than the subject's own state.
func (sp *space) ours(path string, sub Subject) bool {
	if sp.state != nil {
		if st := sp.state(sub); st != "" {
			if r, err := resolve(st); err == nil && within(r, path) {
				return false
			}
		}
	}
	for _, o := range sp.own {
		if within(o, path) {
			return true
		}
	}
	return false
}
