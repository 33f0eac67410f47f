package backend

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/bus"
	"helix/backend/channels"
	"helix/backend/config"
	"helix/backend/fault"
	"helix/backend/voice"
)

// openChannels creates the channels. Nothing is received or sent until Run.
func (b *Backend) openChannels(conf config.Config) {
	b.Channels = channels.New(b.DB, channels.Options{
		Sessions: channelSessions{b}, Files: channelFiles{b}, Secrets: b.Secrets, OwnPort: b.ownPort, Scrub: b.scrub, Private: conf.StoragePrivate, Logger: b.log, Title: b.chatTitle,
		HookURL: func(id uuid.UUID) string { return strings.TrimSuffix(b.Gateway.URL(), "/") + "/hooks/" + id.String() },
	})
	b.routeNotices()
	unsubscribe := bus.Subscribe(b.Bus, func(_ uuid.UUID, e voice.Transcribed) { b.Channels.TurnEnded(e.RecordingID) })
	b.closing("channels", func() error { unsubscribe(); return nil })
}

// channelFiles keeps files that come through channels: sound as memos, others as attachments.
type channelFiles struct{ b *Backend }

// Attach implements channels.Files.
func (x channelFiles) Attach(ctx context.Context, name string, data []byte) (string, error) {
	r, err := x.b.Agent.Attach(ctx, agent.AttachParams{Name: name, Base64: base64.StdEncoding.EncodeToString(data)})
	return r.Blob, err
}

// Record implements channels.Files.
func (x channelFiles) Record(ctx context.Context, name string, data []byte) (uuid.UUID, error) {
	r, err := x.b.Voice.Upload(ctx, bytes.NewReader(data), voice.UploadParams{Title: name})
	return r.MemoID, err
}

// Transcript implements channels.Files.
func (x channelFiles) Transcript(ctx context.Context, memo uuid.UUID) (text string, done bool, err error) {
	m, err := x.b.Voice.GetMemo(ctx, voice.MemoParams{MemoID: memo})
	switch {
	case err != nil:
		return "", false, err
	case m.Status == "completed":
		return m.Text, true, nil
	case m.Error != "":
		return "", false, fault.Invalidf("%s", m.Error)
	}
	return "", false, nil
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
	files := []agent.AttachmentRef{}
	for _, f := range in.Files {
		files = append(files, agent.AttachmentRef{Blob: f.Blob, Name: f.Name})
	}
	return x.b.Agent.SubmitFromChannel(ctx, session, in.Turn, in.Text, in.Sender, files)
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
