//go:build race

package scheduler

// raced says that the race detector is on. It makes the database ten times slower, so loops
// are shorter.
const raced = true
