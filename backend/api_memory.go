package backend

import (
	"cmp"
	"context"
	"strings"

	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/identity"
	"helix/backend/memory"
	"helix/backend/picks"
	"helix/backend/psychology"
	"helix/backend/synthesis"
)

func registerMemory(b *Backend, a *gateway.API) {
	s := b.Memory
	gateway.Handle(a, "memory.search", gateway.Read, s.Search)
	gateway.Alias(a, "memory_search", "memory.search")
	gateway.Handle(a, "memory.search_enhanced", gateway.Read, s.SearchEnhanced)
	gateway.Handle(a, "memory.related", gateway.Read, s.Related)
	gateway.Handle(a, "memory.add", gateway.Write, s.Add)
	gateway.Alias(a, "memory_save", "memory.add")
	gateway.Handle(a, "memory.add_batch", gateway.Write, s.AddBatch)
	gateway.Handle(a, "memory.get", gateway.Read, s.Get)
	gateway.Handle(a, "memory.list", gateway.Read, s.List)
	gateway.Handle(a, "memory.update", gateway.Write, s.Update)
	gateway.Alias(a, "memory_update", "memory.update")
	gateway.Handle(a, "memory.delete", gateway.Write, s.Delete)
	gateway.Alias(a, "memory_delete", "memory.delete")
	gateway.Handle(a, "memory.restore", gateway.Write, s.Restore)
	gateway.Handle(a, "memory.purge", gateway.Admin, s.Purge)
	gateway.Handle(a, "memory.undo", gateway.Write, b.undoMemory, gateway.DocumentedBy(s.Undo))
	gateway.Handle(a, "memory.pin", gateway.Write, s.Pin)
	gateway.Handle(a, "memory.set_salience", gateway.Write, s.SetSalience)
	gateway.Handle(a, "memory.tag", gateway.Write, s.Tag)
	gateway.Handle(a, "memory.history", gateway.Read, s.History)
	gateway.Handle(a, "memory.import_preview", gateway.Write, importPath(b, s.ImportPreview), gateway.DocumentedBy(s.ImportPreview), gateway.Costly(), gateway.Deadline(runLimit))
	gateway.Handle(a, "memory.import", gateway.Write, uploadOnce(b, func(p memory.ImportParams) (string, bool) { return p.Path, !p.DryRun }, importPath(b, s.Import)), gateway.DocumentedBy(s.Import), gateway.Costly())
	gateway.Handle(a, "memory.import_status", gateway.Read, s.ImportStatus)
	gateway.Handle(a, "memory.import_cancel", gateway.Write, s.ImportCancel)
	gateway.Handle(a, "memory.imports", gateway.Read, s.Imports)
	gateway.Handle(a, "memory.watch_add", gateway.Write, b.watchAdd, gateway.DocumentedBy(s.WatchAdd), gateway.Costly())
	gateway.Handle(a, "memory.watch_list", gateway.Read, s.WatchList)
	gateway.Handle(a, "memory.watch_remove", gateway.Write, s.WatchRemove)
	gateway.Handle(a, "memory.watch_pause", gateway.Write, s.WatchPause)
	gateway.Handle(a, "memory.watch_resume", gateway.Write, s.WatchResume)
	gateway.Handle(a, "memory.upsert_chunks", gateway.Write, s.UpsertChunks, gateway.Costly())
	gateway.Handle(a, "memory.list_documents", gateway.Read, s.ListDocuments)
	gateway.Handle(a, "memory.document", gateway.Read, s.Document)
	gateway.Handle(a, "memory.delete_document", gateway.Write, s.DeleteDocument)
	gateway.Handle(a, "memory.conversations", gateway.Read, s.Conversations)
	gateway.Handle(a, "memory.conversation", gateway.Read, s.Conversation)
	gateway.Handle(a, "memory.delete_conversation", gateway.Write, s.DeleteConversation)
	gateway.Handle(a, "memory.set_untrusted", gateway.Write, s.SetUntrusted)
	gateway.Handle(a, "memory.embedding_status", gateway.Read, s.EmbeddingStatus)
	gateway.Handle(a, "memory.reembed", gateway.Write, s.Reembed)
	gateway.Handle(a, "memory.stats", gateway.Read, s.Stats)
	gateway.Handle(a, "memory.export", gateway.Read, b.exportMemory, gateway.DocumentedBy(s.Export), gateway.Costly(), gateway.Deadline(runLimit))

	registerSynthesis(b, a)
	registerPsychology(b, a)

	gateway.Forward[memory.Changed](a, "memory.changed")
	gateway.Forward[memory.ImportProgress](a, "memory.import_progress")
	gateway.Forward[memory.ImportDone](a, "memory.import_done")
	gateway.Forward[memory.WatchChanged](a, "memory.watch_changed")
	gateway.Forward[memory.EmbeddingProgress](a, "memory.embedding_progress", gateway.Transient())
}

func registerSynthesis(b *Backend, a *gateway.API) {
	s := b.Synthesis
	gateway.Handle(a, "memory.synthesize", gateway.Write, s.Synthesize, gateway.Costly())
	gateway.Handle(a, "memory.synthesis_status", gateway.Read, s.Status)
	gateway.Handle(a, "memory.synthesis_cancel", gateway.Write, s.Cancel)
	gateway.Handle(a, "memory.synthesis_history", gateway.Read, s.History)
	gateway.Handle(a, "memory.synthesis_preview", gateway.Read, s.Preview)
	gateway.Handle(a, "memory.synthesis_schedule", gateway.Write, s.Schedule)
	gateway.Handle(a, "memory.list_patterns", gateway.Read, s.Patterns)
	gateway.Handle(a, "memory.get_pattern", gateway.Read, s.Pattern)
	gateway.Handle(a, "memory.pattern_feedback", gateway.Write, s.Feedback)
	gateway.Handle(a, "memory.list_recommendations", gateway.Read, s.Recommendations)
	gateway.Handle(a, "memory.update_recommendation", gateway.Write, s.UpdateRecommendation)
	gateway.Handle(a, "memory.list_people", gateway.Read, s.People, gateway.Costly())
	gateway.Handle(a, "memory.merge_people", gateway.Write, s.MergePeople)
	gateway.Handle(a, "memory.split_person", gateway.Write, s.SplitPerson)
	gateway.Handle(a, "memory.rename_person", gateway.Write, s.RenamePerson)
	gateway.Handle(a, "memory.dismiss_people", gateway.Write, s.DismissPeople)
	gateway.Handle(a, "memory.cluster_map", gateway.Read, s.ClusterMap, gateway.Costly())

	gateway.Forward[synthesis.Progress](a, "memory.synthesis_progress", gateway.Transient())
	gateway.Forward[synthesis.Done](a, "memory.synthesis_done")
	gateway.Forward[synthesis.PatternsChanged](a, "memory.patterns_changed")
}

func registerPsychology(b *Backend, a *gateway.API) {
	s := b.Psychology
	gateway.Handle(a, "psychology.overview", gateway.Read, s.Overview)
	gateway.Handle(a, "psychology.get_layer", gateway.Read, s.GetLayer)
	gateway.Handle(a, "psychology.get_all_layers", gateway.Read, s.GetAllLayers)
	gateway.Handle(a, "psychology.update_layer", gateway.Write, s.UpdateLayer)
	gateway.Handle(a, "psychology.get_layer_status", gateway.Read, s.LayerStatus)
	gateway.Handle(a, "psychology.upsert_entry", gateway.Write, s.UpsertEntry)
	gateway.Handle(a, "psychology.delete_entry", gateway.Write, s.DeleteEntry)
	gateway.Handle(a, "psychology.undo", gateway.Write, s.Undo)
	gateway.Handle(a, "psychology.reinforce", gateway.Write, s.Reinforce)
	gateway.Handle(a, "psychology.pin", gateway.Write, s.Pin)
	gateway.Handle(a, "psychology.set_salience", gateway.Write, s.SetSalience)
	gateway.Handle(a, "psychology.forecast", gateway.Read, s.Forecast)
	gateway.Handle(a, "psychology.fading", gateway.Read, s.Fading)
	gateway.Handle(a, "psychology.plan_reviews", gateway.Write, s.PlanReviews)
	gateway.Handle(a, "psychology.decay_run", gateway.Write, s.DecayRun, gateway.Costly())
	gateway.Alias(a, "psychology.run_decay", "psychology.decay_run")
	gateway.Handle(a, "psychology.decay_history", gateway.Read, s.DecayHistory)
	gateway.Handle(a, "psychology.restore_from_decay", gateway.Write, s.RestoreFromDecay)
	gateway.Handle(a, "psychology.get_settings", gateway.Read, s.Settings)
	gateway.Handle(a, "psychology.update_settings", gateway.Write, s.UpdateSettings)
	gateway.Handle(a, "psychology.record_interaction", gateway.Write, s.RecordInteraction)
	gateway.Handle(a, "psychology.trust_map", gateway.Read, s.TrustMap)
	gateway.Handle(a, "psychology.emotional_map", gateway.Read, s.View(2), gateway.DocumentedBy(s.View))
	gateway.Handle(a, "psychology.goals", gateway.Read, s.View(4), gateway.DocumentedBy(s.View))
	gateway.Handle(a, "psychology.transformation", gateway.Read, s.View(6), gateway.DocumentedBy(s.View))
	gateway.Handle(a, "psychology.purpose", gateway.Read, s.View(7), gateway.DocumentedBy(s.View))
	gateway.Handle(a, "psychology.get_soul", gateway.Read, s.GetSoul)
	gateway.Handle(a, "psychology.update_soul", gateway.Write, s.UpdateSoul)
	gateway.Handle(a, "psychology.soul_history", gateway.Read, s.SoulHistory)
	gateway.Handle(a, "psychology.accept_proposal", gateway.Write, s.AcceptProposal)
	gateway.Handle(a, "psychology.dismiss_proposal", gateway.Write, s.DismissProposal)
	gateway.Handle(a, "psychology.export", gateway.Read, b.exportPsychology, gateway.DocumentedBy(s.Export))
	gateway.Handle(a, "psychology.import", gateway.Write, uploadOnce(b, func(p psychology.ImportParams) (string, bool) { return p.Path, true }, b.importPsychology), gateway.DocumentedBy(s.Import))
	gateway.Handle(a, "psychology.run_synthesis", gateway.Write, b.runSynthesis, gateway.DocumentedBy(b.Synthesis.Synthesize), gateway.Costly())
	gateway.Alias(a, "psychology.get_memory_patterns", "memory.list_patterns")

	gateway.Forward[psychology.Changed](a, "psychology.changed")
	gateway.Forward[psychology.FadingSoon](a, "psychology.fading")
	gateway.Forward[psychology.Done](a, "psychology.decay_done")
}

// runSynthesis is psychology.run_synthesis: memory.synthesize with everything as the default.
func (b *Backend) runSynthesis(ctx context.Context, p synthesis.SynthesizeParams) (synthesis.SynthesizeResult, error) {
	p.SynthesisType = cmp.Or(p.SynthesisType, "full_synthesis")
	return b.Synthesis.Synthesize(ctx, p)
}

// undoMemory is memory.undo: it undoes actions on memories, feedback on patterns and corrections of
// people.
func (b *Backend) undoMemory(ctx context.Context, p memory.UndoParams) (memory.CountResult, error) {
	if strings.HasPrefix(p.UndoToken, synthesis.UndoPrefix) {
		return b.Synthesis.Undo(ctx, p)
	}
	return b.Memory.Undo(ctx, p)
}

// mayImport refuses imports that only the person may make. An imported file becomes readable for
// every caller that may search, so callers with fewer permissions than the person must not name
// files: the window passes what was chosen in the dialog, the browser uploads it, other programs
// send texts.
func mayImport(ctx context.Context, path string, untrusted *bool) error {
	id, _ := identity.From(ctx)
	if path != "" && !strings.HasPrefix(path, picks.Prefix) && !id.Scopes.Has(identity.Admin) {
		return fault.Deniedf("A file can be imported by the person only. Send the texts with memory.upsert_chunks or memory.add_batch instead.")
	}
	if untrusted != nil && !*untrusted && !id.MayApprove() {
		return fault.Deniedf("Only a person can mark a source as trusted. Nothing was imported.")
	}
	return nil
}

// importPath resolves the path of an import.
func importPath[R any](b *Backend, fn func(context.Context, memory.ImportParams) (R, error)) func(context.Context, memory.ImportParams) (R, error) {
	resolved := pathParam(b, false, func(p *memory.ImportParams) *string { return &p.Path }, fn)
	return func(ctx context.Context, p memory.ImportParams) (R, error) {
		if err := mayImport(ctx, p.Path, p.Untrusted); err != nil {
			var zero R
			return zero, err
		}
		if p.Path != "" {
			p.Name = b.Picks.Name(p.Path)
		}
		return resolved(ctx, p)
	}
}

// watchAdd is memory.watch_add for a folder of this computer that the person named or chose.
func (b *Backend) watchAdd(ctx context.Context, p memory.WatchAddParams) (memory.WatchedFolder, error) {
	if err := mayImport(ctx, p.Path, p.Untrusted); err != nil {
		return memory.WatchedFolder{}, err
	}
	if b.Picks.Name(p.Path) != "" {
		return memory.WatchedFolder{}, fault.InvalidField("path", fault.CodeInvalid, "This is a copy that was uploaded. Give the path of the folder on the computer that runs Helix.")
	}
	return pathParam(b, false, func(p *memory.WatchAddParams) *string { return &p.Path }, b.Memory.WatchAdd)(ctx, p)
}
