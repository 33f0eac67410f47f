package scheduler

// serveKillChild runs the child of the kill test.
func serveKillChild() bool { return false }
