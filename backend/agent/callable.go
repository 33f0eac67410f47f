package agent

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/providers"
	"helix/backend/storage"
)

// provider makes agents callable. A call is a turn without history; a scheduled run is a turn that
// survives restarts.
type provider struct{ s *Service }

// Provider makes the agent callable from schedules, steps of skills and other callers by name.
func (s *Service) Provider() callable.Provider { return provider{s} }

// The values of the field session of a schedule's input.
const (
	sessionFresh = "fresh" // default: each run gets a new chat, archived when it ends
	sessionSame  = "same"  // all runs of the schedule share one chat
)

var agentInput = json.RawMessage(`{"type":"object","required":["prompt"],"properties":{
	"prompt":{"type":"string","title":"What to do","minLength":1,"maxLength":20000},
	"agentName":{"type":"string","title":"Agent","description":"One of Settings, Agent; default: helix.","maxLength":64},
	"session":{"type":"string","title":"Chat","description":"fresh: each run starts without history. same: all runs of a schedule are one chat.","enum":["fresh","same"],"default":"fresh"}}}`)

// call is the input of agents as callables.
type call struct {
	Prompt  string `json:"prompt"`
	Agent   string `json:"agentName,omitempty"`
	Session string `json:"session,omitempty"`
}

// pending is the row of a turn that has not started yet.
type pending struct {
	Input input  `json:"input"`
	Once  bool   `json:"once"`
	Agent string `json:"agent,omitempty"`
}

// output is the result of a turn as its caller gets it.
type output struct {
	Text       string    `json:"text"`
	SessionID  uuid.UUID `json:"sessionId"`
	TurnID     uuid.UUID `json:"turnId"`
	StopReason string    `json:"stopReason"`
}

func (p provider) info() callable.Info {
	return callable.Info{
		Ref: callable.Ref{Kind: Kind, ID: DefaultAgent}, Name: DefaultAgent, Title: agentTitle(DefaultAgent),
		Description: "Works on a task with the tools of this computer, within its budget.", Input: agentInput,
		Hash: hashOf(agentInput), Effects: callable.Effects{OpenWorld: true}, Untrusted: true,
	}
}

// Kind implements callable.Provider.
func (provider) Kind() callable.Kind { return Kind }

// Find implements callable.Provider. An empty id and an empty name select the only agent.
func (p provider) Find(_ context.Context, id, name string) ([]callable.Info, error) {
	if id != "" && id != DefaultAgent || id == "" && name != "" && !strings.EqualFold(name, DefaultAgent) {
		return nil, nil
	}
	return []callable.Info{p.info()}, nil
}

// List implements callable.Provider.
func (p provider) List(context.Context) ([]callable.Info, error) {
	return []callable.Info{p.info()}, nil
}

// Rights implements callable.Provider. An agent needs no permissions itself; its tools do.
func (p provider) Rights(context.Context, callable.Info, json.RawMessage) (permission.PreviewResult, error) {
	return callable.Needs(p.info()), nil
}

// read checks the input of a call and converts it to the input of a turn.
func (p provider) read(ctx context.Context, ref callable.Ref, r callable.Request) (call, *input, error) {
	var c call
	if ref.ID != DefaultAgent {
		return c, nil, callable.NotFound(ref)
	}
	if err := callable.CheckInput(ctx, p.info(), r.Input); err != nil {
		return c, nil, err
	}
	if err := json.Unmarshal(r.Input, &c); err != nil {
		return c, nil, fault.Invalidf("The input is not valid for an agent.").WithCause(err)
	}
	c.Agent = cmp.Or(c.Agent, DefaultAgent)
	if _, err := p.s.readPersona(ctx, c.Agent); err != nil {
		return c, nil, fault.As(err).WithDetails(callable.Refusal{Reason: callable.ReasonGone})
	}
	in := &input{
		Text: c.Prompt, Origin: Origin{Kind: OriginSkill, Label: r.Caller.Label}, QueueMode: QueueFollowup, Attended: r.Caller.Attended,
		Budget: Budget{MaxTurns: r.Budget.MaxTurns, MaxCostMicros: providers.Micros(r.Budget.MaxCostMicros), MaxWallMs: r.Timeout.Milliseconds()},
	}
	switch r.Caller.Kind {
	case "":
		in.Origin = Origin{Kind: OriginUser}
	case OriginSchedule:
		in.Origin.Kind = OriginSchedule
	}
	return c, in, nil
}

// Call implements callable.Provider: it runs a turn in a new chat, which ends when the caller
// cancels. Its tools get no more permissions than the caller has.
func (p provider) Call(ctx context.Context, ref callable.Ref, r callable.Request) (callable.Result, error) {
	if r.Hash != "" && r.Hash != p.info().Hash {
		return callable.Result{}, callable.Changed(p.info())
	}
	c, in, err := p.read(ctx, ref, r)
	if err != nil {
		return callable.Result{}, err
	}
	if err := ctx.Err(); err != nil {
		return callable.Result{}, fault.New(fault.Canceled, "The call was canceled before it started.").WithCause(err)
	}
	s, session, turn := p.s, storage.NewID(), storage.NewID()
	if r.Caller.Authority != nil { // until the turn ends, which may be after this call
		s.mu.Lock()
		s.callers[turn] = r.Caller.Authority
		s.mu.Unlock()
	}
	if _, err := s.openSession(ctx, session, "", QueueFollowup, true, &created{Kind: KindRun, Agent: c.Agent, Mode: ModeAsk, Once: true}); err != nil {
		return callable.Result{}, err
	}
	if _, err := s.enqueue(ctx, session, turn, QueueFollowup, in); err != nil {
		return callable.Result{}, err
	}
	for ctx.Err() == nil {
		got, err := s.Wait(ctx, WaitParams{TurnID: turn, WaitMs: longestWait.Milliseconds()})
		switch {
		case ctx.Err() != nil:
		case err != nil:
			return callable.Result{}, err
		case got.Turn.FinishedAt != nil:
			st, err := p.State(ctx, turn)
			if err != nil {
				return callable.Result{}, err
			}
			if st.Status != "success" {
				return callable.Result{Usage: st.Usage}, fault.New(fault.Kind(st.ErrorKind), "%s", st.Error)
			}
			said := output{SessionID: session, TurnID: turn, StopReason: got.Turn.StopReason}
			if err := json.Unmarshal(st.Output, &said.Text); err != nil {
				return callable.Result{}, err
			}
			out, err := json.Marshal(said)
			return callable.Result{Output: out, Untrusted: true, Usage: st.Usage}, err
		case got.Turn.State == Waiting:
			return callable.Result{}, fault.Deniedf("The agent is waiting for you. Answer in Approvals to continue its chat.").WithDetails(map[string]any{"sessionId": session, "turnId": turn})
		}
	}
	if _, err := s.Cancel(context.WithoutCancel(ctx), TurnParams{session, &turn}); err != nil {
		return callable.Result{}, err
	}
	return callable.Result{}, fault.As(ctx.Err())
}

// Enqueue implements callable.Starter. The session of the run is created when the run starts.
func (p provider) Enqueue(tx *storage.Tx, ref callable.Ref, r callable.Request) (uuid.UUID, error) {
	c, in, err := p.read(tx.Context(), ref, r)
	if err != nil {
		return uuid.Nil, err
	}
	in.Attended = false
	user, run, session := identity.UserID(tx.Context()), storage.NewID(), storage.NewID()
	if c.Session == sessionSame {
		session = uuid.NewSHA1(user, []byte("scheduled:"+p.s.db.Device().ID.String()+":"+r.Caller.ID))
	}
	text, err := json.Marshal(pending{*in, c.Session != sessionSame, c.Agent})
	if err != nil {
		return uuid.Nil, err
	}
	_, err = tx.Exec(`INSERT INTO agent_turns (id, session_id, user_id, state, queue_mode, lane, schedule_run_id, pending, created_at) VALUES (?, ?, ?, 'queued', ?, ?, ?, ?, ?)`,
		run, session, user, in.QueueMode, laneBackground, r.Caller.Run, string(text), tx.Now)
	return run, err
}

// Start implements callable.Starter.
func (p provider) Start(run uuid.UUID) {
	s := p.s
	if s.life.Err() != nil {
		return
	}
	s.wg.Go(func() {
		s.starting.Lock() // a run may be started twice
		defer s.starting.Unlock()
		if err := fault.Catch(func() error { return s.release(run) }); err != nil && s.life.Err() == nil {
			s.log.Error("a scheduled turn can't be started", "turn", run, "err", err)
		}
	})
}

// release writes the input of a run to the log of its session, which the first run creates.
func (s *Service) release(run uuid.UUID) error {
	var user, session uuid.UUID
	var text sql.NullString
	err := s.db.Read(s.life, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT user_id, session_id, pending FROM agent_turns WHERE id = ?`, run).Scan(&user, &session, &text)
	})
	if err != nil || !text.Valid {
		return err // already logged: resume continues it
	}
	ctx := s.asUser(s.life, user)
	var p pending
	if err := json.Unmarshal([]byte(text.String), &p); err != nil {
		return err
	}
	_, err = s.get(ctx, session)
	if fault.Is(err, fault.NotFound) {
		_, err = s.openSession(ctx, session, p.Input.Origin.Label, QueueFollowup, true, &created{Kind: KindScheduled, Agent: cmp.Or(p.Agent, DefaultAgent), Mode: ModeAsk, Once: p.Once})
	}
	if err == nil {
		_, err = s.enqueue(ctx, session, run, QueueFollowup, &p.Input)
	}
	if err == nil || s.life.Err() != nil {
		return err
	}
	f := fault.As(err)
	werr := s.db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE agent_turns SET state = 'failed', stop_reason = ?, error_kind = ?, error_message = ?, finished_at = ?, pending = NULL WHERE id = ? AND pending IS NOT NULL`, StopError, string(f.Kind), f.Message, tx.Now, run)
		return err
	})
	s.o.Ended(run)
	return errors.Join(err, werr)
}

// State implements callable.Starter. The output is the answer. A turn that lacked a permission counts
// as failed, even if the model wrote an answer.
func (p provider) State(ctx context.Context, run uuid.UUID) (callable.State, error) {
	t, err := p.s.turn(ctx, identity.UserID(ctx), run)
	if err != nil {
		return callable.State{}, err
	}
	out := callable.State{Status: t.State, WaitReason: t.WaitReason, Usage: callable.Usage{Turns: t.Steps, CostMicros: int64(t.CostMicros)}}
	if t.StartedAt != nil {
		out.StartedAt = *t.StartedAt
	}
	if t.FinishedAt == nil {
		return out, nil
	}
	out.FinishedAt = *t.FinishedAt
	answer := ""
	err = p.s.db.Read(ctx, func(tx *storage.Tx) error {
		list, err := p.s.messageRows(tx, `WHERE m.session_id = ? AND m.turn_id = ? ORDER BY m.seq`, t.SessionID, t.TurnID)
		for _, m := range list {
			for _, part := range m.Parts {
				switch level, notify := strings.CutPrefix(part.Status, notifyPrefix); {
				case part.Kind == PartText && m.Role == "assistant":
					answer = part.Text
				case part.Kind == PartNotice && notify:
					out.Notice = &callable.Notice{Title: part.Title, Body: part.Text, Level: level}
				case part.Kind == PartToolCall && part.Tier != "" && part.Tier != permission.ReadOnly.String():
					out.Unknown = true // its effects may have happened: a retry could repeat them
				}
			}
		}
		return err
	})
	if err != nil {
		return out, err
	}
	switch {
	case t.State == Completed && t.StopReason == StopDenied:
		out.Status, out.NeedsApproval, out.ErrorKind, out.Error = "failed", true, string(fault.Denied), stopSentence(StopDenied)
	case t.State == Completed:
		out.Status, out.Unknown = "success", false
	case t.State == Canceled:
		out.ErrorKind, out.Error = string(fault.Canceled), "The turn was canceled."
	case t.Error != nil:
		out.ErrorKind, out.Error = t.Error.Kind, t.Error.Message
	}
	out.Output, err = json.Marshal(answer)
	return out, err
}

// Cancel implements callable.Starter.
func (p provider) Cancel(ctx context.Context, run uuid.UUID, _ string) error {
	s, user := p.s, identity.UserID(ctx)
	s.starting.Lock()
	defer s.starting.Unlock()
	var n int64
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		r, err := tx.Exec(`UPDATE agent_turns SET state = ?, stop_reason = ?, finished_at = ?, pending = NULL WHERE id = ? AND user_id = ? AND pending IS NOT NULL`, Canceled, StopCanceled, tx.Now, run, user)
		if err == nil {
			n, err = r.RowsAffected()
		}
		return err
	})
	if err != nil || n > 0 { // it had not started yet
		s.o.Ended(run)
		return err
	}
	t, err := s.turn(ctx, user, run)
	if err != nil {
		return err
	}
	_, err = s.Cancel(ctx, TurnParams{t.SessionID, &run})
	return err
}
