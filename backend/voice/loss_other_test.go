//go:build !linux

package voice

import "errors"

func lossChild(string) error { return errors.New("only on Linux") }
