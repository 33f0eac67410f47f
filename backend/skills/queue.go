package skills

// line is what runs and waits for its turn of one user.
type line struct{}
