package cli

import (
	"fmt"
	"path/filepath"
	"slices"

	"helix/backend/fault"
	"helix/backend/memory"
)

type memoryWatchCmd struct {
	Add    memoryWatchAddCmd    `cmd:"" help:"Watch a folder of notes: import it now, and again when it changes."`
	List   memoryWatchListCmd   `cmd:"" help:"List watched folders, their state and last import."`
	Remove memoryWatchRemoveCmd `cmd:"" aliases:"rm,delete" help:"Stop watching a folder. What was imported stays."`
	Pause  memoryWatchPauseCmd  `cmd:"" help:"Pause importing changes from a folder until it is resumed."`
	Resume memoryWatchResumeCmd `cmd:"" help:"Continue watching a folder, and retry what failed."`
}

type memoryWatchAddCmd struct {
	Dir    string   `arg:"" type:"path" help:"The folder."`
	Format string   `default:"auto" enum:"auto,markdown,text" help:"Format of the notes (${enum})."`
	Tag    []string `help:"Tag all notes; may be repeated." sep:"none"`
	Trust  bool     `help:"Mark the notes as your own text. Otherwise they are untrusted: quoted to the agent."`
}

func (a *memoryWatchAddCmd) Run(c *command) error {
	p := map[string]any{"path": a.Dir, "format": a.Format}
	if len(a.Tag) > 0 {
		p["tags"] = a.Tag
	}
	if a.Trust {
		p["untrusted"] = false
	}
	return show(c, "memory.watch_add", p, func(w memory.WatchedFolder) {
		c.say("Watching %s. Notes are imported while Helix is running; `helix memory watch list` shows them.", plain(w.Path))
	})
}

type memoryWatchListCmd struct{}

func (*memoryWatchListCmd) Run(c *command) error {
	return show(c, "memory.watch_list", struct{}{}, func(r memory.WatchListResult) {
		list(c, r.Folders, "No watched folders. Add one with `helix memory watch add DIR`.", []string{"STATE", "NOTES", "LAST IMPORT", "RESULT", "PATH", "PROBLEM"}, func(w memory.WatchedFolder) []string {
			row := []string{w.State, fmt.Sprint(w.Files), "", "", plain(w.Path), plain(w.Message)}
			if w.LastImport != nil {
				row[2], row[3] = nextTime(w.LastImport.FinishedAt), counted(*w.LastImport)
			}
			return row
		})
	})
}

type memoryWatchRemoveCmd struct {
	Dir string `arg:"" type:"path" help:"The folder."`
}

func (r *memoryWatchRemoveCmd) Run(c *command) error {
	return c.changeWatch("memory.watch_remove", r.Dir, "No longer watching")
}

type memoryWatchPauseCmd struct {
	Dir string `arg:"" type:"path" help:"The folder."`
}

func (p *memoryWatchPauseCmd) Run(c *command) error {
	return c.changeWatch("memory.watch_pause", p.Dir, "Paused:")
}

type memoryWatchResumeCmd struct {
	Dir string `arg:"" type:"path" help:"The folder."`
}

func (r *memoryWatchResumeCmd) Run(c *command) error {
	return c.changeWatch("memory.watch_resume", r.Dir, "Watching")
}

// changeWatch calls a method for the watched folder with a path.
func (c *command) changeWatch(method, dir, done string) error {
	var all memory.WatchListResult
	if _, err := c.call("memory.watch_list", struct{}{}, &all); err != nil {
		return err
	}
	i := slices.IndexFunc(all.Folders, func(w memory.WatchedFolder) bool { return w.Path == filepath.Clean(dir) })
	if i < 0 {
		return fault.NotFoundf("%s isn't being watched. See `helix memory watch list`.", dir)
	}
	return show(c, method, memory.WatchParams{WatchID: all.Folders[i].WatchID}, func(w memory.WatchedFolder) { c.say("%s %s.", done, plain(w.Path)) })
}
