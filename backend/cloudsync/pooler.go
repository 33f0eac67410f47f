package cloudsync

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"helix/backend/fault"
)

const poolerTime = 5 * time.Second

// checkPooler fails for a pooler in transaction mode, which gives a connection another server process
// with each transaction: notifications and what belongs to a connection get lost. A pooler shows by the
// process that it names; its mode, by what c still knows after another connection had its turn.
func checkPooler(ctx context.Context, c *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, poolerTime)
	defer cancel()
	mark := uuid.NewString()
	var process uint32
	if err := c.QueryRow(ctx, `select pg_backend_pid(), set_config('helix.mark', $1, false)`, mark).Scan(&process, nil); err != nil {
		return err
	}
	if process == c.PgConn().PID() {
		return nil
	}
	other, err := pgx.ConnectConfig(ctx, c.Config())
	if err != nil {
		return nil //nolint:nilerr // a pooler that has no room for two cannot be asked
	}
	defer other.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it only took a turn
	tx, err := other.Begin(ctx)
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // it holds a process, and nothing else
	if _, err := tx.Exec(ctx, `select set_config('helix.mark', '', false)`); err != nil {
		return nil //nolint:nilerr // as above
	}
	var kept bool
	if err := c.QueryRow(ctx, `select coalesce(current_setting('helix.mark', true), '') = $1`, mark).Scan(&kept); err != nil {
		return err
	}
	if !kept {
		return fault.Invalidf("%s:%d is a pooler in transaction mode. Use its session mode (port 5432 at Supabase) or the direct address of the database.", c.Config().Host, c.Config().Port)
	}
	return nil
}
