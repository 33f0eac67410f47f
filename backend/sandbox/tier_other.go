//go:build !linux

package sandbox

// bwrapUsual says that bubblewrap is to be expected on this system.
const bwrapUsual = false
