//go:build !linux

package sandbox

const parentArgument = "t1-parent"

// actAsParent is for systems where the children can be watched.
func actAsParent() {}
