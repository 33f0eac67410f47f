//go:build !race

package skills

const raced = false
