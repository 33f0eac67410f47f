// Package skills owns composite skills: saved, versioned chains of typed steps, and their
// runs. A run is a journal: each effect is on record before it happens and its outcome after,
// so that a crash loses nothing and doubles nothing, and every run can be shown, stopped,
// replayed, continued from a step and rehearsed. Tools, modules, permission and audit reach
// it through the interfaces below; only the composition root imports it.
package skills
