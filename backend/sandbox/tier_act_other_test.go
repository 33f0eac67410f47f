//go:build !linux

package sandbox

const parentArgument = "t1-parent"

// actAsParent is used on systems where the children can be observed.
func actAsParent() {}
