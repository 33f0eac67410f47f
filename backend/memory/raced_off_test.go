//go:build !race

package memory

const raced = false
