package app

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>

// withoutEGL lets libEGL look for drivers while it can find none. It looks once, so this process never
// loads one, while the processes that it starts find theirs.
static void withoutEGL(void) {
	const char *drivers = "__EGL_VENDOR_LIBRARY_FILENAMES";
	if (getenv(drivers)) return;
	void *lib = dlopen("libEGL.so.1", RTLD_LAZY);
	if (!lib) return;
	const char *(*query)(void *, int) = (const char *(*)(void *, int))dlsym(lib, "eglQueryString");
	if (!query) return;
	setenv(drivers, "/nonexistent", 1);
	query(NULL, 0x3055); // EGL_EXTENSIONS
	unsetenv(drivers);
}
*/
import "C"

import "os"

// drawWithoutDrivers keeps the graphics driver out of the window's process. GTK and WebKit load it at the
// start even if they draw in software; Mesa's takes 49 MB with its compiler. It must run before GTK starts.
func drawWithoutDrivers() {
	if os.Getenv("GDK_GL") == "" {
		_ = os.Setenv("GDK_GL", "disable")
	}
	C.withoutEGL()
}
