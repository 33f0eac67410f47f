package autostart

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/windows/registry"
)

const runKey = `Software\Microsoft\Windows\CurrentVersion\Run`

// New returns the entry of this system for the program at exe.
func New(exe string) (Entry, error) { return windows(value{}, exe), nil }

// value is the program's value of the user's Run key.
type value struct{}

func open() (registry.Key, error) {
	return registry.OpenKey(registry.CURRENT_USER, runKey, registry.QUERY_VALUE|registry.SET_VALUE)
}

func (value) read() (string, error) {
	k, err := open()
	if err != nil {
		return "", err
	}
	defer k.Close()
	s, _, err := k.GetStringValue(AppID)
	if errors.Is(err, registry.ErrNotExist) {
		err = fs.ErrNotExist
	}
	return s, err
}

func (value) write(content string) error {
	k, err := open()
	if err != nil {
		return err
	}
	defer k.Close()
	return k.SetStringValue(AppID, content)
}

func (value) remove() error {
	k, err := open()
	if err != nil {
		return err
	}
	defer k.Close()
	return k.DeleteValue(AppID)
}
