//go:build race

package embed

// raced says that the race detector is on. It makes what is in Go ten times slower.
const raced = true
