package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/memory"
	"helix/backend/memory/importer"
)

type memoryImportCmd struct {
	Paths   []string `arg:"" name:"path" type:"path" help:"Files or folders: ChatGPT or Claude exports (zip or JSON), Markdown, text, JSON lines, LoCoMo."`
	Format  string   `default:"auto" enum:"auto,chatgpt,claude,markdown,text,jsonl,locomo" help:"Format (${enum})."`
	Tag     []string `help:"Tag all items; may be repeated." sep:"none"`
	Layer   *int     `help:"Layer of all items, 1 to 7."`
	Type    string   `help:"episodic, semantic or procedural."`
	Trust   bool     `help:"Mark everything as your own text. Otherwise it is untrusted: quoted to the agent."`
	DryRun  bool     `help:"Show what would be imported, without changes."`
	Large   bool     `name:"allow-large" help:"Allow archives that unpack to far more than their size."`
	NoEmbed bool     `help:"If Helix isn't running: don't wait for semantic indexing."`
}

func (i *memoryImportCmd) Run(c *command) error {
	c.memoryWork = !i.DryRun && !i.NoEmbed
	code := 0
	for _, path := range i.Paths {
		p := map[string]any{"path": path, "format": i.Format}
		setIf(p, "type", i.Type)
		if i.Layer != nil {
			if *i.Layer == 0 { // 0 means none in the backend
				return fault.Invalidf("Layer 0 doesn't exist: layers go from 1 to 7.")
			}
			p["layer"] = *i.Layer
		}
		if len(i.Tag) > 0 {
			p["tags"] = i.Tag
		}
		if i.Trust {
			p["untrusted"] = false
		}
		if i.Large {
			p["allowLarge"] = true
		}
		failed, err := c.importOne(path, p, i.DryRun)
		if question, large := largeArchive(err); large {
			if !isTerminal(c.env.Stdin) {
				return fault.Limitf("%s Repeat with --allow-large to import it.", question).WithDetails(fault.As(err).Details)
			}
			if err := c.confirm(false, question+" Import it?"); err != nil {
				return err
			}
			p["allowLarge"] = true
			failed, err = c.importOne(path, p, i.DryRun)
		}
		if err != nil {
			return err
		}
		code = max(code, failed)
	}
	if code != 0 {
		return failed{code}
	}
	if c.memoryWork {
		return c.awaitEmbedding(true)
	}
	return nil
}

// importOne imports a file or a folder, or shows its content.
func (c *command) importOne(path string, p map[string]any, dry bool) (exit int, err error) {
	if dry {
		if err := c.previewImport(path, p); err != nil {
			return 0, err
		}
		p["dryRun"] = true
	}
	return c.runImport(path, p)
}

// largeArchive returns the question of an import that stopped before unpacking a large archive.
func largeArchive(err error) (question string, large bool) {
	f := fault.As(err)
	if f == nil || f.Kind != fault.Limit {
		return "", false
	}
	text, _ := json.Marshal(f.Details)
	var d importer.Large
	if json.Unmarshal(text, &d) != nil || d.Code != importer.CodeLarge {
		return "", false
	}
	return f.Message, true
}

// previewImport prints what a file contains.
func (c *command) previewImport(path string, p map[string]any) error {
	var r memory.PreviewResult
	if _, err := c.call("memory.import_preview", p, &r); err != nil {
		return err
	}
	line := fmt.Sprintf("%s: %s, %d items", path, r.Format, r.Items)
	if r.Conversations > 0 {
		line += fmt.Sprintf(" in %d conversations", r.Conversations)
	}
	if d := r.DateRange; d != nil {
		line += ", " + d.From.Local().Format(time.DateOnly) + " to " + d.To.Local().Format(time.DateOnly)
	}
	if r.Partial {
		line += " (of its beginning)"
	}
	c.say("%s", plain(line))
	for _, s := range r.Samples {
		text := s.Text
		if s.Speaker != "" {
			text = s.Speaker + ": " + text
		}
		c.say("  %s %s", s.Kind, cut(plain(text), 100))
	}
	for _, w := range r.Warnings {
		c.say("warning: %s", plain(w))
	}
	return nil
}

// runImport starts an import, follows it and prints its result. Ctrl-C cancels it.
func (c *command) runImport(path string, p map[string]any) (exit int, err error) {
	var job memory.JobResult
	if _, err := c.call("memory.import", p, &job); err != nil {
		return 0, err
	}
	st, raw, err := c.followImport(path, job.JobID)
	if c.ctx.Err() != nil {
		return 0, c.cancelImport(job.JobID)
	}
	if err != nil {
		return 0, err
	}
	for _, e := range st.Errors {
		where := e.File
		if e.Line > 0 {
			where = strings.TrimSpace(fmt.Sprintf("%s line %d", where, e.Line))
		}
		c.say("%s", plain(strings.TrimPrefix(where+": "+e.Message, ": ")))
	}
	for _, v := range st.Vanished {
		c.say("No longer there: %s", plain(v))
	}
	if c.JSON {
		if err := c.printJSON(raw); err != nil {
			return 0, err
		}
	} else {
		fmt.Fprintf(c.env.Stdout, "%s: %s\n", plain(path), counted(st))
	}
	switch {
	case st.Status == "cancelled":
		return ExitCode(fault.Canceled), nil
	case st.Status == "failed":
		fmt.Fprintf(c.env.Stderr, "helix: %s\n", plain(first(st.Message, "The import failed.")))
		return 1, nil
	case st.Failed > 0 && st.Added+st.Updated+st.Skipped == 0:
		return 1, nil
	}
	return 0, nil
}

func counted(st memory.ImportStatus) string {
	added := "added"
	if st.DryRun {
		added = "would be added"
	}
	out := fmt.Sprintf("%d read, %d %s", st.Read, st.Added, added)
	for _, n := range []struct {
		n    int64
		what string
	}{{st.Updated, "updated"}, {st.Skipped, "already imported"}, {st.Failed, "unreadable"}} {
		if n.n > 0 {
			out += fmt.Sprintf(", %d %s", n.n, n.what)
		}
	}
	return out + "."
}

// followImport waits until an import ends and shows its progress.
func (c *command) followImport(path string, job uuid.UUID) (st memory.ImportStatus, raw json.RawMessage, err error) {
	bar := c.bar(path)
	defer bar.end()
	tick := time.NewTicker(150 * time.Millisecond)
	defer tick.Stop()
	for {
		if raw, err = c.call("memory.import_status", map[string]any{"jobId": job}, &st); err != nil {
			return st, nil, err
		}
		if st.Status != "pending" && st.Status != "running" {
			return st, raw, nil
		}
		bar.show(st.Progress, counted(st))
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return st, nil, c.ctx.Err()
		}
		st = memory.ImportStatus{}
	}
}

// cancelImport cancels an import after Ctrl-C and prints what was kept.
func (c *command) cancelImport(job uuid.UUID) error {
	var st memory.ImportStatus
	if err := c.callAfterInterrupt("memory.import_cancel", map[string]any{"jobId": job}, &st); err != nil {
		fmt.Fprintf(c.env.Stderr, "helix: Couldn't cancel the import: %s\n", fault.As(err).Message)
	} else {
		c.say("Canceled. What was imported is kept: %s Run the same command to continue.", counted(st))
	}
	return failed{ExitCode(fault.Canceled)}
}

// bar shows progress on standard error: in place on a terminal, otherwise one line per 10 %.
type bar struct {
	c    *command
	name string
	live bool
	last int
}

func (c *command) bar(name string) *bar {
	return &bar{c: c, name: plain(name), live: isTerminal(c.env.Stderr)}
}

func (b *bar) show(progress float64, note string) {
	if b.c.Quiet {
		return
	}
	percent := int(100 * min(max(progress, 0), 1))
	switch {
	case b.live:
		fmt.Fprintf(b.c.env.Stderr, "\r\x1b[K%s %3d %%  %s", cut(b.name, 40), percent, plain(note))
	case percent/10 > b.last:
		b.last = percent / 10
		fmt.Fprintf(b.c.env.Stderr, "%s %d %%  %s\n", b.name, percent, plain(note))
	}
}

func (b *bar) end() {
	if b.live && !b.c.Quiet {
		fmt.Fprint(b.c.env.Stderr, "\r\x1b[K")
	}
}

type memoryImportsCmd struct {
	Limit  int `default:"20"`
	Offset int `default:"0"`
}

func (i *memoryImportsCmd) Run(c *command) error {
	return show(c, "memory.imports", map[string]any{"limit": i.Limit, "offset": i.Offset}, func(r memory.ImportsResult) {
		list(c, r.Jobs, "No imports yet.", []string{"ID", "STARTED", "FORMAT", "STATE", "ADDED", "KNOWN", "FAILED", "PATH"}, func(j memory.ImportStatus) []string {
			return []string{j.JobID.String(), nextTime(j.StartedAt), j.Format, j.Status, fmt.Sprint(j.Added), fmt.Sprint(j.Skipped), fmt.Sprint(j.Failed), cut(j.Path, 60)}
		})
	})
}

type memoryReembedCmd struct {
	Model  string `help:"Switch to this model. The current one is used until it is ready." placeholder:"ID"`
	All    bool   `help:"Recompute everything."`
	Failed bool   `help:"Retry failed items."`
	Pause  bool   `xor:"pause" help:"Pause indexing until --resume."`
	Resume bool   `xor:"pause" help:"Resume indexing."`
	NoWait bool   `help:"Don't wait for it to finish."`
}

func (r *memoryReembedCmd) Run(c *command) error {
	c.memoryWork = !r.Pause
	p := map[string]any{}
	switch {
	case r.Pause, r.Resume:
		p["pause"] = r.Pause
	case r.Failed:
		p["failed"] = true
	case r.Model != "":
		p["modelId"] = r.Model
	}
	method := "memory.reembed"
	if !r.All && len(p) == 0 {
		method, p = "memory.embedding_status", map[string]any{} // missing ones are embedded anyway
	}
	var st memory.EmbeddingStatus
	raw, err := c.call(method, p, &st)
	if err != nil {
		return err
	}
	if !st.Available {
		return fault.Unavailablef("%s", first(st.Reason, "Semantic search isn't available: this build has no sentence encoder."))
	}
	if r.Pause || r.NoWait {
		if c.JSON {
			return c.printJSON(raw)
		}
		c.say("%s", embedded(st))
		return nil
	}
	if st.Paused && st.Queued > 0 {
		return fault.Conflictf("Indexing is paused. Continue with `helix memory reembed --resume`.")
	}
	if err := c.awaitEmbedding(false); err != nil {
		return err
	}
	raw, err = c.call("memory.embedding_status", struct{}{}, &st)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.printJSON(raw)
	}
	fmt.Fprintln(c.env.Stdout, embedded(st))
	return nil
}

func embedded(st memory.EmbeddingStatus) string {
	out := fmt.Sprintf("Semantic search: %d ready", st.Ready)
	for _, n := range []struct {
		n    int64
		what string
	}{{st.Queued, "waiting"}, {st.Stale, "out of date"}, {st.Failed, "failed"}} {
		if n.n > 0 {
			out += fmt.Sprintf(", %d %s", n.n, n.what)
		}
	}
	if st.Paused {
		out += ", paused"
	}
	return out + "."
}

// awaitEmbedding waits until everything has its vector. With ownOnly it does so only in a process
// that was opened for this command: a running Helix continues by itself.
func (c *command) awaitEmbedding(ownOnly bool) error {
	if _, alone := c.conn.(*own); ownOnly && !alone {
		return nil
	}
	bar := c.bar("Semantic search")
	defer bar.end()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		var st memory.EmbeddingStatus
		if _, err := c.call("memory.embedding_status", struct{}{}, &st); err != nil {
			return err
		}
		if !st.Available || st.Paused || st.Queued == 0 && st.BuildingModel == "" {
			return nil
		}
		done := float64(st.Ready) / float64(max(st.Ready+st.Queued, 1))
		note := fmt.Sprintf("%d of %d", st.Ready, st.Ready+st.Queued)
		if st.ETASeconds > 0 {
			note += ", " + span(time.Duration(st.ETASeconds*float64(time.Second))) + " left"
		}
		bar.show(done, note)
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			bar.end()
			c.say("Everything is imported. Semantic indexing continues when Helix runs.")
			return failed{ExitCode(fault.Canceled)}
		}
	}
}

// settle gives our own process a moment to make stored texts searchable by meaning.
func (c *command) settle(limit time.Duration) {
	if _, alone := c.conn.(*own); !alone {
		return
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var st memory.EmbeddingStatus
		if _, err := c.call("memory.embedding_status", struct{}{}, &st); err != nil || !st.Available || st.Paused || st.Queued == 0 || st.Queued > 256 {
			return // a running Helix, or the next reembed, does it
		}
		select {
		case <-tick.C:
		case <-timer.C:
			return
		case <-c.ctx.Done():
			return
		}
	}
}
