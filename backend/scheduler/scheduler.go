// Package scheduler starts callables and other targets at scheduled times. Every due time is accounted for
// exactly once, even across crashes, sleep, clock changes and several devices: either it ran, or a row
// records why it did not. The package knows no targets; other domains register a Starter.
package scheduler
