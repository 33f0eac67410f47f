package backend

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"helix/backend/channels"
	"helix/backend/config"
)

// openChannels creates the channels. Nothing is received or sent until Run.
func (b *Backend) openChannels(conf config.Config) {
	b.Channels = channels.New(b.DB, channels.Options{
		Sessions: channelSessions{b}, Secrets: b.Secrets, OwnPort: b.ownPort, Scrub: b.scrub, Private: conf.StoragePrivate, Logger: b.log,
		HookURL: func(id uuid.UUID) string { return strings.TrimSuffix(b.Gateway.URL(), "/") + "/hooks/" + id.String() },
	})
}

// channelSessions gives channels access to the agent.
type channelSessions struct{ b *Backend }

// Ready implements channels.Sessions.
func (x channelSessions) Ready(ctx context.Context) (bool, error) {
	st, err := x.b.Agent.Status(ctx, struct{}{})
	return st.Ready, err
}

// Ensure implements channels.Sessions.
func (x channelSessions) Ensure(ctx context.Context, session uuid.UUID, title string) error {
	return x.b.Agent.EnsureChannelSession(ctx, session, title)
}

// Submit implements channels.Sessions.
func (x channelSessions) Submit(ctx context.Context, session uuid.UUID, in channels.Input) error {
	return x.b.Agent.SubmitFromChannel(ctx, session, in.Turn, in.Text, in.Sender)
}

// Outcome implements channels.Sessions.
func (x channelSessions) Outcome(ctx context.Context, turn uuid.UUID) (out channels.Outcome, err error) {
	st, err := x.b.Agent.TurnState(ctx, turn)
	if err != nil || st.FinishedAt.IsZero() {
		return out, err
	}
	if err := json.Unmarshal(st.Output, &out.Text); err != nil {
		return out, err
	}
	out.Ended, out.NeedsApproval, out.Failed = true, st.NeedsApproval, st.Error != "" && !st.NeedsApproval
	if out.Failed {
		out.Text = st.Error
	}
	return out, nil
}

// Cancel implements channels.Sessions.
func (x channelSessions) Cancel(ctx context.Context, session uuid.UUID) error {
	return x.b.Agent.CancelSession(ctx, session)
}

// turnEnded notes that a turn of the agent has ended or waits for a person.
func (b *Backend) turnEnded(turn uuid.UUID) {
	b.Scheduler.Ended(turn)
	b.Channels.TurnEnded(turn)
}
