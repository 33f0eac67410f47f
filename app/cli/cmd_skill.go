package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"helix/backend/fault"
)

type skillCmd struct {
	Run      skillRunCmd      `cmd:"" help:"Run a skill, or a skill file. Progress goes to standard error."`
	Validate skillValidateCmd `cmd:"" help:"Check a skill file."`
	List     skillListCmd     `cmd:"" help:"List skills."`
	Show     struct {
		Skill string `arg:"" help:"ID or name." param:"skillId" ref:"skill"`
	} `cmd:"" help:"Show one skill in full." call:"skills.get_metadata"`
	Delete  deleteCmd       `cmd:"" aliases:"rm,remove" help:"Delete a skill; restore brings it back for 30 days."`
	Restore restoreNamedCmd `cmd:"" help:"Restore a deleted skill."`
	Export  skillExportCmd  `cmd:"" help:"Export a skill to a file."`
	Import  skillImportCmd  `cmd:"" help:"Review a skill from a file or a link, then add it, disabled."`
	Share   skillShareCmd   `cmd:"" help:"Create a link to the current version of a skill."`
	Unshare struct {
		Share string `arg:"" param:"shareId"`
	} `cmd:"" help:"Stop sharing." call:"skills.unshare"`
	Shares struct {
		Skill string `arg:"" optional:"" param:"skillId" ref:"skill"`
	} `cmd:"" help:"List links to your skills." call:"skills.shares"`
	Search struct {
		Query string `arg:"" optional:"" param:"query"`
	} `cmd:"" help:"Search public skills, also those on the hub." call:"skills.search_public"`
	History skillHistoryCmd `cmd:"" help:"Runs, newest first."`
	Cancel  skillCancelCmd  `cmd:"" help:"Stop a run."`
}

type skillRow struct {
	SkillID, Name, Description, Version string
	IsEnabled, Valid                    bool
	ExecutionCount                      int64
	LastStatus                          string
	LastExecuted                        *time.Time
}

// skillFile reads a definition from a file or from standard input. For a share file it returns the
// skill in it.
func (c *command) skillFile(name string) (json.RawMessage, error) {
	b, err := c.shareFile(name)
	if err != nil {
		return nil, err
	}
	var shared struct {
		Format string          `json:"format"`
		Skill  json.RawMessage `json:"skill"`
	}
	if json.Unmarshal(b, &shared) == nil && shared.Format == "helix-skill" && len(shared.Skill) > 0 {
		return shared.Skill, nil
	}
	return b, nil
}

type problem struct{ Path, Code, Message, StepID string }

type skillCheck struct {
	Valid            bool
	Errors, Warnings []problem
}

// skillProblems prints the problems, one per line, to standard error.
func (c *command) skillProblems(kind string, list []problem) {
	for _, p := range list {
		where := first(p.Path, "skill")
		if p.StepID != "" {
			where += " (" + p.StepID + ")"
		}
		fmt.Fprintf(c.env.Stderr, "%s: %s: %s\n", kind, plain(where), plain(p.Message))
	}
}

type skillValidateCmd struct {
	File string `arg:"" help:"A file, or - for standard input."`
}

func (v *skillValidateCmd) Run(c *command) error {
	skill, err := c.skillFile(v.File)
	if err != nil {
		return err
	}
	err = shown(c, "skills.validate_composite", map[string]any{"skill": skill}, func(r skillCheck) {
		c.skillProblems("error", r.Errors)
		if !c.Quiet {
			c.skillProblems("warning", r.Warnings)
		}
	}, func(r skillCheck) int { return failIf(!r.Valid, ExitCode(fault.Invalid)) })
	if err == nil {
		c.say("The skill is valid.")
	}
	return err
}

type skillListCmd struct {
	Enabled bool   `help:"Only enabled skills."`
	Query   string `help:"Part of the name, the description or a tag."`
	Limit   int    `default:"50"`
	Offset  int    `default:"0"`
}

func (*skillListCmd) Run(c *command) error {
	return answer(c, "skills.list_composite", func(r struct {
		Skills []skillRow
		Total  int
	}) {
		if r.Total == 0 {
			c.say("No skills. Chain your tools into one action: open Skills in Helix, or `helix skill import FILE`.")
			return
		}
		list(c, r.Skills, "", []string{"ID", "NAME", "VERSION", "STATE", "RUNS", "LAST RUN", "DESCRIPTION"}, func(s skillRow) []string {
			state := "enabled"
			switch {
			case !s.Valid:
				state = "draft"
			case !s.IsEnabled:
				state = "disabled"
			}
			last := "never"
			if s.LastExecuted != nil {
				last = strings.TrimSpace(s.LastStatus + " " + ago(*s.LastExecuted))
			}
			return []string{s.SkillID, s.Name, s.Version, state, fmt.Sprint(s.ExecutionCount), last, cut(s.Description, 50)}
		})
	})
}

type skillExportCmd struct {
	Skill     string `arg:"" help:"ID or name."`
	Output    string `short:"o" type:"path" help:"Default: standard output." placeholder:"FILE"`
	WithTools bool   `help:"Include the tools it calls."`
}

func (e *skillExportCmd) Run(c *command) error {
	id, err := c.skillID(e.Skill)
	if err != nil {
		return err
	}
	var r struct{ File json.RawMessage }
	if _, err := c.call("skills.export", map[string]any{"skillId": id, "includeTools": e.WithTools}, &r); err != nil {
		return err
	}
	if e.Output == "" { // unchanged, because its checksum covers these bytes
		_, err := fmt.Fprintln(c.env.Stdout, string(r.File))
		return err
	}
	if err := os.WriteFile(e.Output, append(r.File, '\n'), 0o600); err != nil {
		return fault.Invalidf("Couldn't write %s.", e.Output).WithCause(err)
	}
	c.say("Wrote %s.", e.Output)
	return nil
}

type skillShareCmd struct {
	Skill string `arg:"" help:"ID or name."`
	shareFlags
}

func (s *skillShareCmd) Run(c *command) error {
	id, err := c.skillID(s.Skill)
	if err != nil {
		return err
	}
	p := s.params()
	p["skillId"] = id
	var r struct{ URL string }
	raw, err := c.call("skills.share", p, &r)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.printJSON(raw)
	}
	fmt.Fprintln(c.env.Stdout, r.URL)
	return nil
}

type skillImportCmd struct {
	File       string `arg:"" help:"A share file, a link, or - for standard input." `
	OnConflict string `default:"rename" enum:"rename,newVersion,skip" help:"If the name is taken (${enum})."`
	Yes        bool   `help:"Add the skill after the review, without asking."`
}

type skillImport struct {
	SkillID, Name, Action, Signer string
	Trusted                       bool
	Errors                        []problem
	Warnings                      []string
	Missing                       []struct{ ToolType, Name string }
	Rights                        struct {
		Union           []string
		Verdict, Reason string
	}
}

func (i *skillImportCmd) Run(c *command) error {
	p := map[string]any{"onConflict": i.OnConflict, "dryRun": true}
	if strings.HasPrefix(i.File, "helix:") {
		p["url"] = i.File
	} else {
		file, err := c.shareFile(i.File)
		if err != nil {
			return err
		}
		p["file"] = file
	}
	var r skillImport
	raw, err := c.call("skills.import", p, &r)
	if err != nil {
		return err
	}
	c.reviewed(&r)
	if r.Action == "skipped" {
		c.say("A skill with that name already exists, so nothing was added.")
		return c.ifJSON(raw)
	}
	if err := c.confirm(i.Yes, "Add this skill, disabled?"); err != nil {
		return err
	}
	p["dryRun"] = false
	if raw, err = c.call("skills.import", p, &r); err != nil {
		return err
	}
	if c.JSON {
		return c.printJSON(raw)
	}
	fmt.Fprintln(c.env.Stdout, r.SkillID)
	c.say("Added as %s. It is disabled until you enable it.", plain(r.Name))
	return nil
}

func (c *command) ifJSON(raw json.RawMessage) error {
	if !c.JSON {
		return nil
	}
	return c.printJSON(raw)
}

// shareFile reads a share file unchanged.
func (c *command) shareFile(name string) (json.RawMessage, error) {
	if name == "-" {
		return c.input("-")
	}
	b, err := readFile(name)
	if err != nil {
		return nil, err
	}
	if !json.Valid(b) {
		return nil, fault.Invalidf("%s isn't valid JSON.", filepath.Base(name))
	}
	return b, nil
}

// reviewed prints what an import would add.
func (c *command) reviewed(r *skillImport) {
	signer := r.Signer
	if r.Signer != "unsigned" && !r.Trusted {
		signer += " (unknown here)"
	}
	c.say("%s: %s, signed by %s", plain(r.Name), r.Action, plain(signer))
	for _, right := range r.Rights.Union {
		c.say("  asks for %s", plain(right))
	}
	for _, m := range r.Missing {
		c.say("  missing here: %s %s", m.ToolType, plain(m.Name))
	}
	for _, w := range r.Warnings {
		c.say("  warning: %s", plain(w))
	}
	if !c.Quiet {
		c.skillProblems("  problem", r.Errors)
	}
}

type skillHistoryCmd struct {
	Skill  string `arg:"" optional:"" param:"skillId" ref:"skill" help:"ID or name; default: all skills."`
	Status string `default:"" enum:",queued,running,waiting,completed,failed,cancelled" placeholder:"STATUS" help:"Only runs in this state."`
	Limit  int    `default:"50"`
}

func (*skillHistoryCmd) Run(c *command) error {
	return answer(c, "skills.history", func(r struct {
		Executions []skillExecution
		NextCursor string
	}) {
		if len(r.Executions) == 0 {
			c.say("No runs.")
			return
		}
		list(c, r.Executions, "", []string{"EXECUTION", "SKILL", "STATUS", "TRIGGER", "STEPS", "TIME", "BEGAN", "ERROR"}, func(e skillExecution) []string {
			status := e.Status
			if e.WaitReason != "" {
				status += " (" + e.WaitReason + ")"
			}
			why := ""
			if e.Error != nil {
				why = e.Error.Message
			}
			return []string{e.ExecutionID, e.SkillName, status, e.Trigger, fmt.Sprintf("%d/%d", e.StepsCompleted, e.TotalSteps),
				fmt.Sprintf("%.0f ms", e.ExecutionTimeMs), ago(e.CreatedAt), cut(why, 60)}
		})
		if r.NextCursor != "" {
			c.say("More results exist; raise --limit.")
		}
	})
}

type skillCancelCmd struct {
	Execution string `arg:"" param:"executionId" help:"ID of the run."`
}

func (*skillCancelCmd) Run(c *command) error {
	return answer(c, "skills.cancel", func(r struct{ Status string }) {
		fmt.Fprintln(c.env.Stdout, r.Status)
	})
}
