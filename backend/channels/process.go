package channels

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/storage"
)

// inboxRow is a message that was not answered yet. Its id is also that of its turn, so that submitting
// it again after a crash does not repeat it.
type inboxRow struct {
	id, user, channel uuid.UUID
	context, sender   string
	session           uuid.NullUUID
	payload           []byte
}

func inboxRows(tx *storage.Tx, state string) ([]inboxRow, error) {
	return storage.Collect(tx.Select(`SELECT i.id, i.user_id, i.channel_id, i.context_id, i.sender_id, i.session_id, i.payload FROM channel_inbox i JOIN channels c ON c.id = i.channel_id
		WHERE i.state = ? AND c.device_id = ? AND c.deleted_at IS NULL ORDER BY i.id`, state, tx.Device().ID), func(row storage.Row) (r inboxRow, err error) {
		err = row.Scan(&r.id, &r.user, &r.channel, &r.context, &r.sender, &r.session, &r.payload)
		return r, err
	})
}

// process hands received messages to the agent, and answers those whose turns have ended.
func (s *Service) process(ctx context.Context) error {
	var received, submitted []inboxRow
	err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if submitted, err = inboxRows(tx, "submitted"); err != nil {
			return err
		}
		received, err = inboxRows(tx, "received")
		return err
	})
	if err != nil {
		return err
	}
	for i := range submitted {
		if err := s.settle(as(ctx, submitted[i].user), &submitted[i]); err != nil {
			return err
		}
	}
	type place struct {
		channel uuid.UUID
		context string
	}
	full := map[place]bool{} // contexts whose session takes no more inputs now
	for i := range received {
		r := &received[i]
		at := place{r.channel, r.context}
		if full[at] {
			continue
		}
		if err := s.handle(as(ctx, r.user), r); err != nil {
			full[at] = true // until one of its turns ends, or the next time
			if ctx.Err() == nil && !fault.Is(err, fault.Limit) {
				s.log.Error("a message from a channel waits", "channel", r.channel, "message", r.id, "err", err)
			}
		}
	}
	return nil
}

// handle runs the command in a message, or submits the message.
func (s *Service) handle(ctx context.Context, r *inboxRow) error {
	m, err := s.openMessage("channel_inbox", r.id, r.payload)
	if err != nil {
		return err
	}
	text := strings.TrimSpace(m.Text)
	switch {
	case mediaProblems(m.Media) != "":
		return s.answer(ctx, r, mediaProblems(m.Media), "done", nil)
	case text == "" && len(m.Media) == 0:
		return s.answer(ctx, r, "", "done", nil)
	case strings.HasPrefix(text, "//"):
		text = text[1:]
	case strings.HasPrefix(text, "/"):
		return s.command(ctx, r, text)
	}
	ready, err := s.o.Sessions.Ready(ctx)
	if err != nil {
		return err
	}
	if !ready {
		return s.answer(ctx, r, textNoModel, "failed", nil)
	}
	read := r.payload
	session, err := s.bind(ctx, r, false)
	if err != nil {
		return err
	}
	if !bytes.Equal(read, r.payload) { // it was edited meanwhile; from now on it can't be
		return s.handle(ctx, r)
	}
	text, files, err := s.withMedia(ctx, text, m.Media)
	if err == nil {
		err = s.submit(ctx, r, session, m.Label, Input{Text: text, Files: files})
	}
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Conflict) { // the person deleted or archived it
		if session, err = s.bind(ctx, r, true); err != nil {
			return err
		}
		err = s.submit(ctx, r, session, m.Label, Input{Text: text, Files: files})
	}
	if fault.Is(err, fault.Invalid) { // such as a file that the model doesn't take
		return s.answer(ctx, r, fault.As(err).Message, "failed", nil)
	}
	if err != nil {
		return err
	}
	s.crashPoint("after submit")
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE channel_inbox SET state = 'submitted' WHERE id = ? AND state = 'received'`, r.id)
		return err
	})
	if run := s.runner(r.channel); run != nil {
		signal(run.busy)
	}
	signal(s.wake) // the turn may have ended before it was noted as submitted
	return err
}

func (s *Service) submit(ctx context.Context, r *inboxRow, session uuid.UUID, label string, in Input) error {
	in.Turn, in.Sender = r.id, firstOf(label, r.sender)
	if err := s.o.Sessions.Ensure(ctx, session, in.Sender); err != nil {
		return err
	}
	return s.o.Sessions.Submit(ctx, session, in)
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// bind returns the session of the message's context, and stores which one it is. fresh starts another.
// An edit no longer replaces the message then, and r has its last payload.
func (s *Service) bind(ctx context.Context, r *inboxRow, fresh bool) (session uuid.UUID, err error) {
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		if session, err = bindTx(tx, r, fresh, s.o.Clock); err != nil {
			return err
		}
		return tx.QueryRow(`UPDATE channel_inbox SET session_id = ? WHERE id = ? RETURNING payload`, session, r.id).Scan(&r.payload)
	})
	return session, err
}

func bindTx(tx *storage.Tx, r *inboxRow, fresh bool, clock Clock) (session uuid.UUID, err error) {
	list, err := storage.Collect(tx.Select(`SELECT session_id FROM channel_sessions WHERE channel_id = ? AND context_id = ?`, r.channel, r.context), storage.RowTo[uuid.UUID])
	if err != nil {
		return session, err
	}
	if session = storage.NewID(); len(list) > 0 && !fresh {
		session = list[0]
	}
	return session, setBinding(tx, r, session, clock)
}

func setBinding(tx *storage.Tx, r *inboxRow, session uuid.UUID, clock Clock) error {
	now := clock.Now()
	_, err := tx.Exec(`INSERT INTO channel_sessions (user_id, channel_id, context_id, session_id, created_at, last_at) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (channel_id, context_id) DO UPDATE SET session_id = excluded.session_id, last_at = excluded.last_at`, r.user, r.channel, r.context, session, now, now)
	return err
}

// settle answers a message whose turn has ended.
func (s *Service) settle(ctx context.Context, r *inboxRow) error {
	out, err := s.o.Sessions.Outcome(ctx, r.id)
	if fault.Is(err, fault.NotFound) { // the person purged the chat
		return s.answer(ctx, r, textFailed, "failed", nil)
	}
	if err != nil || !out.Ended {
		return err
	}
	text, state := strings.TrimSpace(s.o.Scrub(ctx, out.Text)), "done"
	if out.NeedsApproval {
		text = strings.TrimSpace(text + "\n\n" + textApproval)
	}
	if out.Failed {
		state = "failed"
	}
	return s.answer(ctx, r, text, state, nil)
}

// answer ends the handling of a message: the reply is queued in the transaction that marks the message.
func (s *Service) answer(ctx context.Context, r *inboxRow, text, state string, also func(*storage.Tx) error) error {
	key := "reply:"
	if text == textNoModel { // the reply itself follows when the message is tried again
		key = "nomodel:"
	}
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		marked, err := tx.Exec(`UPDATE channel_inbox SET state = ?, done_at = ? WHERE id = ? AND state IN ('received', 'submitted')`, state, s.o.Clock.Now(), r.id)
		if err != nil {
			return err
		}
		if n, err := marked.RowsAffected(); err != nil || n == 0 {
			return err
		}
		if also != nil {
			if err := also(tx); err != nil {
				return err
			}
		}
		c, err := loadChannel(tx, r.channel)
		if err != nil || text == "" {
			return err
		}
		return s.queue(tx, &c, r.context, key+r.id.String(), text, true)
	})
	s.crashPoint("after answer")
	return err
}

const commandList = "/new starts another chat. /sessions lists the chats of this conversation, /switch N continues one of them. /cancel stops the current answer, /cancelall all of them. /status shows what is going on. Text that begins with // is sent with one slash."

// command runs a command of a message.
func (s *Service) command(ctx context.Context, r *inboxRow, text string) error {
	name, arg, _ := strings.Cut(text, " ")
	sessions, current, err := s.sessionsOf(ctx, r)
	if err != nil {
		return err
	}
	switch name {
	case "/new":
		return s.answer(ctx, r, "Started another chat.", "done", func(tx *storage.Tx) error {
			_, err := bindTx(tx, r, true, s.o.Clock)
			return err
		})
	case "/sessions":
		lines := []string{}
		for i, id := range sessions {
			mark := ""
			if id == current {
				mark = " (current)"
			}
			title, err := s.o.Title(ctx, id)
			if err != nil {
				return err
			}
			lines = append(lines, strings.TrimRight(fmt.Sprintf("%d%s %s", i+1, mark, title), " "))
		}
		if len(lines) == 0 {
			lines = append(lines, "No chats yet.")
		}
		return s.answer(ctx, r, strings.Join(lines, "\n"), "done", nil)
	case "/switch":
		n, err := strconv.Atoi(strings.TrimSpace(arg))
		if err != nil || n < 1 || n > len(sessions) {
			return s.answer(ctx, r, "There is no chat with this number. /sessions lists them.", "done", nil)
		}
		return s.answer(ctx, r, fmt.Sprintf("Switched to chat %d.", n), "done", func(tx *storage.Tx) error { return setBinding(tx, r, sessions[n-1], s.o.Clock) })
	case "/cancel", "/cancelall":
		for _, id := range sessions {
			if id != current && name == "/cancel" {
				continue
			}
			if err := s.o.Sessions.Cancel(ctx, id); err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
		}
		return s.answer(ctx, r, "Canceled.", "done", nil)
	case "/status":
		var open int
		err := s.db.Read(ctx, func(tx *storage.Tx) error {
			return tx.QueryRow(`SELECT count(*) FROM channel_inbox WHERE channel_id = ? AND context_id = ? AND state = 'submitted'`, r.channel, r.context).Scan(&open)
		})
		if err != nil {
			return err
		}
		return s.answer(ctx, r, fmt.Sprintf("%d messages are being answered.", open), "done", nil)
	}
	return s.answer(ctx, r, commandList, "done", nil)
}

// sessionsOf returns the sessions that the message's context has had, oldest first.
func (s *Service) sessionsOf(ctx context.Context, r *inboxRow) (list []uuid.UUID, current uuid.UUID, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		list, err = storage.Collect(tx.Select(`SELECT session_id FROM channel_inbox WHERE channel_id = ?1 AND context_id = ?2 AND session_id IS NOT NULL GROUP BY session_id ORDER BY min(id)`, r.channel, r.context), storage.RowTo[uuid.UUID])
		if err != nil {
			return err
		}
		now, err := storage.Collect(tx.Select(`SELECT session_id FROM channel_sessions WHERE channel_id = ? AND context_id = ?`, r.channel, r.context), storage.RowTo[uuid.UUID])
		if len(now) > 0 {
			current = now[0]
		}
		return err
	})
	return list, current, err
}
