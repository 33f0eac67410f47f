package backend

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/callable/netgate"
	"helix/backend/channels"
	"helix/backend/config"
	"helix/backend/identity"
	"helix/backend/scheduler"
	"helix/backend/skills"
	"helix/backend/skills/expr"
	"helix/backend/skills/machine"
)

// openSkills fills the registry of callables, and creates the skills and the scheduler on top of
// it.
func (b *Backend) openSkills(conf config.Config) {
	b.Callables = callable.NewRegistry(b.Permission)
	b.Callables.Add(b.Tools.Callables())
	b.Callables.Add(b.Tools.WasmCallables())
	gate := &netgate.Gate{Gate: b.callGate(), Step: "http.request"}
	b.subjects = callable.Subjects{gate.Step: gate}
	b.Permission.Register(string(callable.Builtin), b.subjects, nil)
	list, closing := skills.Builtins(skills.BuiltinOptions{DenyPort: b.ownPort, Allow: gate.Allow, Rights: gate.Rights, Notify: b.notifyUser})
	b.builtins = callable.NewSet(callable.Builtin, b.Audit.Record)
	b.builtins.Add(list...)
	b.Callables.Add(b.builtins)
	b.Skills = skills.New(b.DB, skills.Options{
		Logger: b.log, Callables: b.Callables, Gate: b.Permission, Audit: audit.Append, Questions: b.Permission,
		Limits: skills.Limits{Live: conf.SkillsMaxLive}, Hub: b.Sync.SkillShares(),
	})
	b.Permission.RegisterAnswerer(string(callable.Skill), b.Skills.AnswerQuestion)
	b.Callables.Add(b.Skills.Provider())
	b.assistant = callable.NewSet(callable.Assistant, b.Audit.Record)
	b.assistant.Add(b.Skills.Callables()...)
	b.Callables.Add(b.assistant)
	b.closing("skills", func() error {
		b.Skills.Close()
		closing()
		return nil
	})
}

// callGate returns the gate that determines what built-ins may reach.
func (b *Backend) callGate() callable.Gate {
	return callable.Gate{Permission: b.Permission, Record: b.Audit.RecordWith, Logger: b.log}
}

func (b *Backend) openScheduler() {
	b.Scheduler = scheduler.New(b.DB, scheduler.Options{
		Logger: b.log, Condition: expr.Predicate, Callables: b.Callables, Audit: audit.Append, Leases: b.Sync.Leases(), Deliver: b.deliverNotice,
		Clock: b.o.clock,
	})
	b.assistant.Add(b.Scheduler.Callables()...)
	clean := callable.NewJob("cleanup", "History clean-up", b.cleanUp, b.Scheduler.Ended)
	b.Callables.Add(clean)
	unsubscribe := bus.Subscribe(b.Bus, func(_ uuid.UUID, e skills.RunEvent) {
		switch machine.Type(e.Type) {
		case machine.RunFinished, machine.RunWaiting, machine.RunResumed:
			b.Scheduler.Ended(e.ExecutionID)
		}
	})
	b.closing("scheduler", func() error {
		unsubscribe()
		clean.Close()
		return b.Scheduler.Close()
	})
}

// notifyUser shows the notification of a step in the user's clients. The request is recorded in the
// run's journal; a client that was disconnected for a moment receives the notification when it
// resumes.
func (b *Backend) notifyUser(ctx context.Context, n skills.Notification) error {
	user := identity.UserID(ctx)
	bus.Publish(b.Bus, user, n)
	b.Channels.Notify(channels.Note{User: user, Topic: channels.TopicJob, Key: n.NoticeID.String(), Text: noticeText(n.Title, n.Body)})
	return nil
}

// asLocalUser returns the context for the work of a system schedule.
func (b *Backend) asLocalUser(ctx context.Context) context.Context {
	return identity.With(ctx, identity.Identity{User: b.LocalUser(), Scopes: identity.Write.Closed(), Client: identity.ClientProgram, Label: "scheduler", Pipe: "schedule"})
}

// cleanUp applies the retention settings to all histories and returns what was removed.
func (b *Backend) cleanUp(ctx context.Context) (any, error) {
	ctx = b.asLocalUser(ctx)
	done, err := b.Storage.PruneAll(ctx)
	return done, errors.Join(err, b.Agent.ForgetPurged(ctx), b.Audit.Prune(ctx))
}

// skillName returns the name of a skill of the caller, "" if it no longer exists.
func (b *Backend) skillName(ctx context.Context, id string) string {
	key, err := uuid.Parse(id)
	if err != nil {
		return ""
	}
	name, err := b.Skills.NameOf(ctx, key)
	if err != nil {
		return ""
	}
	return name
}
