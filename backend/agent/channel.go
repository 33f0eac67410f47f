package agent

import (
	"context"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
)

// EnsureChannelSession creates the session of a conversation that is held over a channel, unless it
// exists.
func (s *Service) EnsureChannelSession(ctx context.Context, id uuid.UUID, title string) error {
	s.starting.Lock()
	defer s.starting.Unlock()
	_, err := s.get(ctx, id)
	if fault.Is(err, fault.NotFound) {
		_, err = s.openSession(ctx, id, title, QueueFollowup, true, &created{Kind: KindChannel, Agent: DefaultAgent, Mode: ModeAsk})
	}
	return err
}

// SubmitFromChannel adds what sender wrote over a channel to a session. Nobody is present to answer
// questions, and the text is untrusted. Sending the same turn again does nothing.
func (s *Service) SubmitFromChannel(ctx context.Context, session, turn uuid.UUID, text, sender string, files []AttachmentRef) error {
	in := &input{Text: text, Origin: Origin{Kind: OriginChannel, Label: sender}}
	if len(files) > 0 {
		l, err := s.session(ctx, session)
		if err != nil {
			return err
		}
		if in.Files, err = s.attachments(ctx, l, files, ""); err != nil {
			return err
		}
		in.Private, in.Untrusted = true, true // the sender may not have written the file
	}
	_, err := s.enqueue(ctx, session, turn, "", in)
	return err
}

// TurnState returns the state of a turn of the caller with its answer.
func (s *Service) TurnState(ctx context.Context, turn uuid.UUID) (callable.State, error) {
	return provider{s}.State(ctx, turn)
}

// CancelSession cancels all turns of one of the caller's sessions.
func (s *Service) CancelSession(ctx context.Context, session uuid.UUID) error {
	if _, err := s.get(ctx, session); err != nil {
		return err
	}
	_, err := s.cancelAll(ctx, &session)
	return err
}

// ChatTitle returns the title of one of the caller's chats.
func (s *Service) ChatTitle(ctx context.Context, session uuid.UUID) (string, error) {
	r, err := s.get(ctx, session)
	return r.Session.Title, err
}
