package worker

import (
	"debug/elf"
	"os"
	"path/filepath"
)

// Bwrap is a bubblewrap to start the child in: in namespaces of its own, without
// capabilities and network, seeing only the program, the libraries that it needs and the
// folder of compiled code.
type Bwrap struct {
	Path    string   // of bwrap
	Read    []string // folders and files that may be read
	Dynamic bool     // the program needs the system's libraries
}

// libraries are where a dynamically linked program finds what it needs.
var libraries = []string{"/usr/lib", "/usr/lib64", "/usr/lib32", "/lib", "/lib64", "/lib32", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/nix/store", "/gnu/store"}

// FindBwrap looks for bubblewrap in its usual places, never in PATH, which others may have
// set. It returns "" when there is none.
func FindBwrap() string {
	for _, p := range []string{"/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap", "/run/current-system/sw/bin/bwrap"} {
		if i, err := os.Stat(p); err == nil && i.Mode().IsRegular() && i.Mode()&0o111 != 0 {
			return p
		}
	}
	return ""
}

// NewBwrap prepares bubblewrap for a program. read are more folders to show it; those that
// do not exist are left out by bubblewrap.
func NewBwrap(path, program string, read ...string) *Bwrap {
	b := &Bwrap{Path: path, Read: append([]string{program}, read...)}
	if f, err := elf.Open(program); err == nil {
		for _, s := range f.Progs {
			b.Dynamic = b.Dynamic || s.Type == elf.PT_INTERP
		}
		f.Close()
	}
	return b
}

// Wrap is the command line that runs command inside.
func (b *Bwrap) Wrap(command []string) []string {
	args := []string{
		b.Path, "--unshare-all", "--cap-drop", "ALL", "--die-with-parent", "--new-session",
		"--as-pid-1", "--hostname", "sandbox", "--chdir", "/",
	}
	bind := func(p string) {
		if p != "" {
			p = filepath.Clean(p)
			args = append(args, "--ro-bind-try", p, p)
		}
	}
	if b.Dynamic {
		for _, l := range libraries {
			bind(l)
		}
		// Programs with C code need it to put a lock on all their threads.
		args = append(args, "--proc", "/proc")
	}
	for _, p := range b.Read {
		bind(p)
	}
	return append(append(args, "--"), command...)
}
