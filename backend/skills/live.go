package skills

// live is a run in memory.
type live struct{}
