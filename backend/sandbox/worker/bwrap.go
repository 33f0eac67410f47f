package worker

import (
	"debug/elf"
	"os"
	"path/filepath"
)

// Bwrap starts the child with bubblewrap: in separate namespaces, without capabilities and network,
// with access only to the program, the libraries that it needs and the folder of compiled code.
type Bwrap struct {
	Path    string   // of bwrap
	Read    []string // folders and files that may be read
	Dynamic bool     // the program needs the system's libraries
}

// libraries are where a dynamically linked program finds its libraries.
var libraries = []string{"/usr/lib", "/usr/lib64", "/usr/lib32", "/lib", "/lib64", "/lib32", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/nix/store", "/gnu/store"}

// FindBwrap looks for bubblewrap in its usual places, never in PATH, which someone else may have
// set. It returns "" if there is none.
func FindBwrap() string {
	for _, p := range []string{"/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap", "/run/current-system/sw/bin/bwrap"} {
		if i, err := os.Stat(p); err == nil && i.Mode().IsRegular() && i.Mode()&0o111 != 0 {
			return p
		}
	}
	return ""
}

// NewBwrap returns the Bwrap for a program. read are additional folders that it can see; bubblewrap
// omits those that do not exist.
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

// Wrap returns the command line that runs command inside bubblewrap.
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
		// Programs with C code need it to apply a lock to all their threads.
		args = append(args, "--proc", "/proc")
	}
	for _, p := range b.Read {
		bind(p)
	}
	return append(append(args, "--"), command...)
}
