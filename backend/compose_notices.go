package backend

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/channels"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/memory"
	"helix/backend/scheduler"
	"helix/backend/storage"
	"helix/backend/synthesis"
)

// routeNotices hands to channels what jobs and storage report, which may be routed to one. What schedules
// and approvals report comes in their transactions.
func (b *Backend) routeNotices() {
	b.closing("notices of channels", unsubscribing(
		bus.Subscribe(b.Bus, func(user uuid.UUID, e memory.ImportDone) {
			b.Channels.Notify(channels.Note{User: user, Topic: channels.TopicJob, Key: e.JobID.String(), Text: "An import has ended: " + e.Status + "."})
		}),
		bus.Subscribe(b.Bus, func(user uuid.UUID, e synthesis.Done) {
			b.Channels.Notify(channels.Note{User: user, Topic: channels.TopicJob, Key: e.JobID.String(), Text: "An analysis of memories has ended: " + e.Status + "."})
		}),
		bus.Subscribe(b.Bus, func(user uuid.UUID, e storage.LowSpace) {
			if e.Low {
				b.Channels.Notify(channels.Note{User: user, Topic: channels.TopicSystem, Key: storage.NewID().String(), Text: "Little disk space is left. Helix needs some to store data."})
			}
		}),
		bus.Subscribe(b.Bus, func(user uuid.UUID, e channels.Changed) {
			if e.State == channels.Failed {
				b.Channels.Notify(channels.Note{User: user, Topic: channels.TopicSystem, Key: storage.NewID().String(), Text: "A channel has stopped. Open Channels in Helix to see why."})
			}
		}),
	))
}

// unsubscribing returns a function that ends subscriptions.
func unsubscribing(all ...func()) func() error {
	return func() error {
		for _, end := range all {
			end()
		}
		return nil
	}
}

// deliverNotice sends the notification of a schedule over the channel that it is routed to.
func (b *Backend) deliverNotice(tx *storage.Tx, user uuid.UUID, n scheduler.Notification) error {
	return b.Channels.NotifyTx(tx, channels.Note{User: user, Topic: channels.TopicSchedule, Key: n.NoticeID.String(), Text: noticeText(n.Title, n.Body)})
}

// approvalAsked sends one line about a question over the channel that approvals are routed to. It does
// not say what the question is.
func (b *Backend) approvalAsked(tx *storage.Tx, user, approval uuid.UUID) error {
	return b.Channels.NotifyTx(tx, channels.Note{User: user, Topic: channels.TopicApproval, Key: approval.String()})
}

func noticeText(title, body string) string { return strings.TrimSpace(title + "\n" + body) }

// Focused notes that a window has the focus. A window calls it when it gets the focus, and each minute
// while it has it.
func (b *Backend) Focused(ctx context.Context, _ struct{}) (struct{}, error) {
	b.Channels.Seen(identity.UserID(ctx))
	return struct{}{}, nil
}

// chatTitle returns the title of a chat of the caller, "" if it was deleted.
func (b *Backend) chatTitle(ctx context.Context, session uuid.UUID) (string, error) {
	title, err := b.Agent.ChatTitle(ctx, session)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	return title, err
}
