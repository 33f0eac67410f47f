package skills

// Service serves composite skills. There is one a database; its methods are safe for
// concurrent use.
type Service struct{}
