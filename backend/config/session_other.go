//go:build !linux

package config

// SessionBus returns true, because other systems need no session bus for the desktop's services.
func SessionBus() bool { return true }
