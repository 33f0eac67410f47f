// Package scheduler starts named work at times. Every due time is accounted for exactly once:
// it ran, or there is a row that says why not, also over crashes, sleep, clock changes and
// several devices. It knows no target: other domains register a Starter.
package scheduler
