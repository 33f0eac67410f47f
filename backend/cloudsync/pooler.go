package cloudsync

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"helix/backend/fault"
)

const poolerTime = 5 * time.Second

// checkPooler returns an error if c goes through a pooler in transaction mode. Such a pooler runs
// each transaction on an arbitrary server process, so notifications and session state are lost. A
// pooler is detected by a backend process id that differs from the one announced at connect, and
// its mode by whether a session setting of c survives while another connection is using the pooler.
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
		return nil //nolint:nilerr // the pooler has no room for a second connection, so its mode is unknown
	}
	defer other.Close(context.WithoutCancel(ctx)) //nolint:errcheck // used only for the check
	tx, err := other.Begin(ctx)
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // only occupies a server process
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
