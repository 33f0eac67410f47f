//go:build !race

package vector

// raced says that the race detector is on, which makes everything ten times slower.
const raced = false
