package channels

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// The topics of notifications.
const (
	TopicSchedule = "schedule" // results of schedules
	TopicApproval = "approval" // something waits for approval
	TopicJob      = "job"      // finished imports and analyses
	TopicSystem   = "system"   // warnings
)

var topics = []string{TopicSchedule, TopicApproval, TopicJob, TopicSystem}

const (
	window = "window" // target of a topic that goes to no channel
	// awayAfter is how long no window must have had the focus for the person to be away.
	awayAfter = 5 * time.Minute
	// maxNotes is how many notifications can wait to be stored.
	maxNotes = 100
	// maxNotice is the largest text of a notification in bytes.
	maxNotice = 8 << 10
)

// Route says where the notifications of a topic go besides the window, which shows all of them.
type Route struct {
	Topic  string `json:"topic"`  // schedule, approval, job or system
	Target string `json:"target"` // window, or channel:<id>:<contextId>
	When   string `json:"when"`   // always; away: while no window had the focus for 5 minutes; or never
}

// RoutesResult has one route for each topic.
type RoutesResult struct {
	Routes []Route `json:"routes"`
}

// Routes returns where notifications go.
func (s *Service) Routes(ctx context.Context, _ struct{}) (RoutesResult, error) {
	out := RoutesResult{Routes: []Route{}}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		for _, topic := range topics {
			r, _, err := loadRoute(tx, identity.UserID(ctx), topic)
			if err != nil {
				return err
			}
			out.Routes = append(out.Routes, r)
		}
		return nil
	})
	return out, err
}

// loadRoute returns the route of a topic and its channel, nil for the window. A route to a channel that
// was removed goes to the window.
func loadRoute(tx *storage.Tx, user uuid.UUID, topic string) (Route, *channelRow, error) {
	list, err := storage.Collect(tx.Select(`SELECT target, "when" FROM channel_routes WHERE user_id = ? AND topic = ?`, user, topic), func(row storage.Row) (r Route, err error) {
		r.Topic = topic
		return r, row.Scan(&r.Target, &r.When)
	})
	if err != nil || len(list) == 0 {
		return Route{topic, window, "always"}, nil, err
	}
	id, _, _ := parseTarget(list[0].Target)
	rows, err := channelRows(tx, `WHERE id = ? AND user_id = ? AND deleted_at IS NULL`, id, user)
	if err != nil || len(rows) == 0 {
		return Route{topic, window, "always"}, nil, err
	}
	return list[0], &rows[0], nil
}

func parseTarget(target string) (id uuid.UUID, contextID string, ok bool) {
	rest, ok := strings.CutPrefix(target, "channel:")
	text, contextID, found := strings.Cut(rest, ":")
	id, err := uuid.Parse(text)
	return id, contextID, ok && found && err == nil && contextID != "" && len(contextID) <= maxID
}

// SetRoute sets where the notifications of a topic go. A channel's context must be one that somebody on
// its allow-list uses.
func (s *Service) SetRoute(ctx context.Context, p Route) (RoutesResult, error) {
	id, contextID, channel := parseTarget(p.Target)
	switch {
	case !slices.Contains(topics, p.Topic):
		return RoutesResult{}, fault.InvalidField("topic", fault.CodeInvalid, "topic must be schedule, approval, job or system.")
	case p.Target != window && !channel:
		return RoutesResult{}, fault.InvalidField("target", fault.CodeInvalid, "target must be window or channel:<id>:<contextId>.")
	case !slices.Contains([]string{"always", "away", "never"}, p.When):
		return RoutesResult{}, fault.InvalidField("when", fault.CodeInvalid, "when must be always, away or never.")
	}
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		if err := audit.Append(tx, audit.Entry{Action: "channel.routed", SubjectKind: "channel", Details: map[string]any{"topic": p.Topic, "target": p.Target, "when": p.When}}); err != nil {
			return err
		}
		if p.Target == window {
			_, err := tx.Exec(`DELETE FROM channel_routes WHERE user_id = ? AND topic = ?`, user, p.Topic)
			return err
		}
		if _, err := loadChannel(tx, id); err != nil {
			return err
		}
		if known, err := knows(tx, id, contextID); err != nil || !known {
			if err == nil {
				err = fault.InvalidField("target", fault.CodeInvalid, "Nobody on the allow-list uses this conversation. Pair or allow a sender first.")
			}
			return err
		}
		_, err := tx.Exec(`INSERT INTO channel_routes (user_id, topic, target, "when") VALUES (?, ?, ?, ?) ON CONFLICT (user_id, topic) DO UPDATE SET target = excluded.target, "when" = excluded."when"`, user, p.Topic, p.Target, p.When)
		return err
	})
	if err != nil {
		return RoutesResult{}, err
	}
	return s.Routes(ctx, struct{}{})
}

// Seen notes that a window of a user has the focus now.
func (s *Service) Seen(user uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[user] = s.o.Clock.Now()
}

// away reports whether no window of a user had the focus for a while.
func (s *Service) away(user uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.seen[user]
	return !ok || s.o.Clock.Now().Sub(at) >= awayAfter
}

// Note is a notification.
type Note struct {
	User  uuid.UUID
	Topic string
	Key   string // the same key is sent once
	Text  string
}

// genericTexts say in private mode what a notification is about, without its content.
var genericTexts = map[string]string{
	TopicSchedule: "A schedule has a result in Helix.",
	TopicApproval: "Something waits for your approval in Helix.",
	TopicJob:      "A job has finished in Helix.",
	TopicSystem:   "Helix has a warning.",
}

// NotifyTx queues a notification in the transaction that produced it, if its topic is routed to a
// channel. It is sent once, when the channel is connected, and expires after 6 hours.
func (s *Service) NotifyTx(tx *storage.Tx, n Note) error {
	r, c, err := loadRoute(tx, n.User, n.Topic)
	if err != nil || c == nil || r.When == "never" || r.When == "away" && !s.away(n.User) {
		return err
	}
	_, contextID, _ := parseTarget(r.Target)
	if known, err := knows(tx, c.id, contextID); err != nil || !known { // its sender was removed
		return err
	}
	text := genericTexts[n.Topic]
	if !s.o.Private && n.Text != "" {
		text = s.o.Scrub(as(tx.Context(), n.User), n.Text)
	}
	if len(text) > maxNotice {
		text = strings.ToValidUTF8(text[:maxNotice], "") + "…"
	}
	return s.queue(tx, c, contextID, "note:"+n.Topic+":"+n.Key, text, false)
}

// Notify queues a notification whose transaction has ended. It does not wait.
func (s *Service) Notify(n Note) {
	s.mu.Lock()
	if len(s.notes) < maxNotes {
		s.notes = append(s.notes, n)
	}
	s.mu.Unlock()
	signal(s.wake)
}

// storeNotes queues what Notify was given.
func (s *Service) storeNotes(ctx context.Context) error {
	s.mu.Lock()
	list := s.notes
	s.notes = nil
	s.mu.Unlock()
	for _, n := range list {
		if err := s.db.Write(as(ctx, n.User), func(tx *storage.Tx) error { return s.NotifyTx(tx, n) }); err != nil {
			return err
		}
	}
	return nil
}
