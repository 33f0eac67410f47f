//go:build unix

package hubtest

import (
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account returns the account under which to run the server if the tests run as root, because
// PostgreSQL refuses to run as root. Otherwise ok is false.
func account() (uid, gid int, ok bool) {
	if os.Getuid() != 0 {
		return 0, 0, false
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ = strconv.Atoi(u.Uid)
			gid, _ = strconv.Atoi(u.Gid)
			return uid, gid, true
		}
	}
	return 0, 0, false
}

func own(dir string) error {
	if uid, gid, ok := account(); ok {
		return os.Chown(dir, uid, gid)
	}
	return nil
}

func command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir = "/"
	if uid, gid, ok := account(); ok {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}} //nolint:gosec // ids of accounts
	}
	return c
}
