package storage

// crashPoint names a place where the tests kill the process with SIGKILL. It does nothing in
// production.
func crashPoint(name string) {
	if onCrashPoint != nil {
		onCrashPoint(name)
	}
}

// onCrashPoint is set by the test binary before it opens anything.
var onCrashPoint func(name string)
