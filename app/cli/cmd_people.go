package cli

import (
	"fmt"
	"strings"
	"time"

	"helix/backend/synthesis"
)

type synthesisPeopleCmd struct {
	List    peopleListCmd    `cmd:"" default:"withargs" help:"List the people in your texts."`
	Merge   peopleMergeCmd   `cmd:"" help:"Merge several people into one."`
	Split   peopleSplitCmd   `cmd:"" help:"Split off other names of a person as someone else."`
	Rename  peopleRenameCmd  `cmd:"" help:"Change a person's name."`
	Dismiss peopleDismissCmd `cmd:"" help:"Mark names as not people, such as companies, places or pets."`
}

type peopleListCmd struct {
	Query  string `help:"Only people with this in a name."`
	Limit  int    `default:"100"`
	Offset int    `default:"0"`
}

func (*peopleListCmd) Run(c *command) error {
	return answer(c, "memory.list_people", func(r synthesis.PeopleResult) {
		if len(r.Dismissed) > 0 {
			defer c.say("Not people: %s. To restore one: helix synthesis people dismiss --restore NAME", plain(strings.Join(r.Dismissed, ", ")))
		}
		list(c, r.People, "No people yet. Import conversations, or add memories that mention someone.", []string{"NAME", "RELATIONSHIP", "MENTIONS", "MESSAGES", "LAST SEEN", "ALIASES"}, func(x synthesis.Person) []string {
			return []string{x.Name, x.Relationship, fmt.Sprint(x.Mentions), fmt.Sprint(x.Messages), x.LastSeen.Local().Format(time.DateOnly), strings.Join(x.Aliases, ", ")}
		})
	})
}

type peopleMergeCmd struct {
	Names []string `arg:"" help:"At least two names, as listed."`
	Name  string   `help:"Name of the result. Default: the first one."`
}

func (*peopleMergeCmd) Run(c *command) error {
	return answer(c, "memory.merge_people", func(r synthesis.MergePeopleResult) {
		c.printPerson(r.Person)
		c.say("Patterns are updated by the next synthesis. Undo within ten minutes: helix memory undo %s", r.UndoToken)
	})
}

type peopleSplitCmd struct {
	Person  string   `arg:"" param:"name" help:"Name of the person."`
	Aliases []string `arg:"" help:"The names that belong to someone else."`
}

func (*peopleSplitCmd) Run(c *command) error {
	return answer(c, "memory.split_person", func(r synthesis.SplitPersonResult) {
		c.printPerson(r.Person)
		c.printPerson(r.Split)
		c.say("Patterns are updated by the next synthesis. Undo within ten minutes: helix memory undo %s", r.UndoToken)
	})
}

type peopleRenameCmd struct {
	Person string `arg:"" param:"name" help:"Name of the person, as listed."`
	To     string `arg:"" help:"The new name."`
}

func (*peopleRenameCmd) Run(c *command) error {
	return answer(c, "memory.rename_person", func(r synthesis.RenamePersonResult) {
		c.printPerson(r.Person)
		c.say("Patterns are updated by the next synthesis. Undo within ten minutes: helix memory undo %s", r.UndoToken)
	})
}

type peopleDismissCmd struct {
	Names   []string `arg:"" help:"Names, as listed."`
	Restore bool     `help:"Restore these names as people."`
}

func (p *peopleDismissCmd) Run(c *command) error {
	return show(c, "memory.dismiss_people", map[string]any{"names": p.Names, "restore": p.Restore}, func(r synthesis.DismissPeopleResult) {
		what := "Not people"
		if p.Restore {
			what = "People again"
		}
		fmt.Fprintf(c.env.Stdout, "%s: %s\n", what, plain(strings.Join(r.Names, ", ")))
		c.say("Patterns are updated by the next synthesis. Undo within ten minutes: helix memory undo %s", r.UndoToken)
	})
}

func (c *command) printPerson(p synthesis.Person) {
	line := p.Name
	if len(p.Aliases) > 0 {
		line += " (" + strings.Join(p.Aliases, ", ") + ")"
	}
	fmt.Fprintf(c.env.Stdout, "%s: %d mentions, %d messages\n", plain(line), p.Mentions, p.Messages)
}
