package scheduler

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"helix/backend/callable"
)

// Callables returns the tools with which an agent creates schedules. A schedule that it creates is
// paused until a person resumes it.
func (s *Service) Callables() []callable.Func {
	const fields = `"description":{"type":"string","maxLength":1000},
		"cadence":{"type":"object","description":"{\"type\":\"cron\",\"expression\":\"0 9 * * 1-5\",\"timezone\":\"Europe/Berlin\"}, {\"type\":\"interval\",\"everySecs\":3600} or {\"type\":\"once\",\"at\":\"RFC 3339\"}. Without a time zone it is the person's."},
		"notification":{"enum":["always","conditional","never"]}`
	const id = `"scheduleId":{"type":"string","format":"uuid"}`
	def := func(name, title, input string, e callable.Effects, run func(context.Context, callable.Request) (any, error)) callable.Func {
		return callable.Func{
			Info: callable.Info{Name: "schedule." + name, Title: title, Effects: e, Input: json.RawMessage(input)},
			Run:  run,
		}
	}
	read := callable.Effects{ReadOnly: true, Idempotent: true}
	return []callable.Func{
		def("create", "Makes a schedule. It is paused until the person resumes it in Schedules.", `{"type":"object","additionalProperties":false,"required":["name","target","cadence"],"properties":{
			"name":{"type":"string","minLength":1,"maxLength":100},`+fields+`,
			"target":{"type":"object","additionalProperties":false,"required":["kind"],"description":"What to run. For kind agent the input is {\"prompt\":\"the task\"}.","properties":{
				"kind":{"enum":["skill","tool","agent","synthesis"]},"id":{"type":"string","format":"uuid"},"name":{"type":"string"},"input":{"type":"object"}}}}}`, callable.Effects{},
			callable.Typed(func(ctx context.Context, _ callable.Request, p CreateParams) (any, error) {
				p.Paused = true
				return s.Create(ctx, p)
			})),
		def("edit", "Changes fields of a schedule.", `{"type":"object","additionalProperties":false,"required":["scheduleId","patch"],"properties":{`+id+`,
			"patch":{"type":"object","additionalProperties":false,"minProperties":1,"properties":{"name":{"type":"string","minLength":1,"maxLength":100},`+fields+`}}}}`, callable.Effects{Idempotent: true},
			callable.Typed(func(ctx context.Context, _ callable.Request, p UpdateParams) (any, error) { return s.Update(ctx, p) })),
		def("delete", "Moves a schedule to the trash.", `{"type":"object","additionalProperties":false,"required":["scheduleId"],"properties":{`+id+`}}`, callable.Effects{Idempotent: true, Destructive: true},
			callable.Typed(func(ctx context.Context, _ callable.Request, p ScheduleParams) (any, error) { return s.Delete(ctx, p) })),
		def("search", "Lists schedules with their next and last runs.", `{"type":"object","additionalProperties":false,"properties":{"query":{"type":"string","maxLength":200},"limit":{"type":"integer","minimum":1,"maximum":50}}}`, read,
			callable.Typed(func(ctx context.Context, _ callable.Request, in struct {
				Query string
				Limit int
			}) (any, error) {
				return s.List(ctx, ListParams{Query: in.Query, Limit: in.Limit})
			})),
		def("runs", "Lists the runs of a schedule, the newest first.", `{"type":"object","additionalProperties":false,"required":["scheduleId"],"properties":{`+id+`,"limit":{"type":"integer","minimum":1,"maximum":50}}}`, read,
			callable.Typed(func(ctx context.Context, _ callable.Request, in struct {
				ScheduleID uuid.UUID
				Limit      int
			}) (any, error) {
				return s.Runs(ctx, RunsParams{ScheduleID: &in.ScheduleID, Limit: in.Limit})
			})),
		def("run_output", "Reads the output of a run.", `{"type":"object","additionalProperties":false,"required":["runId"],"properties":{"runId":{"type":"string","format":"uuid"}}}`, read,
			callable.Typed(func(ctx context.Context, _ callable.Request, in struct{ RunID uuid.UUID }) (any, error) {
				out, err := s.RunOutput(ctx, RunOutputParams{RunID: in.RunID, MaxChars: 8000})
				return callable.Result{Output: mustJSON(out), Untrusted: true}, err
			})),
	}
}
