//go:build !linux && !darwin

package mcp

// startOf reports that nothing is recorded: on Windows the job of a server ends with Helix.
func startOf(int) (string, bool) { return "", false }

func endGroup(started) bool { return false }

func memoryOf(int) int64 { return 0 }
