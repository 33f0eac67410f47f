package cloudsync

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// link is the way to the hub that an exchange uses: a connection to the database, or HTTPS where a firewall
// blocks the database.
type link interface {
	caller
	hello(ctx context.Context, p map[string]any) (greeting, error)
	// page returns the entries of the feed after a position, and the position that they end at.
	page(ctx context.Context, after int64) (page []remote, end int64, err error)
	ack(ctx context.Context, seq int64) error
	// send pushes rows in one transaction on the hub. before is the head of the feed before the push.
	send(ctx context.Context, batch []sent) (before int64, answers []answer, err error)
	// row reads one row of a synced table; nil if the hub does not have it.
	row(ctx context.Context, k rowKey) (*remote, error)
	heartbeat(ctx context.Context, platform, state string, counts map[string]any) error
}

// caller calls one of hubCalls and decodes its result into out, which may be nil.
type caller interface {
	call(ctx context.Context, name string, out any, args ...any) error
}

// hubCalls are the functions of the hub for keys and files. Over HTTPS, sync_call calls them.
var hubCalls = map[string]string{
	"keys":        `app.keys()`,
	"publish_box": `app.publish_box($1, $2, $3)`,
	"add_key":     `app.add_key($1, $2, $3, $4)`,
	"blob":        `(select jsonb_build_object('chunk', chunk_size, 'count', cardinality(digests), 'complete', complete) from public.blobs where user_id = app.uid() and blob_id = $1)`,
	"blob_begin":  `sync.blob_begin($1, $2, $3, $4)`,
	"blob_put":    `sync.blob_put($1, $2, $3)`,
	"blob_get":    `sync.blob_get($1, $2)`,
	"blob_used":   `sync.blob_used($1)`,
}

// direct is a connection to the hub's database.
type direct struct {
	s *Service
	c *pgx.Conn
}

// call transfers chunks in the binary format, at half the size of the text format.
func (d direct) call(ctx context.Context, name string, out any, args ...any) error {
	return d.c.QueryRow(ctx, `select `+hubCalls[name], append([]any{pgx.QueryExecModeDescribeExec}, args...)...).Scan(out)
}

func (d direct) hello(ctx context.Context, p map[string]any) (g greeting, err error) {
	return g, callJSON(ctx, d.c, `select sync.hello($1::jsonb)`, &g, jsonText(p))
}

func (d direct) page(ctx context.Context, after int64) (page []remote, end int64, err error) {
	return fetchPage(ctx, d.c, after)
}

func (d direct) ack(ctx context.Context, seq int64) error {
	_, err := d.c.Exec(ctx, `select sync.ack($1)`, seq)
	return err
}

func (d direct) send(ctx context.Context, batch []sent) (before int64, answers []answer, err error) {
	if len(batch) > callRows {
		return d.s.stage(ctx, d.c, batch)
	}
	return d.s.callPush(ctx, d.c, batch, 0)
}

func (d direct) row(ctx context.Context, k rowKey) (*remote, error) {
	x := remote{rowKey: k}
	err := d.c.QueryRow(ctx, `select m.dot, m.hlc, to_jsonb(m) - 'user_id' from public.`+k.table+` m where m.user_id = app.uid() and m.id = $1`, k.id).Scan(&x.dot, &x.hlc, &x.row)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return &x, err
}

func (d direct) heartbeat(ctx context.Context, platform, state string, counts map[string]any) error {
	_, err := d.c.Exec(ctx, `select sync.heartbeat($1, $2, $3::jsonb)`, platform, state, jsonText(counts))
	return err
}

// connection returns the database connection of h; nil if h is HTTPS.
func connection(h link) *pgx.Conn {
	d, _ := h.(direct)
	return d.c
}
