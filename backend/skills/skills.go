// Package skills manages skills, which are saved, versioned chains of typed steps, and their runs.
// A run is a journal: each effect is recorded before it happens and its outcome after, so that a
// crash neither loses nor repeats an effect, and every run can be inspected, stopped, replayed,
// restarted from a step and tried in a dry run. Other domains reach the package through the
// interfaces below; only the composition root imports it.
package skills
