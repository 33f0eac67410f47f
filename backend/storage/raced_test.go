//go:build race

package storage

// raced says that the race detector is on. It makes the engine ten times slower and sees
// nothing in a killed child, so fewer of those are started.
const raced = true
