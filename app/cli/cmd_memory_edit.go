package cli

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/memory"
)

type memoryEditCmd struct {
	ID       string   `arg:""`
	Text     *string  `help:"The new text; - reads standard input."`
	Type     string   `help:"episodic, semantic or procedural."`
	Layer    *int     `help:"1 to 7; 0 removes the layer."`
	AddTag   []string `help:"Add a tag; may be repeated." sep:"none"`
	DropTag  []string `help:"Remove a tag; may be repeated." sep:"none"`
	At       *string  `help:"When it happened; empty removes the date." placeholder:"WHEN"`
	Salience string   `help:"critical, high, medium or low."`
	Trust    *bool    `help:"Mark it as your own text. With --trust=false it is untrusted: quoted to the agent."`
}

func (e *memoryEditCmd) Run(c *command) error {
	var was memory.Item
	if _, err := c.call("memory.get", map[string]any{"id": e.ID}, &was); err != nil {
		return err
	}
	p := map[string]any{"id": e.ID, "version": was.Version}
	setIf(p, "type", e.Type)
	setIf(p, "salienceTier", e.Salience)
	if e.Layer != nil {
		p["layer"] = *e.Layer
	}
	if e.Trust != nil {
		p["untrusted"] = !*e.Trust
	}
	if e.At != nil {
		p["occurredAt"] = nil
		if *e.At != "" {
			at, _, err := period(*e.At)
			if err != nil {
				return err
			}
			p["occurredAt"] = at
		}
	}
	if len(e.AddTag)+len(e.DropTag) > 0 {
		gone := func(tag string) bool {
			return slices.ContainsFunc(e.DropTag, func(d string) bool { return strings.EqualFold(strings.TrimSpace(d), tag) })
		}
		p["tags"] = append(slices.DeleteFunc(slices.Clone(was.Tags), gone), e.AddTag...)
	}
	file := ""
	switch {
	case e.Text != nil:
		p["content"] = *e.Text
		if *e.Text == "-" {
			text, err := c.text("-")
			if err != nil {
				return err
			}
			p["content"] = text
		}
	case len(p) == 2:
		text, path, err := c.editText(was.Content, ".md")
		if err != nil {
			return err
		}
		if text == was.Content {
			c.say("Nothing was changed.")
			return os.Remove(path)
		}
		p["content"], file = text, path
	}
	c.memoryWork = true
	err := show(c, "memory.update", p, func(m memory.Item) { c.say("Saved as version %d.", m.Version) })
	if file == "" {
		return err
	}
	if err != nil {
		c.say("Not saved. Your text is in %s.", file)
		return err
	}
	return os.Remove(file)
}

// editText lets the person change a text in their editor. The file is kept until the text is saved.
func (c *command) editText(text, ext string) (changed, file string, err error) {
	f, err := os.CreateTemp("", "helix-*"+ext)
	if err != nil {
		return "", "", err
	}
	if _, err := f.WriteString(text); err != nil {
		return "", f.Name(), err
	}
	if err := f.Close(); err != nil {
		return "", f.Name(), err
	}
	editor := first(os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi")
	cmd := exec.CommandContext(c.ctx, "sh", "-c", editor+` "$1"`, "sh", f.Name())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", f.Name(), fault.Invalidf("The editor ended with an error. Your text is in %s.", f.Name()).WithCause(err)
	}
	b, err := os.ReadFile(f.Name())
	if err != nil {
		return "", f.Name(), err
	}
	out := string(b)
	if !strings.HasSuffix(text, "\n") {
		out = strings.TrimRight(out, "\n") // editors add a line end
	}
	return out, f.Name(), nil
}

type memoryDeleteCmd struct {
	IDs          []string `arg:"" name:"id" help:"IDs, up to 1,000."`
	Conversation bool     `xor:"what" help:"The IDs are conversations."`
	Document     bool     `xor:"what" help:"The IDs are documents."`
	Purge        bool     `xor:"what" help:"Delete permanently. This can't be undone."`
	Yes          bool     `short:"y" help:"Don't ask for confirmation."`
}

func (r *memoryDeleteCmd) Run(c *command) error {
	if r.Purge {
		if err := c.confirm(r.Yes, fmt.Sprintf("Permanently delete %d memories?", len(r.IDs))); err != nil {
			return err
		}
		return show(c, "memory.purge", map[string]any{"ids": r.IDs}, func(n memory.CountResult) { c.say("%d permanently deleted.", n.Count) })
	}
	if !r.Conversation && !r.Document {
		return show(c, "memory.delete", map[string]any{"ids": r.IDs}, c.printCount)
	}
	method, field := "memory.delete_document", "documentId"
	if r.Conversation {
		method, field = "memory.delete_conversation", "id"
	}
	for _, id := range r.IDs {
		if _, err := uuid.Parse(id); err != nil {
			return fault.Invalidf("%q isn't an ID.", id)
		}
		if err := show(c, method, map[string]any{field: id}, c.printCount); err != nil {
			return err
		}
	}
	return nil
}

func (c *command) printCount(r memory.CountResult) {
	c.say("%d in the trash.", r.Count)
	if r.UndoToken != "" {
		c.say("Undo within ten minutes: helix memory undo %s", r.UndoToken)
	}
}

type memoryRestoreCmd struct {
	Refs []string `arg:"" name:"memory" help:"IDs, or the beginnings of deleted memories."`
}

func (r *memoryRestoreCmd) Run(c *command) error {
	ids := slices.Clone(r.Refs)
	var trash []memory.Item
	for i, ref := range r.Refs {
		if _, err := uuid.Parse(ref); err == nil {
			continue
		}
		if trash == nil {
			var err error
			if trash, err = rowsOf[memory.Item](c, "memory.list", "items", map[string]any{"trash": true}); err != nil {
				return err
			}
		}
		var found []string
		for _, m := range trash {
			if len(m.Content) >= len(ref) && strings.EqualFold(m.Content[:len(ref)], ref) {
				found = append(found, m.ID.String())
			}
		}
		switch len(found) {
		case 0:
			return fault.NotFoundf("No deleted memory starts with %q. List them with: helix memory list --trash", ref)
		case 1:
			ids[i] = found[0]
		default:
			return fault.Conflictf("%d deleted memories start with %q. Use an ID: %s.", len(found), ref, strings.Join(found, ", "))
		}
	}
	return show(c, "memory.restore", map[string]any{"ids": ids}, func(r memory.CountResult) { c.say("%d restored.", r.Count) })
}

type memoryPinCmd struct {
	IDs []string `arg:"" name:"id"`
	Off bool     `help:"Unpin."`
}

func (m *memoryPinCmd) Run(c *command) error {
	return show(c, "memory.pin", map[string]any{"ids": m.IDs, "on": !m.Off}, func(r memory.ItemsResult) {
		word := "pinned"
		if m.Off {
			word = "unpinned"
		}
		c.say("%d %s.", len(r.Items), word)
	})
}

type memoryHistoryCmd struct {
	ID string `arg:""`
}

func (*memoryHistoryCmd) Run(c *command) error {
	return answer(c, "memory.history", func(r memory.HistoryResult) {
		if len(r.Revisions) == 0 {
			c.say("No edits yet.")
			return
		}
		for _, v := range r.Revisions {
			fmt.Fprintf(c.env.Stdout, "version %s · %s · %s\n", strconv.FormatInt(v.Version, 10), v.EditedAt.Local().Format(time.DateTime), plain(first(v.Origin, "person")))
			for line := range strings.SplitSeq(v.Content, "\n") {
				fmt.Fprintln(c.env.Stdout, "  "+plain(line))
			}
		}
	})
}
