package backend

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/memory"
	"helix/backend/psychology"
	"helix/backend/scheduler"
	"helix/backend/synthesis"
)

// synthesized runs a synthesis to its end: an equal request joins one that takes longer than a caller
// can wait.
func synthesized(call func(method string, params, result any), p synthesis.SynthesizeParams) (r synthesis.SynthesizeResult) {
	wait, now := 10_000, time.Now()
	p.WaitMs, p.TimeRange = &wait, &synthesis.TimeRange{End: &now} // otherwise each request has its own end
	for r.Status = "pending"; r.Status == "pending" || r.Status == "running"; {
		r = synthesis.SynthesizeResult{}
		call("memory.synthesize", p, &r)
	}
	return r
}

// patterns calls every method of synthesis once.
func (p *memoryPipe) patterns() {
	t := p.t
	t.Helper()
	p.call("memory.add", memory.AddParams{Content: "I plan to build a wooden boat next year"}, nil)
	req := synthesis.SynthesizeParams{SynthesisType: synthesis.Full, Limit: 1000}
	var preview synthesis.Preview
	p.call("memory.synthesis_preview", req, &preview)
	if preview.LeavesMachine || preview.ConversationCount == 0 {
		t.Errorf("%+v", preview)
	}
	r := synthesized(p.call, req)
	if r.Status != "completed" || r.Analysis == nil {
		t.Fatalf("%+v", r)
	}
	var job synthesis.Job
	p.call("memory.synthesis_status", synthesis.JobParams{JobID: r.JobID}, &job)
	p.call("memory.synthesis_cancel", synthesis.JobParams{JobID: r.JobID}, &job)
	if job.Status != "completed" {
		t.Errorf("%+v", job)
	}
	var history synthesis.HistoryResult
	p.call("memory.synthesis_history", synthesis.HistoryParams{}, &history)
	if history.Total == 0 {
		t.Error("no history")
	}
	var list synthesis.PatternsResult
	p.call("memory.list_patterns", synthesis.PatternsParams{PatternType: "goal"}, &list)
	if len(list.Patterns) == 0 {
		t.Fatal("the plan was not found")
	}
	var one synthesis.Pattern
	p.call("memory.get_pattern", synthesis.PatternParams{ID: list.Patterns[0].ID}, &one)
	var said synthesis.FeedbackResult
	p.call("memory.pattern_feedback", synthesis.FeedbackParams{ID: one.ID, Verdict: "reject"}, &said)
	p.call("memory.undo", memory.UndoParams{UndoToken: said.UndoToken}, nil)
	p.call("memory.get_pattern", synthesis.PatternParams{ID: one.ID}, &one)
	if one.Status != "active" || len(one.EvidenceDetail) == 0 || one.EvidenceDetail[0].Quote == "" {
		t.Errorf("%+v", one)
	}
	var advice synthesis.RecommendationsResult
	p.call("memory.list_recommendations", synthesis.RecommendationsParams{}, &advice)
	if len(advice.Recommendations) == 0 {
		t.Fatal("no recommendations")
	}
	p.call("memory.update_recommendation", synthesis.RecommendationParams{ID: advice.Recommendations[0].ID, Status: "acknowledged"}, nil)
	var m synthesis.MapResult
	p.call("memory.cluster_map", synthesis.MapParams{}, &m)
	for _, on := range []bool{true, false} { // created, then changed
		var s synthesis.ScheduleResult
		p.call("memory.synthesis_schedule", synthesis.ScheduleParams{SynthesisType: synthesis.Full, Cron: "0 20 * * *", Zone: "Europe/Berlin", Enabled: on}, &s)
		if s.Enabled != on || on && (s.NextRun == nil || s.NextRun.Before(time.Now())) {
			t.Errorf("%+v", s)
		}
	}
	var schedules scheduler.ListResult
	p.call("schedules.list", scheduler.ListParams{Kind: "synthesis"}, &schedules)
	if schedules.Total != 1 {
		t.Errorf("%d schedules", schedules.Total)
	}
	p.people()
	p.layers(one.ID)
}

// people merges two people in the texts, and splits them again.
func (p *memoryPipe) people() {
	t := p.t
	t.Helper()
	pair := map[string][]string{"socket": {"Marten", "Ylva"}, "post": {"Torben", "Sigrid"}, "bridge": {"Ansgar", "Runa"}}[p.name]
	for _, who := range pair {
		for _, what := range []string{"brought bread", "fixed the old gate", "came along to the lake"} {
			p.call("memory.add", memory.AddParams{Content: "On the way " + who + " " + what + "."}, nil)
		}
	}
	named := func(name string) (n int, list synthesis.PeopleResult) {
		p.call("memory.list_people", synthesis.PeopleParams{Query: name}, &list)
		return len(list.People), list
	}
	if n, list := named(pair[0]); n != 1 || list.People[0].Mentions < 3 {
		t.Fatalf("%+v", list)
	}
	var merged synthesis.MergePeopleResult
	p.call("memory.merge_people", synthesis.MergePeopleParams{Names: pair}, &merged)
	if merged.Person.Name != pair[0] || merged.Person.Mentions < 6 {
		t.Errorf("%+v", merged)
	}
	var split synthesis.SplitPersonResult
	p.call("memory.split_person", synthesis.SplitPersonParams{Name: pair[0], Aliases: pair[1:]}, &split)
	if split.Split.Name != pair[1] || split.Split.Mentions < 3 {
		t.Errorf("%+v", split)
	}
	p.call("memory.undo", memory.UndoParams{UndoToken: split.UndoToken}, nil)
	var renamed synthesis.RenamePersonResult
	p.call("memory.rename_person", synthesis.RenamePersonParams{Name: pair[1], To: pair[0] + " K."}, &renamed)
	if renamed.Person.Name != pair[0]+" K." || renamed.Person.Mentions < 6 {
		t.Errorf("%+v", renamed)
	}
	p.call("memory.undo", memory.UndoParams{UndoToken: renamed.UndoToken}, nil)
	var none synthesis.DismissPeopleResult
	p.call("memory.dismiss_people", synthesis.DismissPeopleParams{Names: pair[:1]}, &none)
	if n, list := named(pair[0]); n != 0 || len(none.Names) != 2 || !slices.Contains(list.Dismissed, pair[1]) {
		t.Errorf("dismissed %+v: %+v", none, list)
	}
	p.call("memory.undo", memory.UndoParams{UndoToken: none.UndoToken}, nil)
	if n, list := named(pair[1]); n != 1 || list.People[0].Name != pair[0] {
		t.Errorf("after Undo: %+v", list)
	}
}

// layers calls every method of psychology once.
func (p *memoryPipe) layers(pattern uuid.UUID) {
	t := p.t
	t.Helper()
	var goal, person psychology.Entry
	p.call("psychology.accept_proposal", psychology.ProposalParams{PatternID: pattern}, &goal)
	if goal.Origin != "synthesis" || goal.LayerNumber != 4 || len(goal.MemoryIDs) == 0 {
		t.Errorf("%+v", goal)
	}
	p.call("psychology.upsert_entry", psychology.UpsertParams{LayerNumber: 3, Kind: "person", Data: json.RawMessage(`{"name":"Ada"}`)}, &person)
	var trust psychology.InteractionResult
	p.call("psychology.record_interaction", psychology.InteractionParams{PersonID: person.ID, SalienceTier: "high", Evidence: new(0.5)}, &trust)
	if trust.After <= trust.Before {
		t.Errorf("%+v", trust)
	}
	ids := []uuid.UUID{goal.ID, goal.MemoryIDs[0]}
	var items psychology.ItemsResult
	p.call("psychology.reinforce", psychology.ReinforceParams{IDs: ids, Kind: "review"}, &items)
	p.call("psychology.set_salience", psychology.SalienceParams{IDs: ids, Tier: "high"}, &items)
	p.call("psychology.pin", psychology.PinParams{IDs: ids, On: true}, &items)
	if len(items.Items) != 2 || !items.Items[0].Pinned || !items.Items[1].Pinned {
		t.Errorf("%+v", items)
	}
	var undone psychology.UndoResult
	p.call("psychology.undo", memory.UndoParams{UndoToken: items.UndoToken}, &undone)
	if undone.Count != 2 {
		t.Errorf("%+v", undone)
	}
	for _, method := range []string{"overview", "get_all_layers", "get_layer_status", "fading", "decay_history", "get_settings", "trust_map", "emotional_map", "goals", "transformation", "purpose", "get_soul", "soul_history", "get_memory_patterns"} {
		p.call("psychology."+method, struct{}{}, nil)
	}
	var layer psychology.Layer
	p.call("psychology.get_layer", psychology.LayerParams{LayerNumber: 4}, &layer)
	p.call("psychology.update_layer", psychology.UpdateLayerParams{LayerNumber: 4, Version: layer.Version, Data: json.RawMessage(`{"note":"mine"}`)}, &layer)
	p.call("psychology.forecast", psychology.ForecastParams{ID: &goal.ID}, nil)
	var plan psychology.PlanReviewsResult
	p.call("psychology.plan_reviews", psychology.PlanReviewsParams{ID: goal.ID, At: []time.Time{time.Now().AddDate(0, 1, 0)}}, &plan)
	if len(plan.Reviews) != 1 {
		t.Errorf("%+v", plan)
	}
	p.call("psychology.update_settings", psychology.SettingsParams{TrustDecay: new(false)}, nil)
	p.call("psychology.run_decay", psychology.RunParams{DryRun: true}, nil)
	p.call("psychology.decay_run", psychology.RunParams{DryRun: true}, nil)
	p.call("psychology.export", psychology.ExportParams{Zip: true}, nil)
	var files psychology.ExportResult
	p.call("psychology.export", psychology.ExportParams{}, &files)
	var back psychology.Counts
	p.call("psychology.import", psychology.ImportParams{}, &back)
	if back.Entries != files.Entries || files.Entries < 2 {
		t.Errorf("%+v %+v", files, back)
	}
	var gone psychology.UndoResult
	p.call("psychology.delete_entry", psychology.IDsParams{IDs: []uuid.UUID{goal.ID}}, nil)
	p.call("psychology.delete_entry", psychology.IDsParams{IDs: []uuid.UUID{person.ID}}, &gone)
	p.call("psychology.restore_from_decay", psychology.RestoreParams{IDs: []uuid.UUID{person.ID}}, &gone)
	p.call("psychology.dismiss_proposal", psychology.ProposalParams{PatternID: pattern}, &gone)
	p.call("memory.undo", memory.UndoParams{UndoToken: gone.UndoToken}, nil)
	var soul psychology.Soul
	p.call("psychology.get_soul", struct{}{}, &soul)
	p.call("psychology.update_soul", psychology.UpdateSoulParams{Text: "Be brief.", Version: soul.Version}, &soul)
	wait := 10_000
	p.call("psychology.run_synthesis", synthesis.SynthesizeParams{WaitMs: &wait}, nil)
}
