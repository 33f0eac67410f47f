package synthesis

import (
	"context"
	"slices"
	"strings"

	"helix/backend/fault"
)

// RenamePersonParams is the request of memory.rename_person.
type RenamePersonParams struct {
	Name string `json:"name"` // of the person, or an alias
	To   string `json:"to"`   // at most 100 characters; must not be the name of another person
}

// RenamePersonResult is the renamed person, and a token to undo the change within ten minutes.
type RenamePersonResult struct {
	Person    Person `json:"person"`
	UndoToken string `json:"undoToken"` // for memory.undo
}

// RenamePerson changes the name of a person. The names used in texts remain aliases. Lists of people
// change immediately, patterns with the next synthesis, and later runs preserve it. It can be undone.
func (s *Service) RenamePerson(ctx context.Context, p RenamePersonParams) (out RenamePersonResult, err error) {
	r, err := s.people(ctx)
	if err != nil {
		return out, err
	}
	was, err := r.named(p.Name)
	if err != nil {
		return out, err
	}
	to := strings.TrimSpace(p.To)
	if to == "" || to == was.Name {
		return out, fault.InvalidField("to", fault.CodeInvalid, "Give %s another name.", was.Name)
	}
	out.Person, out.UndoToken, err = s.oneName(ctx, r, []Person{was}, to)
	return out, err
}

// DismissPeopleParams is the request of memory.dismiss_people.
type DismissPeopleParams struct {
	Names   []string `json:"names"`             // of people, or aliases; with restore, dismissed names
	Restore bool     `json:"restore,omitempty"` // the names are people's after all
}

// DismissPeopleResult lists the names that were dismissed or restored, and a token to undo that
// within ten minutes.
type DismissPeopleResult struct {
	Names     []string `json:"names"`
	UndoToken string   `json:"undoToken"` // for memory.undo
}

// DismissPeople marks names that Helix took for a person's as names of something else, such as a
// company, a place or a pet. Lists of people omit them immediately, patterns with the next
// synthesis, and later runs preserve it. It can be undone, and reverted at any time with Restore.
func (s *Service) DismissPeople(ctx context.Context, p DismissPeopleParams) (out DismissPeopleResult, err error) {
	if len(p.Names) == 0 || len(p.Names) > maxHidden {
		return out, fault.InvalidField("names", fault.CodeRange, "Give 1 to %d names.", maxHidden)
	}
	r, err := s.people(ctx)
	if err != nil {
		return out, err
	}
	var change []Alias
	set := func(name, person string) {
		if !slices.Contains(out.Names, name) {
			out.Names, change = append(out.Names, name), append(change, Alias{name, person})
		}
	}
	for _, name := range p.Names {
		if p.Restore {
			list := r.dismissed()
			i := slices.IndexFunc(list, func(d string) bool { return strings.EqualFold(d, strings.TrimSpace(name)) })
			if i < 0 {
				return out, fault.NotFoundf("%q was not dismissed.", name)
			}
			set(list[i], list[i])
			continue
		}
		who, err := r.named(name)
		if err != nil {
			return out, err
		}
		if who.Messages > 0 {
			return out, fault.InvalidField("names", fault.CodeInvalid, "%s wrote messages, and is not dismissed.", who.Name)
		}
		for _, n := range append([]string{who.Name}, who.Aliases...) {
			set(n, "")
		}
	}
	out.UndoToken, err = s.correct(ctx, r, change)
	return out, err
}

// dismissed returns the dismissed names.
func (r *roster) dismissed() (out []string) {
	for _, a := range r.names {
		if a.Person == "" {
			out = append(out, a.Name)
		}
	}
	return out
}
