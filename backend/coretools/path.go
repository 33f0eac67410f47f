package coretools

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/permission"
)

// The areas of a workspace. In paths they are /shared, /tmp and /vault.
const (
	shared = "shared"
	tmp    = "tmp"
	vault  = "vault"
)

var areas = []string{shared, tmp, vault}

// trashName is the folder of an area for deleted and replaced files. Paths in calls cannot refer to it.
const trashName = ".helix-trash"

const maxPath = 4096

// place is the target of a path in a call.
type place struct {
	area string // one of areas; "": elsewhere on this computer
	rel  string // below the area, with slashes; "." is the area itself
	text string // normalized path, as in results
}

// parsePath parses a path in a call. It does not access the file system.
func parsePath(text string) (place, error) {
	switch {
	case text == "" || len(text) > maxPath || !utf8.ValidString(text):
		return place{}, fault.Invalidf("A path has 1 to %d bytes of UTF-8.", maxPath)
	case strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == utf8.RuneError
	}):
		return place{}, fault.Invalidf("The path has characters that cannot be shown.")
	}
	slashed := filepath.ToSlash(text)
	if slices.Contains(strings.Split(slashed, "/"), "..") {
		return place{}, refusedPath("A path must not contain .. .")
	}
	if strings.HasPrefix(slashed, "/") {
		area, rel, _ := strings.Cut(strings.TrimPrefix(path.Clean(slashed), "/"), "/")
		if slices.Contains(areas, area) {
			return inArea(area, path.Clean(rel))
		}
	}
	home := slashed == "~" || strings.HasPrefix(slashed, "~/")
	if !home && !filepath.IsAbs(text) {
		return place{}, fault.Invalidf("Write a path such as /shared/notes.txt, /tmp/notes.txt, /vault/notes.txt, or an absolute path of this computer.")
	}
	return place{text: path.Clean(slashed)}, nil
}

func inArea(area, rel string) (place, error) {
	if !filepath.IsLocal(filepath.FromSlash(rel)) || strings.ContainsRune(rel, '\\') {
		return place{}, refusedPath("The path is not usable on every computer.")
	}
	if top, _, _ := strings.Cut(rel, "/"); strings.EqualFold(top, trashName) {
		return place{}, refusedPath("What was deleted cannot be read or changed. A person can restore it.")
	}
	return place{area: area, rel: rel, text: path.Join("/", area, rel)}, nil
}

// join returns the place of the entry name in the folder p.
func (p place) join(name string) place {
	p.text = path.Join(p.text, name)
	if p.area != "" {
		p.rel = path.Join(p.rel, name)
	}
	return p
}

// refusedPath returns the refusal of a path that no approval can permit.
func refusedPath(format string, args ...any) error {
	return fault.Deniedf(format, args...).WithDetails(callable.Refusal{Reason: permission.ReasonNever})
}
