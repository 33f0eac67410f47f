package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"helix/backend/container"
	"helix/backend/containertools"
	"helix/backend/fault"
)

type containerCmd struct {
	Status containerStatusCmd `cmd:"" default:"1" help:"Show the container engine and what is available."`
	Doctor containerDoctorCmd `cmd:"" help:"Look for an engine, and say what to do about each problem."`
	Images containerImagesCmd `cmd:"" help:"List images on this computer."`
	Pull   containerPullCmd   `cmd:"" help:"Get an image from its registry."`
	Import containerImportCmd `cmd:"" help:"Make an image of a folder, a static program or an image archive."`
	Rmi    struct {
		Ref string `arg:"" help:"Name or id of the image."`
	} `cmd:"" help:"Remove an image." call:"container.image_remove" say:"Removed."`
	Tools    containerToolsCmd   `cmd:"" help:"List container tools."`
	Add      containerAddCmd     `cmd:"" help:"Make a tool of an image and a command."`
	Approve  containerApproveCmd `cmd:"" help:"Approve a tool after reading what it runs."`
	Enable   containerEnableCmd  `cmd:"" help:"Switch a tool on."`
	Disable  containerDisableCmd `cmd:"" help:"Switch a tool off; its runs end."`
	Revoke   containerRevokeCmd  `cmd:"" help:"End a tool and remove its permissions."`
	Clear    containerClearCmd   `cmd:"" help:"Remove what a tool stored between its runs."`
	Restore  containerRestoreCmd `cmd:"" help:"Bring back what a tool had stored when its definition last changed."`
	Run      containerRunCmd     `cmd:"" help:"Run a tool, or a command in an image."`
	Volumes  containerVolumesCmd `cmd:"" help:"List where tools keep files between their runs."`
	Rmvolume struct {
		Name string `arg:"" help:"Name of a volume whose tool no longer exists."`
		Yes  bool   `help:"Don't ask."`
	} `cmd:"" help:"Remove a volume whose tool no longer exists." confirm:"Remove the volume with its files? They can't be restored." call:"container.volume_remove" say:"Removed."`
	Reap containerReapCmd `cmd:"" help:"Remove containers that were left over."`
}

type containerStatusCmd struct{}

// Run implements helix container status.
func (containerStatusCmd) Run(c *command) error {
	return show(c, "container.recheck", struct{}{}, c.printContainers)
}

func (c *command) printContainers(s container.Status) {
	if s.Engine != nil {
		e := s.Engine
		c.say("%s %s at %s (API %s, runtime %s, control groups v%s)", e.Kind, e.Version, e.Endpoint, e.APIVersion, e.Runtime, e.Cgroup)
	}
	for _, t := range s.Tiers {
		state := "available"
		if !t.Available {
			state = "not available"
		}
		c.say("%s: %s", t.Tier, state)
		for _, r := range t.Reasons {
			c.say("  %s: %s %s", r.Code, plain(r.Message), plain(r.Hint))
		}
	}
	for _, r := range s.Running {
		c.say("running: %s, %s, since %s", r.RunID, r.Phase, r.StartedAt.Local().Format("15:04:05"))
	}
}

type containerDoctorCmd struct{}

// Run implements helix container doctor. Without an engine the exit code is 6.
func (containerDoctorCmd) Run(c *command) error {
	return shown(c, "container.recheck", struct{}{}, c.printContainers, func(s container.Status) int { return failIf(s.Engine == nil, 6) })
}

type containerImagesCmd struct{}

// Run implements helix container images.
func (containerImagesCmd) Run(c *command) error {
	return show(c, "container.images", struct{}{}, func(r containertools.ImagesResult) {
		list(c, r.Images, "", []string{"IMAGE", "ID", "SIZE", "TOOLS"}, func(i containertools.Image) []string {
			return []string{plain(first(i.Ref, "-")), cut(strings.TrimPrefix(i.ID, "sha256:"), 12), fmt.Sprintf("%.1f MB", float64(i.SizeBytes)/1e6), strings.Join(i.UsedBy, ", ")}
		})
	})
}

type containerPullCmd struct {
	Ref    string `arg:"" help:"Name of the image, such as docker.io/library/alpine:3.20."`
	Digest string `help:"Refuse any other image." placeholder:"sha256:…"`
}

// Run implements helix container pull. Ctrl-C cancels it.
func (o *containerPullCmd) Run(c *command) error {
	var started containertools.PullResult
	if _, err := c.call("container.image_pull", containertools.PullParams{Ref: o.Ref, Digest: o.Digest}, &started); err != nil {
		return err
	}
	job, err := c.followPull(o.Ref, started)
	switch {
	case c.ctx.Err() != nil:
		c.callAfterInterrupt("container.pull_cancel", containertools.JobParams(started), nil) //nolint:errcheck // it has ended then
		return failed{ExitCode(fault.Canceled)}
	case err != nil:
		return err
	case job.Image == nil:
		return fault.Unavailablef("%s", first(job.Error, "The pull was canceled."))
	case c.JSON:
		raw, err := json.Marshal(job.Image)
		if err != nil {
			return err
		}
		return c.printJSON(raw)
	}
	c.say("%s\nId: %s\nDigest: %s", job.Image.Ref, job.Image.ID, job.Image.Digest)
	return nil
}

// followPull shows the progress of a pull until it ends.
func (c *command) followPull(ref string, started containertools.PullResult) (job containertools.Pull, err error) {
	bar := c.bar(ref)
	defer bar.end()
	tick := time.NewTicker(150 * time.Millisecond)
	defer tick.Stop()
	for {
		var r containertools.PullsResult
		if _, err := c.call("container.pulls", struct{}{}, &r); err != nil {
			return job, err
		}
		i := slices.IndexFunc(r.Pulls, func(p containertools.Pull) bool { return p.JobID == started.JobID })
		if i < 0 {
			return job, fault.NotFoundf("The pull is no longer known. To see whether the image is there: helix container images")
		}
		if job = r.Pulls[i]; job.Status != "running" {
			return job, nil
		}
		if job.Size > 0 {
			bar.show(float64(job.Done)/float64(job.Size), fmt.Sprintf("%.1f of %.1f MB", float64(job.Done)/1e6, float64(job.Size)/1e6))
		}
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return job, c.ctx.Err()
		}
	}
}

type containerImportCmd struct {
	Path string `arg:"" help:"A folder, a static program, or an image archive (.tar)."`
	Name string `help:"Name of the image. Default: that of the file."`
}

// Run implements helix container import.
func (o *containerImportCmd) Run(c *command) error {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return fault.Invalidf("%s is not a path.", o.Path)
	}
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	return show(c, "container.image_import", containertools.ImportImageParams{Path: path, Name: first(o.Name, strings.ToLower(name))}, func(i container.Image) {
		c.say("%s\nId: %s", i.Ref, i.ID)
	})
}

type containerVolumesCmd struct{}

// Run implements helix container volumes.
func (containerVolumesCmd) Run(c *command) error {
	return show(c, "container.volumes", struct{}{}, func(r containertools.VolumesResult) {
		list(c, r.Volumes, "", []string{"VOLUME", "USED", "TOOL"}, func(v containertools.Volume) []string {
			used, tool := "?", plain(v.Tool)
			if v.UsedBytes >= 0 {
				used = fmt.Sprintf("%.1f MB", float64(v.UsedBytes)/1e6)
			}
			if v.ToolID == nil {
				tool = "none, removed after " + v.RemoveAt.Local().Format("2006-01-02 15:04")
			}
			return []string{v.Name, used, tool}
		})
	})
}

type containerReapCmd struct{}

// Run implements helix container reap.
func (containerReapCmd) Run(c *command) error {
	return show(c, "container.reap", struct{}{}, func(r containertools.RemovedResult) { c.say("Removed %d containers.", len(r.Removed)) })
}

type containerToolsCmd struct{}

// Run implements helix container tools.
func (containerToolsCmd) Run(c *command) error {
	return show(c, "container.tools", struct{}{}, func(r containertools.ToolsResult) {
		list(c, r.Tools, "No container tools yet. To add one: helix container add NAME IMAGE -- COMMAND ARGS…", []string{"NAME", "STATUS", "IMAGE", "COMMAND"}, func(t *containertools.Tool) []string {
			return []string{t.Name, strings.ReplaceAll(t.Status, "_", " "), plain(t.Definition.Image), cut(plain(strings.Join(t.Definition.Argv, " ")), 40)}
		})
	})
}

type containerAddCmd struct {
	Name        string   `arg:"" help:"Name of the tool."`
	Image       string   `arg:"" help:"Name or id of an image on this computer."`
	Argv        []string `arg:"" optional:"" passthrough:"" help:"Command after --. Default: what the image starts."`
	Description string   `help:"What the tool does."`
	Input       string   `help:"JSON Schema of the parameters: JSON, @file or -." placeholder:"JSON"`
	Output      string   `help:"JSON Schema of standard output: JSON, @file or -." placeholder:"JSON"`
	Memory      int64    `help:"Memory in MiB. Default: 256." placeholder:"MIB"`
	CPU         int      `name:"cpu" help:"Percent of a core. Default: 50." placeholder:"PERCENT"`
	Timeout     int      `name:"time-limit" help:"Seconds that a run may take. Default: 30." placeholder:"SECONDS"`
	Net         []string `help:"Host that the tool may reach, such as api.example.com or localhost:3000." placeholder:"HOST"`
	State       int64    `help:"MiB of files in /data that stay between runs. Default: none." placeholder:"MIB"`
	Secret      []string `help:"Secret that requests of the tool may use as {{secret:NAME}}." placeholder:"NAME"`
}

// Run implements helix container add.
func (o *containerAddCmd) Run(c *command) error {
	p := containertools.AddParams{Name: o.Name, Description: o.Description, Image: o.Image, Argv: o.Argv, TimeoutSeconds: o.Timeout, Hosts: o.Net, Secrets: o.Secret, StateBytes: o.State << 20, Limits: container.Limits{MemoryBytes: o.Memory << 20, CPUPercent: o.CPU}}
	if len(p.Argv) > 0 && p.Argv[0] == "--" {
		p.Argv = p.Argv[1:]
	}
	for text, to := range map[*string]*json.RawMessage{&o.Input: &p.Input, &o.Output: &p.Output} {
		if *text == "" {
			continue
		}
		raw, err := c.input(*text)
		if err != nil {
			return err
		}
		*to = raw
	}
	return show(c, "container.add", p, func(t containertools.Tool) {
		if t.Status == containertools.StatusPending {
			c.say("Added. To review and approve it: helix container approve %s", t.Name)
		}
	})
}

type containerToolArg struct {
	Tool string `arg:"" help:"Name of the tool."`
}

func (a containerToolArg) find(c *command) (*containertools.Tool, error) {
	var r containertools.ToolsResult
	if _, err := c.call("container.tools", struct{}{}, &r); err != nil {
		return nil, err
	}
	for _, t := range r.Tools {
		if t.Name == a.Tool || t.ID.String() == a.Tool {
			return t, nil
		}
	}
	return nil, fault.NotFoundf("There is no container tool named %s. To list them: helix container tools", a.Tool)
}

type containerApproveCmd struct{ containerToolArg }

func (o *containerApproveCmd) Run(c *command) error {
	t, err := o.find(c)
	if err != nil {
		return err
	}
	if err := c.approveByName(t.Name, func() {
		d := t.Definition
		fmt.Fprintf(c.env.Stdout, "%s\nImage: %s\nId: %s\nDigest: %s\nCommand: %q\nNetwork: %s\nSecrets: %s\nIt runs with %d MiB of memory, for at most %d s.\n",
			t.Name, plain(d.Image), d.ImageID, first(d.Digest, "none: imported on this computer"), d.Argv, first(strings.Join(d.Hosts, ", "), "none"), first(strings.Join(d.Secrets, ", "), "none"), d.Limits.MemoryBytes>>20, d.TimeoutSeconds)
	}); err != nil {
		return err
	}
	return show(c, "container.approve", containertools.ApproveParams{ToolID: t.ID, DefinitionHash: t.DefinitionHash}, func(containertools.Tool) { c.say("Approved.") })
}

type containerEnableCmd struct{ containerToolArg }

// Run implements helix container enable.
func (o *containerEnableCmd) Run(c *command) error { return o.enable(c, true) }

type containerDisableCmd struct{ containerToolArg }

// Run implements helix container disable.
func (o *containerDisableCmd) Run(c *command) error { return o.enable(c, false) }

func (a containerToolArg) enable(c *command, on bool) error {
	t, err := a.find(c)
	if err != nil {
		return err
	}
	return show(c, "container.set_enabled", containertools.EnableParams{ToolID: t.ID, Enabled: on}, func(t containertools.Tool) { c.say("It is %s now.", t.Status) })
}

type containerRevokeCmd struct {
	containerToolArg
	Yes bool `help:"Don't ask."`
}

// Run implements helix container revoke.
func (o *containerRevokeCmd) Run(c *command) error {
	t, err := o.find(c)
	if err != nil {
		return err
	}
	if err := c.confirm(o.Yes, "Revoke the tool? It can't be restored, only added again."); err != nil {
		return err
	}
	return show(c, "container.revoke", containertools.ToolParams{ToolID: t.ID}, func(containertools.RevokeResult) { c.say("Revoked.") })
}

type containerClearCmd struct{ containerToolArg }

// Run implements helix container clear.
func (o *containerClearCmd) Run(c *command) error {
	t, err := o.find(c)
	if err != nil {
		return err
	}
	return show(c, "container.clear_state", containertools.ToolParams{ToolID: t.ID}, func(struct{}) { c.say("Removed.") })
}

type containerRestoreCmd struct {
	containerToolArg
	Yes bool `help:"Don't ask."`
}

// Run implements helix container restore.
func (o *containerRestoreCmd) Run(c *command) error {
	t, err := o.find(c)
	if err != nil {
		return err
	}
	if err := c.confirm(o.Yes, "Replace the stored data of the tool by the copy? What it stored since is lost."); err != nil {
		return err
	}
	return show(c, "container.restore_state", containertools.ToolParams{ToolID: t.ID}, func(struct{}) { c.say("Restored.") })
}

type containerRunCmd struct {
	Tool    string   `arg:"" help:"Name of the tool, or of an image on this computer."`
	Argv    []string `arg:"" optional:"" passthrough:"" help:"Command to run in an image, after --. Default: what the image starts."`
	Params  string   `help:"JSON, @file or -. Default: {}; for an image nothing." placeholder:"JSON"`
	Timeout int64    `name:"time-limit" help:"Seconds that the run may take. Default: that of the tool, or 30." placeholder:"SECONDS"`
	Net     []string `help:"Host that an image may reach, such as api.example.com or localhost:3000." placeholder:"HOST"`
	Memory  int64    `help:"Memory of an image in MiB. Default: 256." placeholder:"MIB"`
	CPU     int      `name:"cpu" help:"Percent of a core for an image. Default: 50." placeholder:"PERCENT"`
}

// Run implements helix container run. With a command, or if no tool has that name, it runs an image.
func (o *containerRunCmd) Run(c *command) error {
	var raw json.RawMessage
	var err error
	if o.Params != "" {
		if raw, err = c.input(o.Params); err != nil {
			return err
		}
	}
	if len(o.Argv) > 0 && o.Argv[0] == "--" {
		o.Argv = o.Argv[1:]
	}
	if len(o.Argv) > 0 || len(o.Net) > 0 || o.Memory > 0 || o.CPU > 0 {
		return o.image(c, raw)
	}
	t, err := containerToolArg{o.Tool}.find(c)
	if fault.Is(err, fault.NotFound) {
		return o.image(c, raw)
	}
	if err != nil {
		return err
	}
	return c.runContainer("container.run", containertools.RunParams{ToolID: &t.ID, Params: raw, TimeoutMs: o.Timeout * 1000})
}

func (o *containerRunCmd) image(c *command, params json.RawMessage) error {
	return c.runContainer("container.run_image", containertools.RunImageParams{
		Image: o.Tool, Argv: o.Argv, Params: params, Hosts: o.Net, TimeoutMs: o.Timeout * 1000, Limits: container.Limits{MemoryBytes: o.Memory << 20, CPUPercent: o.CPU},
	})
}

// runContainer runs a program in a container and prints what it wrote.
func (c *command) runContainer(method string, params any) error {
	var r containertools.RunResult
	raw, err := c.call(method, params, &r)
	if err != nil {
		return c.refused(err)
	}
	if c.JSON {
		err = c.printJSON(raw)
	} else {
		if r.Log != "" {
			fmt.Fprint(c.env.Stderr, plain(r.Log))
		}
		if r.Error != "" {
			c.say("%s", plain(r.Error))
		}
		err = c.printJSON(r.Output)
	}
	if err == nil && !r.Success {
		return failed{1}
	}
	return err
}
