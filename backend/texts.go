package backend

import (
	"errors"
	"maps"

	"helix/backend/config"
	"helix/backend/psychology"
	"helix/backend/scheduler"
	"helix/backend/skills"
	"helix/backend/tools"
)

// Texts returns the English names and descriptions that are part of the backend, by key: templates,
// built-in schedules and steps, settings. The type of the interface's translations is generated
// from it, so that a text without a translation fails the type check.
func Texts() (map[string]string, error) {
	out := scheduler.Texts()
	maps.Copy(out, psychology.Texts())
	templates, err := tools.Texts()
	maps.Copy(out, templates)
	examples, err2 := skills.Texts()
	maps.Copy(out, examples)
	for _, s := range config.Settings() {
		out["setting."+s.Key] = s.Help
	}
	return out, errors.Join(err, err2)
}
