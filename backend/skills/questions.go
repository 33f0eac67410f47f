package skills

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/skills/machine"
	"helix/backend/storage"
)

// Questions shows a person what a run waits for, and closes the question when it is settled.
// permission.Service implements it.
type Questions interface {
	AskTx(tx *storage.Tx, a permission.QuestionRequest) error
	// CloseTx closes the question ref of a run, or all of its questions if ref is empty. token is
	// the token created together with the answer, or zero.
	CloseTx(tx *storage.Tx, run uuid.UUID, ref, choice string, token uuid.UUID) error
}

// subjectKind is the subject kind of skills in package permission.
const subjectKind = "skill"

// maxDetails limits the size of the details of a question; the run shows all of them.
const maxDetails = 64 << 10

// quarantineRef identifies the question about a run as a whole. Steps never have an empty path.
var quarantineRef = place("", "")

var choices = map[string][]permission.Choice{
	machine.WaitApproval: {
		{ID: machine.Approve, Label: "Approve", Approves: true, Help: "The run continues."},
		{ID: machine.Decline, Label: "Decline", Help: "The step fails or is skipped, as the skill defines."},
	},
	machine.WaitUnknown: {
		{ID: machine.GiveUp, Label: "Fail the step", Help: "The skill handles it like any other error."},
		{ID: machine.Done, Label: "It happened", Approves: true, Help: "The run continues without repeating the call."},
		{ID: machine.TryAgain, Label: "Repeat the call", Approves: true, Help: "If it did happen, it happens twice."},
	},
	WaitQuarantined: {
		{ID: machine.GiveUp, Label: "Cancel the run"},
		{ID: machine.TryAgain, Label: "Resume the run", Approves: true, Help: "If Helix stops unexpectedly again, the run is paused again."},
	},
}

// updateQuestions updates Approvals for events that are being committed. waits is what the run
// waits for after them.
func (s *Service) updateQuestions(tx *storage.Tx, row *runRow, events []machine.Event, waits []machine.Wait, ended bool) error {
	if s.o.Questions == nil || row.mode != modeLive {
		return nil
	}
	for _, e := range events {
		if e.Type != machine.ApprovalAnswered {
			continue
		}
		var d machine.AnswerData
		if err := json.Unmarshal(e.Data, &d); err != nil {
			return err
		}
		if d.Decision == machine.TimeOver {
			d.Decision = "" // made by the clock, not by a person
		}
		if err := s.o.Questions.CloseTx(tx, row.id, place(e.StepPath, e.Iteration), d.Decision, d.Token); err != nil {
			return err
		}
	}
	if ended {
		return s.o.Questions.CloseTx(tx, row.id, "", "", uuid.Nil)
	}
	for _, w := range waits {
		if err := s.ask(tx, row, w); err != nil {
			return err
		}
	}
	return nil
}

// ask shows the question of one wait, except for timers, and for capabilities, which have a
// question of their own.
func (s *Service) ask(tx *storage.Tx, row *runRow, w machine.Wait) error {
	options := choices[w.Request.Reason]
	if options == nil || s.o.Questions == nil {
		return nil
	}
	q := permission.Question{Text: w.Request.Title, Choices: options, Form: w.Request.Form, Step: w.Path}
	switch w.Request.Reason {
	case machine.WaitApproval:
		if q.Text == "" {
			q.Text = "Approve the step " + w.Path + "?"
		}
		q.Message, q.Details = w.Request.Message, details(w.Request.Show)
	case machine.WaitUnknown:
		q.Text = "Did the step " + w.Path + " complete? Helix stopped before its result arrived."
		q.Details = details(w.Input)
	case WaitQuarantined:
		q.Message = w.Request.Message
	}
	skill := row.hash
	if row.skill != nil {
		skill = row.skill.String()
	}
	return s.o.Questions.AskTx(tx, permission.QuestionRequest{
		User: row.user, Subject: permission.Subject{Kind: subjectKind, ID: skill}, SubjectName: row.name,
		Run: row.id, RunKind: subjectKind, Ref: place(w.Path, w.Iteration), Tier: permission.SideEffecting, Question: q,
	})
}

// details returns the data that a question is about, or nothing if it is too large.
func details(about json.RawMessage) json.RawMessage {
	if len(about) > maxDetails {
		return nil
	}
	return about
}

// AnswerQuestion handles an answer given in Approvals. It implements permission.Answerer.
func (s *Service) AnswerQuestion(ctx context.Context, a permission.Answered) error {
	path, iteration, ok := strings.Cut(a.Ref, "\x00")
	if !ok {
		return fault.Invalidf("The question belongs to no step.")
	}
	p := AnswerParams{ExecutionID: a.Run, StepPath: path, Iteration: iteration, Decision: a.Choice}
	if a.Choice == machine.Done {
		p.Output = a.Data
	} else {
		p.Data = a.Data
	}
	_, err := s.Answer(ctx, p)
	return err
}

// repeatQuestions shows the questions of all waiting runs, for databases from before questions were
// shown and for restored ones. Questions that exist are not changed.
func (s *Service) repeatQuestions(ctx context.Context) {
	if s.o.Questions == nil {
		return
	}
	var rows []*runRow
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		found, err := tx.Query(`SELECT `+runColumns+runTables+`WHERE x.status = 'waiting' AND x.mode = 'live' AND x.device_id = ? AND x.deleted_at IS NULL`, s.db.Device().ID)
		if err != nil {
			return err
		}
		defer found.Close()
		for found.Next() {
			row, err := scanRun(found)
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
		return found.Err()
	})
	for _, row := range rows {
		if err != nil {
			break
		}
		err = fault.Catch(func() error { return s.askAboutRun(ctx, row) })
		if err != nil && ctx.Err() == nil { // the run itself still shows its question
			s.log.Error("show what a run waits for", "run", row.id, "error", err)
			err = nil
		}
	}
	if err != nil && ctx.Err() == nil {
		s.log.Error("show what runs wait for", "error", err)
	}
}

func (s *Service) askAboutRun(ctx context.Context, row *runRow) error {
	ctx = identity.With(ctx, identity.Identity{User: row.user, Scopes: identity.Read | identity.Write, Client: identity.ClientProgram, Pipe: "skills"})
	x, _, err := s.loadExecution(ctx, row.id, false)
	if err != nil {
		return err
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		for _, w := range x.Waits {
			if err := s.ask(tx, row, machine.Wait{Path: w.StepPath, Iteration: w.Iteration, Request: w.Request, Input: w.Input}); err != nil {
				return err
			}
		}
		return nil
	})
}
