// Package e2e contains tests that drive the real window: the unmodified program under Xvfb, through
// WebKitWebDriver. Nothing imports it. `make test-window` runs it with the build tag "window" and
// the program's path in HELIX_WINDOW.
package e2e
