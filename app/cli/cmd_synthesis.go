package cli

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/synthesis"
)

type synthesisCmd struct {
	Run      synthesisRunCmd      `cmd:"" default:"withargs" help:"Find patterns in memories and conversations."`
	Status   synthesisStatusCmd   `cmd:"" help:"Show the progress of a job."`
	History  synthesisHistoryCmd  `cmd:"" help:"List jobs."`
	Patterns synthesisPatternsCmd `cmd:"" help:"List the patterns found, or show one."`
	Feedback synthesisFeedbackCmd `cmd:"" help:"Confirm or reject a pattern."`
	People   synthesisPeopleCmd   `cmd:"" help:"List the people in your texts, and merge, split or rename them."`
}

type synthesisRunCmd struct {
	UserID     string  `name:"user-id" short:"u" required:"" placeholder:"UUID" help:"Your user ID, or me."`
	Limit      int     `short:"l" default:"100" help:"How many of the newest texts to read, 1 to 10000."`
	Confidence float64 `short:"c" default:"0.7" help:"Minimum confidence of a pattern, 0 to 1."`
	Type       string  `default:"full_synthesis" help:"full_synthesis, emotional_patterns, relational_memory, prospective_self or narrative_coherence."`
	Engine     string  `default:"local" enum:"local,llm" help:"local opens no network connection; llm asks the language model of the role synthesis after you review what is sent."`
	Since      string  `placeholder:"TIME" help:"Only texts from this time on, such as 2026-01-31, or in RFC 3339."`
	Until      string  `placeholder:"TIME" help:"Only texts before this time."`
	Themes     int     `placeholder:"N" help:"Divide all texts into N topics, 2 to 100, instead of detecting how many there are."`
	DryRun     bool    `help:"Show what would be found, without changes."`

	Preview bool     `help:"llm: show exactly what would be sent, and send nothing."`
	Approve string   `placeholder:"HASH" help:"llm: send the text whose preview had this hash, without asking."`
	Hide    []string `placeholder:"NAME" help:"llm: a name to mask before texts are sent; may be repeated."`
	Samples int      `default:"1" help:"llm: how many times to ask the model, 1 or 3."`
}

func (s *synthesisRunCmd) Run(c *command) error {
	if s.UserID != "me" {
		if _, err := uuid.Parse(s.UserID); err != nil {
			return fault.Invalidf("--user-id: %q is not a UUID.", s.UserID)
		}
	}
	if s.Limit < 1 || s.Limit > 10_000 {
		return fault.Invalidf("--limit must be 1 to 10000.")
	}
	if math.IsNaN(s.Confidence) || s.Confidence < 0 || s.Confidence > 1 {
		return fault.Invalidf("--confidence must be between 0 and 1.")
	}
	var session struct {
		User struct {
			ID uuid.UUID `json:"id"`
		} `json:"user"`
	}
	if _, err := c.call("session.get", struct{}{}, &session); err != nil {
		return err
	}
	if s.UserID != "me" && s.UserID != session.User.ID.String() {
		return fault.Deniedf("This is another user's ID. Yours is %s.", session.User.ID)
	}
	p := map[string]any{"synthesisType": s.Type, "limit": s.Limit, "confidence": s.Confidence, "engine": s.Engine, "dryRun": s.DryRun, "waitMs": 0}
	span := map[string]any{}
	for name, text := range map[string]string{"start": s.Since, "end": s.Until} {
		if text == "" {
			continue
		}
		at, err := parseDay(text)
		if err != nil {
			return err
		}
		span[name] = at
	}
	if len(span) > 0 {
		p["timeRange"] = span
	}
	if s.Themes != 0 {
		p["themes"] = s.Themes
	}
	if s.Engine == "llm" {
		p["hideNames"], p["samples"] = s.Hide, s.Samples
	}
	if s.Preview || s.Engine == "llm" && s.Approve == "" {
		hash, err := c.previewSynthesis(p, s.Preview)
		if err != nil || s.Preview {
			return err
		}
		s.Approve = hash
	}
	if s.Approve != "" {
		p["approved"] = s.Approve
	}
	var started synthesis.SynthesizeResult
	if _, err := c.call("memory.synthesize", p, &started); err != nil {
		return err
	}
	job, raw, err := c.followSynthesis(started.JobID)
	if c.ctx.Err() != nil {
		if err := c.callAfterInterrupt("memory.synthesis_cancel", map[string]any{"jobId": started.JobID}, nil); err == nil {
			c.say("Canceled. Nothing was stored.")
		}
		return failed{ExitCode(fault.Canceled)}
	}
	switch {
	case err != nil:
		return err
	case job.Status == "failed":
		return fault.Internalf(nil, "%s", job.Error)
	case job.Status == "cancelled":
		return fault.New(fault.Canceled, "The synthesis was canceled. Nothing was stored.")
	}
	return c.printSynthesis(job, raw)
}

// previewSynthesis shows what a synthesis sends and, unless only is set, asks for confirmation. It
// returns the hash that approves the text, or "" if nothing leaves this computer.
func (c *command) previewSynthesis(p map[string]any, only bool) (string, error) {
	var pre synthesis.Preview
	raw, err := c.call("memory.synthesis_preview", p, &pre)
	if err != nil {
		return "", err
	}
	if only && c.JSON {
		return "", c.printJSON(raw)
	}
	out := c.env.Stderr
	if only {
		out = c.env.Stdout
	}
	for line := range strings.Lines(pre.ExactText) {
		fmt.Fprintln(out, plain(strings.TrimRight(line, "\n")))
	}
	if !pre.LeavesMachine {
		c.say("Nothing leaves this computer.")
		return "", nil
	}
	cost := fmt.Sprintf("about $%.4f", pre.EstimatedCostUSD)
	if pre.PriceUnknown {
		cost = "price not known"
	}
	c.say("Conversations: %d. Tokens: about %d, %s. Masked parts: %d. Hash: %s", pre.ConversationCount, pre.EstimatedTokens, cost, len(pre.Removed), pre.Hash)
	if only {
		return "", nil
	}
	if !isTerminal(c.env.Stdin) {
		return "", fault.Deniedf("Nothing was sent. To send this text, add --approve %s", pre.Hash)
	}
	return pre.Hash, c.confirm(false, fmt.Sprintf("Send this text to %s?", plain(pre.Destination)))
}

func (c *command) followSynthesis(id uuid.UUID) (job synthesis.Job, raw json.RawMessage, err error) {
	bar := c.bar("synthesis")
	defer bar.end()
	tick := time.NewTicker(150 * time.Millisecond)
	defer tick.Stop()
	for {
		job = synthesis.Job{}
		if raw, err = c.call("memory.synthesis_status", map[string]any{"jobId": id}, &job); err != nil || job.CompletedAt != nil {
			return job, raw, err
		}
		bar.show(job.Progress, job.Stage)
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return job, nil, c.ctx.Err()
		}
	}
}

// printSynthesis prints the patterns that the job found and their outcomes.
func (c *command) printSynthesis(job synthesis.Job, raw json.RawMessage) error {
	list := job.Insights.Found
	if !job.Insights.DryRun {
		for offset := 0; ; {
			var page synthesis.PatternsResult
			if _, err := c.call("memory.list_patterns", map[string]any{"limit": 100, "offset": offset, "status": "active", "sort": "variety"}, &page); err != nil {
				return err
			}
			for _, p := range page.Patterns {
				if !p.LastObserved.Before(*job.StartedAt) {
					list = append(list, p)
				}
			}
			if offset += len(page.Patterns); len(page.Patterns) == 0 || int64(offset) >= page.Total {
				break
			}
		}
	}
	if c.JSON {
		text, err := json.Marshal(struct {
			Job      json.RawMessage     `json:"job"`
			Patterns []synthesis.Pattern `json:"patterns"`
		}{raw, list})
		if err != nil {
			return err
		}
		return c.printJSON(json.RawMessage(text))
	}
	for _, p := range list {
		c.printPatternLine(p)
	}
	if s := job.Insights.Summary; s != "" && len(list) == 0 {
		fmt.Fprintln(c.env.Stdout, plain(s))
	}
	for _, w := range job.Insights.Warnings {
		c.say("warning: %s", plain(w))
	}
	if job.Insights.DryRun {
		fmt.Fprintf(c.env.Stdout, "%d found, nothing stored\n", len(list))
		return nil
	}
	fmt.Fprintf(c.env.Stdout, "created %d, updated %d, unchanged %d\n", job.Insights.Created, job.Insights.Updated, job.Insights.Unchanged)
	return nil
}

func (c *command) printPatternLine(p synthesis.Pattern) {
	fmt.Fprintf(c.env.Stdout, "%.2f  %-20s  %s\n", p.Confidence, p.Type, plain(strings.ReplaceAll(p.Description, "*", "")))
}

// parseDay parses a day, as its start in local time, or an RFC 3339 time.
func parseDay(text string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	t, err := time.ParseInLocation(time.DateOnly, text, time.Local)
	if err != nil {
		return t, fault.Invalidf("%q isn't a day such as 2026-01-31 or an RFC 3339 time.", text)
	}
	return t, nil
}

type synthesisStatusCmd struct {
	Job string `arg:"" param:"jobId" help:"ID of the job."`
}

func (*synthesisStatusCmd) Run(c *command) error {
	return answer(c, "memory.synthesis_status", func(j synthesis.Job) {
		c.fields("job", j.JobID.String(), "type", j.SynthesisType, "status", j.Status, "stage", j.Stage, "progress", fmt.Sprintf("%.0f %%", 100*j.Progress),
			"texts", fmt.Sprint(j.Insights.Texts), "patterns", fmt.Sprint(j.Insights.Patterns), "error", j.Error)
	})
}

type synthesisHistoryCmd struct {
	Limit  int    `default:"50"`
	Offset int    `default:"0"`
	Type   string `help:"Only jobs of this type."`
	Status string `default:"" enum:",pending,running,completed,failed,cancelled" placeholder:"STATUS" help:"Only jobs in this state."`
}

func (*synthesisHistoryCmd) Run(c *command) error {
	return answer(c, "memory.synthesis_history", func(r synthesis.HistoryResult) {
		list(c, r.Jobs, "No jobs. Start one: `helix synthesis --user-id me`.", []string{"ID", "STARTED", "TYPE", "STATUS", "TEXTS", "PATTERNS"}, func(j synthesis.Job) []string {
			return []string{j.JobID.String(), j.CreatedAt.Local().Format("2006-01-02 15:04"), j.SynthesisType, j.Status, fmt.Sprint(j.Insights.Texts), fmt.Sprint(j.Insights.Patterns)}
		})
	})
}

type synthesisPatternsCmd struct {
	ID            string  `arg:"" optional:"" param:"-" help:"Show this pattern with its evidence."`
	Layer         int     `help:"Only this layer, 1 to 7."`
	Type          string  `param:"patternType" help:"Only this type, such as goal or semantic_cluster."`
	Status        string  `help:"active, stale, rejected or superseded. Default: active and stale."`
	MinConfidence float64 `param:"minConfidence" help:"Only patterns of at least this confidence."`
	Sort          string  `default:"variety" enum:"variety,confidence,salience,recent" help:"Order (${enum}); variety starts with the most certain of each type."`
	Limit         int     `default:"50"`
	Offset        int     `default:"0"`
}

func (s *synthesisPatternsCmd) Run(c *command) error {
	if s.ID != "" {
		return show(c, "memory.get_pattern", map[string]any{"id": s.ID}, func(p synthesis.Pattern) {
			c.printPatternLine(p)
			for _, e := range p.EvidenceDetail {
				fmt.Fprintf(c.env.Stdout, "  %s  %s\n", e.OccurredAt.Local().Format(time.DateOnly), plain(first(e.Quote, "(deleted)")))
			}
		})
	}
	return answer(c, "memory.list_patterns", func(r synthesis.PatternsResult) {
		list(c, r.Patterns, "No patterns. Look for some: `helix synthesis --user-id me`.", []string{"ID", "CONFIDENCE", "TYPE", "STATUS", "DESCRIPTION"}, func(x synthesis.Pattern) []string {
			return []string{x.ID.String(), fmt.Sprintf("%.2f", x.Confidence), x.Type, x.Status, strings.ReplaceAll(x.Description, "*", "")}
		})
	})
}

type synthesisFeedbackCmd struct {
	ID      string `arg:"" help:"ID of the pattern."`
	Verdict string `arg:"" enum:"confirm,reject,clear" help:"confirm, reject or clear."`
	Note    string `help:"A note to show with it."`
}

func (*synthesisFeedbackCmd) Run(c *command) error {
	return answer(c, "memory.pattern_feedback", func(r synthesis.FeedbackResult) { c.printPatternLine(r.Pattern) })
}
