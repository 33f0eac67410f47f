package backend

import (
	"time"

	"helix/backend/memory"
	"helix/backend/scheduler"
	"helix/backend/synthesis"
)

// patterns uses every method of synthesis once.
func (p *memoryPipe) patterns() {
	t := p.t
	t.Helper()
	p.call("memory.add", memory.AddParams{Content: "I plan to build a wooden boat next year"}, nil)
	wait, typ := 10_000, synthesis.Full
	req := synthesis.SynthesizeParams{SynthesisType: typ, Limit: 1000, WaitMs: &wait}
	var preview synthesis.Preview
	p.call("memory.synthesis_preview", req, &preview)
	if preview.LeavesMachine || preview.ConversationCount == 0 {
		t.Errorf("%+v", preview)
	}
	var r synthesis.SynthesizeResult
	p.call("memory.synthesize", req, &r)
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
	for _, on := range []bool{true, false} { // made, then changed
		var s synthesis.ScheduleResult
		p.call("memory.synthesis_schedule", synthesis.ScheduleParams{SynthesisType: typ, Cron: "0 20 * * *", Zone: "Europe/Berlin", Enabled: on}, &s)
		if s.Enabled != on || on && (s.NextRun == nil || s.NextRun.Before(time.Now())) {
			t.Errorf("%+v", s)
		}
	}
	var schedules scheduler.ListResult
	p.call("schedules.list", scheduler.ListParams{Kind: "synthesis"}, &schedules)
	if schedules.Total != 1 {
		t.Errorf("%d schedules", schedules.Total)
	}
}
