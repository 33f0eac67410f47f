package storage

// crashPoint names a place where the tests end the process with SIGKILL. It does nothing
// in the program.
func crashPoint(name string) {
	if onCrashPoint != nil {
		onCrashPoint(name)
	}
}

// onCrashPoint is set by the test binary that is about to die, before anything is opened.
var onCrashPoint func(name string)
