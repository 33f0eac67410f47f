//go:build !linux

package sandbox

// bwrapUsual reports that bubblewrap is expected on this system.
const bwrapUsual = false
