//go:build race

package importer

// raced says that the race detector is on, which makes measuring pointless.
const raced = true
