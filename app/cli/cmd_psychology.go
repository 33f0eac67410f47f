package cli

import (
	"fmt"
	"os"

	"helix/backend/psychology"
)

type psychologyCmd struct {
	Show   psychologyShowCmd   `cmd:"" help:"Show the seven layers, or the entries of one."`
	Export psychologyExportCmd `cmd:"" help:"Export psychology files."`
	Import psychologyImportCmd `cmd:"" help:"Import psychology files."`
	Soul   psychologySoulCmd   `cmd:"" help:"Show the soul, the text that says how Helix should work with you."`
}

type psychologyShowCmd struct {
	Layer int `arg:"" optional:"" help:"A layer, 1 to 7."`
}

func (p *psychologyShowCmd) Run(c *command) error {
	if p.Layer != 0 {
		return show(c, "psychology.get_layer", map[string]any{"layerNumber": p.Layer}, func(l psychology.Layer) {
			if len(l.Entries) == 0 {
				c.say("%s has no entries yet.", l.LayerName)
				return
			}
			list(c, l.Entries, "", []string{"ID", "KIND", "RETENTION", "SALIENCE", "DATA"}, func(e psychology.Entry) []string {
				return []string{e.ID.String(), e.Kind, fmt.Sprintf("%.2f", e.Retention), e.SalienceTier, string(e.Data)}
			})
		})
	}
	return show(c, "psychology.overview", struct{}{}, func(o psychology.Overview) {
		list(c, o.Layers, "", []string{"LAYER", "NAME", "STATUS", "RETENTION", "ENTRIES", "FADING", "STRONGEST"}, func(l psychology.OverviewLayer) []string {
			return []string{fmt.Sprint(l.LayerNumber), l.LayerName, l.Status, fmt.Sprintf("%.2f", l.Retention), fmt.Sprint(l.Entries), fmt.Sprint(l.Fading), l.Summary}
		})
	})
}

type psychologyExportCmd struct {
	Dir string `arg:"" optional:"" type:"path" help:"A folder inside the folder of your own files. Default: that folder itself."`
}

func (p *psychologyExportCmd) Run(c *command) error {
	return show(c, "psychology.export", map[string]any{"path": p.Dir}, func(r psychology.ExportResult) {
		fmt.Fprintf(c.env.Stdout, "exported %d entries and %d interactions to %s\n", r.Entries, r.Interactions, r.Path)
	})
}

type psychologyImportCmd struct {
	Dir string `arg:"" name:"path" optional:"" type:"path" help:"A folder or archive with an export. Default: the folder of your own files."`
}

func (p *psychologyImportCmd) Run(c *command) error {
	return show(c, "psychology.import", map[string]any{"path": p.Dir}, func(r psychology.Counts) {
		fmt.Fprintf(c.env.Stdout, "imported %d entries and %d interactions\n", r.Entries, r.Interactions)
	})
}

type psychologySoulCmd struct {
	Edit bool `help:"Edit it in $EDITOR."`
}

func (p *psychologySoulCmd) Run(c *command) error {
	var soul psychology.Soul
	raw, err := c.call("psychology.get_soul", struct{}{}, &soul)
	if err != nil {
		return err
	}
	if !p.Edit {
		if c.JSON {
			return c.printJSON(raw)
		}
		fmt.Fprint(c.env.Stdout, soul.Text)
		return nil
	}
	text, file, err := c.editText(soul.Text, ".md")
	if err != nil {
		return err
	}
	if text == soul.Text {
		c.say("Nothing was changed.")
		return os.Remove(file)
	}
	if _, err := c.call("psychology.update_soul", psychology.UpdateSoulParams{Text: text, Version: soul.Version}, &soul); err != nil {
		c.say("Not saved. Your text is in %s.", file)
		return err
	}
	c.say("Saved as version %d.", soul.Version)
	return os.Remove(file)
}
