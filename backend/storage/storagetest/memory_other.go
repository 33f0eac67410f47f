//go:build !linux

package storagetest

import "errors"

func memoryDir() (string, error) { return "", errors.ErrUnsupported }
