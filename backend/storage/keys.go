package storage

// Keys seals and opens columns with AES-256-GCM.
type Keys struct{}
