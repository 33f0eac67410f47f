package cloudsync

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// session runs fn with a connection of its own, so that fn neither waits for an exchange nor delays
// one. It returns errNotEnrolled if there is no hub.
func (s *Service) session(ctx context.Context, fn func(context.Context, *pgx.Conn, local) error) error {
	l, err := s.local(ctx)
	if err != nil {
		return err
	}
	if l.hub == nil {
		return errNotEnrolled
	}
	password, err := s.secrets.Value(s.asUser(ctx), passwordSecret)
	if err != nil {
		return err
	}
	l.hub.traffic = &s.traffic
	c, err := l.hub.connect(ctx, string(password))
	if err != nil {
		return hubError(l.hub.Host, err)
	}
	defer c.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the work is already committed
	return hubError(l.hub.Host, fn(ctx, c, l))
}
