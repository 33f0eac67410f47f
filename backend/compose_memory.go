package backend

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"helix/backend/audit"
	"helix/backend/callable"
	"helix/backend/config"
	"helix/backend/embed"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/memory"
	"helix/backend/memory/search"
	"helix/backend/picks"
	"helix/backend/psychology"
	"helix/backend/scheduler"
	"helix/backend/scheduler/cadence"
	"helix/backend/synthesis"
)

// openMemory creates the memory with the sentence encoder of this build. Without an encoder, search
// uses only words and system.status says why.
func (b *Backend) openMemory(conf config.Config) {
	paths := b.Config.Paths()
	o := memory.Options{
		Logger: b.log, Audit: audit.Append, VectorDir: filepath.Join(paths.Data, "vectors"), TempDir: paths.Cache, Private: conf.StoragePrivate,
		Zone:      func() string { return cmp.Or(b.Config.Current().MemoryZone, "Local") },
		Pause:     b.Pause,
		Retention: psychology.RetentionOf,
		TrashAge:  b.DB.TrashAge,
	}
	if w, ok := config.Numbers(conf.MemoryWeights, 3, 10); ok {
		o.Weights = search.Weights{Keyword: w[0], Vector: w[1], Window: w[2]}
	}
	model, err := embed.Open()
	if err != nil {
		o.Why = fault.As(err).Message
		b.encoder = o.Why
		b.log.Warn("memory is searched by words only", "err", err)
	} else {
		o.Embedder, b.embedder = model, model
		b.closing("sentence encoder", func() error { model.Release(); return nil })
	}
	b.Memory = memory.New(b.DB, o)
	b.builtins.Add(b.Memory.Callables()...)
	b.assistant.Add(b.Memory.AgentCallables()...)
	b.closing("memory", b.Memory.Close)
}

// exportMemory is memory.export; its file can then be downloaded.
func (b *Backend) exportMemory(ctx context.Context, p memory.ExportParams) (memory.ExportResult, error) {
	r, err := b.Memory.Export(ctx, p)
	if err == nil {
		kind := "application/x-ndjson"
		if strings.EqualFold(p.Format, "markdown") {
			kind = "text/markdown; charset=utf-8"
		}
		b.downloads.Add(ctx, r.BlobID, kind)
	}
	return r, err
}

// openSynthesis creates the search for patterns in the memory, and makes it callable.
func (b *Backend) openSynthesis(conf config.Config) {
	b.Synthesis = synthesis.New(b.DB, b.Memory, synthesis.Options{
		Logger: b.log, Embedder: b.embedder, Schedule: b.scheduleSynthesis, Model: patternModel{b}, Private: conf.StoragePrivate, Gate: b.Permission,
		Zone: func() string { return cmp.Or(b.Config.Current().MemoryZone, "Local") },
	})
	b.Callables.Add(b.Synthesis.Provider(b.Audit.Record, b.Scheduler.Ended))
	b.Permission.RegisterAnswerer(string(synthesis.Kind), b.Synthesis.Answer)
	b.closing("synthesis", b.Synthesis.Close)
}

// scheduleSynthesis creates the schedule of a synthesis, or changes the existing one.
func (b *Backend) scheduleSynthesis(ctx context.Context, p synthesis.ScheduleParams) (out synthesis.ScheduleResult, err error) {
	spec, err := json.Marshal(cadence.Spec{Type: cadence.Cron, Expression: p.Cron, Timezone: p.Zone})
	if err != nil {
		return out, err
	}
	there, err := b.Scheduler.List(ctx, scheduler.ListParams{Kind: string(synthesis.Kind), Limit: 100})
	if err != nil {
		return out, err
	}
	var made scheduler.Schedule
	i := slices.IndexFunc(there.Schedules, func(s scheduler.Schedule) bool { return s.Target.Name == p.SynthesisType })
	switch {
	case i < 0:
		made, err = b.Scheduler.Create(ctx, scheduler.CreateParams{
			Name: "Synthesis: " + strings.ReplaceAll(p.SynthesisType, "_", " "), Cadence: spec, Paused: !p.Enabled,
			Target: scheduler.Target{Kind: string(synthesis.Kind), Name: p.SynthesisType, Input: json.RawMessage("{}")},
		})
	default:
		patch, _ := json.Marshal(map[string]any{"cadence": json.RawMessage(spec)})
		made, err = b.Scheduler.Update(ctx, scheduler.UpdateParams{ScheduleID: there.Schedules[i].ScheduleID, Patch: patch})
		if id := (scheduler.ScheduleParams{ScheduleID: made.ScheduleID}); err == nil && p.Enabled != (made.Status == "active") {
			if p.Enabled {
				made, err = b.Scheduler.Resume(ctx, id)
			} else {
				made, err = b.Scheduler.Pause(ctx, id)
			}
		}
	}
	return synthesis.ScheduleResult{
		ScheduleID: made.ScheduleID, SynthesisType: p.SynthesisType, Cron: made.Cadence.Expression, Zone: made.Cadence.Timezone, Enabled: made.Status == "active", NextRun: made.NextRunAt,
	}, err
}

// decaySchedule is the name of the built-in schedule that evaluates decay.
const decaySchedule = "Memory decay"

// openPsychology creates the layers and the decay of memories, which the scheduler evaluates every
// hour.
func (b *Backend) openPsychology() {
	b.Psychology = psychology.New(b.DB, b.Memory, psychology.Options{Logger: b.log, Patterns: b.Synthesis, Dir: b.Config.Paths().User, Owner: b.LocalUser, NextRun: b.nextDecay})
	decay := callable.NewJob("decay", decaySchedule, func(ctx context.Context) (any, error) {
		return b.Psychology.DecayRun(b.asLocalUser(ctx), psychology.RunParams{})
	}, b.Scheduler.Ended)
	b.Callables.Add(decay)
	b.closing("decay", func() error { decay.Close(); return nil })
}

// nextDecay returns when the scheduler evaluates decay next; nil while it is paused.
func (b *Backend) nextDecay(ctx context.Context) *time.Time {
	list, err := b.Scheduler.List(ctx, scheduler.ListParams{Kind: "decay", Limit: 1})
	if err != nil || len(list.Schedules) == 0 {
		return nil
	}
	return list.Schedules[0].NextRunAt
}

// exportPsychology is psychology.export; an archive can then be downloaded.
func (b *Backend) exportPsychology(ctx context.Context, p psychology.ExportParams) (r psychology.ExportResult, err error) {
	if p.Path, err = b.Picks.Expand(p.Path); err != nil {
		return r, err
	}
	r, err = b.Psychology.Export(ctx, p)
	if err == nil && r.BlobID != "" {
		b.downloads.Add(ctx, r.BlobID, "application/zip")
	}
	return r, err
}

// importPsychology is psychology.import; a file or folder that the person chose, uploaded or named
// is read where it is.
func (b *Backend) importPsychology(ctx context.Context, p psychology.ImportParams) (psychology.Counts, error) {
	path, err := b.Picks.Expand(p.Path)
	if err != nil {
		return psychology.Counts{}, err
	}
	id, _ := identity.From(ctx)
	if !strings.HasPrefix(path, picks.Prefix) && !(filepath.IsAbs(path) && id.Scopes.Has(identity.Admin)) {
		p.Path = path
		return b.Psychology.Import(ctx, p)
	}
	if path, err = b.Picks.Resolve(ctx, path, false); err != nil {
		return psychology.Counts{}, err
	}
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return b.Psychology.ImportFolder(ctx, path)
	}
	packed, err := os.ReadFile(path)
	if err != nil {
		return psychology.Counts{}, fault.Unavailablef("The file can't be read. Nothing was imported.").WithCause(err)
	}
	return b.Psychology.ImportZip(ctx, packed)
}
