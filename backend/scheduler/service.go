package scheduler

// Service serves schedules. There is one a database; its methods are safe for concurrent use.
type Service struct{}
