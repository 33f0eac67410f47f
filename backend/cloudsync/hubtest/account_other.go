//go:build !unix

package hubtest

import "os/exec"

func own(string) error { return nil }

func command(name string, args ...string) *exec.Cmd { return exec.Command(name, args...) }
