// Command notices prints the licenses of everything that the programs contain: NOTICE, the license
// files of Go and of each module that is linked on any of the three systems, and those of the npm
// packages in the interface, which its build writes to frontend/dist.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if err := write(os.Stdout, ".", "./app/cmd/helix", "."); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

// write writes the licenses of packages to w. root is the folder of the project.
func write(w io.Writer, root string, packages ...string) error {
	list, err := modules(root, packages)
	if err != nil {
		return err
	}
	own, err := os.ReadFile(filepath.Join(root, "NOTICE"))
	if err != nil {
		return err
	}
	npm, err := os.ReadFile(filepath.Join(root, "frontend/dist/licenses.md"))
	if err != nil {
		return fmt.Errorf("%w: build the interface first", err)
	}
	if _, err := w.Write(own); err != nil {
		return err
	}
	for _, m := range list {
		files, err := licenses(m.dir)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "\n\n---- %s, %s ----\n\n%s", m.name, filepath.Base(f), text)
		}
	}
	_, err = fmt.Fprintf(w, "\n\n---- The interface ----\n\n%s", npm)
	return err
}

type module struct{ name, dir string }

// modules returns the modules other than this one that packages are built from, and Go itself.
func modules(root string, packages []string) ([]module, error) {
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	list := []module{{"Go", strings.TrimSpace(string(goroot))}}
	for _, system := range []string{"linux", "windows", "darwin"} {
		args := append([]string{"list", "-deps", "-tags", "desktop,production", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}"}, packages...)
		c := exec.Command("go", args...)
		c.Dir, c.Env, c.Stderr = root, append(os.Environ(), "GOOS="+system, "CGO_ENABLED=1"), os.Stderr
		out, err := c.Output()
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(out)) {
			if name, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
				list = append(list, module{name, dir})
			}
		}
	}
	slices.SortFunc(list, func(a, b module) int { return strings.Compare(a.name, b.name) })
	return slices.Compact(list), nil
}

// licenses returns the files of a module's folder that state its license.
func licenses(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		if e.Type().IsRegular() && slices.ContainsFunc([]string{"LICENSE", "LICENCE", "UNLICENSE", "COPYING", "NOTICE"}, func(start string) bool { return strings.HasPrefix(name, start) }) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, errors.New("there is no license file")
	}
	return files, nil
}
