package sandbox

// bwrapUsual reports that bubblewrap is expected on this system.
const bwrapUsual = true
