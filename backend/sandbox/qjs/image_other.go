//go:build !linux || portable

package qjs

// cow is what systems without private mappings of memory files lack.
type cow struct{}

type pageScan struct{}

func newCow(*image) *cow { return nil }

func (*cow) place(*linear) error   { return nil }
func (*cow) restore(*linear) error { return nil }
func (*cow) close()                {}

func (*cow) privateBytes(*linear) (int, bool) { return 0, false }
