package config

// syncDir does nothing: NTFS journals renames.
func syncDir(string) error { return nil }

// othersCanRead is false: files inherit the user's own access list.
func othersCanRead(string) bool { return false }
