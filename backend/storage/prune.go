package storage

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/identity"
)

// Retention declares how long the rows of a table are kept. The domain that owns the table declares
// it. Prune applies it to the rows of each user, together with the bounds of the policy.
type Retention struct {
	Table    string
	Time     string                         // column with microseconds that orders the rows
	Key      string                         // columns that identify a row; "": id. The number of rows is bounded only for id.
	Age      time.Duration                  // overrides the policy's age; 0: the policy's
	Payloads []string                       // JSON or text columns that are shortened to head and tail
	Only     string                         // SQL condition for the rows that may be removed; "": all
	Also     string                         // SQL condition for rows that are removed early; "": none
	Keep     func(*Tx) ([]uuid.UUID, error) // ids to keep; nil: none
}

const (
	pruneBatch  = 500
	pruneTime   = 50 * time.Millisecond // longest time that a batch may hold the writer
	payloadMax  = 64 << 10
	payloadKeep = 4 << 10 // bytes of the head and of the tail
	vacuumPages = 2000
	logRowBytes = 72 // bytes per row of change_log, measured
)

// Prune removes what exceeds the age or number that the retention settings allow. It never touches
// memories, tools, skills or memos.
func (s *Service) Prune(ctx context.Context, p PruneParams) (_ PruneResult, err error) {
	if p.DryRun { // it only reads, so it blocks no one
		return s.prune(ctx, []uuid.UUID{identity.UserID(ctx)}, true)
	}
	ctx, done, err := s.exclusive(ctx, "prune")
	if err != nil {
		return PruneResult{}, err
	}
	defer func() { done(err) }()
	return s.prune(ctx, []uuid.UUID{identity.UserID(ctx)}, false)
}

// pruner is one run of Prune.
type pruner struct {
	s       *Service
	pol     Policy
	dry     bool
	now     time.Time
	batch   int
	columns map[string][]string // of each existing table
	hub     bool                // with a hub, sync prunes the log and tombstones
	out     []PruneRow
}

func (s *Service) prune(ctx context.Context, users []uuid.UUID, dry bool) (PruneResult, error) {
	p := &pruner{s: s, pol: s.o.Policy(), dry: dry, now: s.o.Now(), batch: pruneBatch, columns: map[string][]string{}}
	if err := s.db.Read(ctx, func(tx *Tx) error {
		if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM sync_local WHERE hub IS NOT NULL)`).Scan(&p.hub); err != nil {
			return err
		}
		return eachRow(ctx, tx, `SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' ORDER BY 1, c.cid`, func(scan func(...any) error) error {
			var t, c string
			if err := scan(&t, &c); err != nil {
				return err
			}
			p.columns[t] = append(p.columns[t], c)
			return nil
		})
	}); err != nil {
		return PruneResult{}, err
	}
	for _, u := range users {
		for _, h := range s.o.Retention {
			if err := p.history(ctx, u, h); err != nil {
				return PruneResult{}, fmt.Errorf("prune %s: %w", h.Table, err)
			}
		}
		if err := p.trash(ctx, u); err != nil {
			return PruneResult{}, err
		}
	}
	for _, f := range []func(context.Context) error{p.changeLog, p.blobs, p.backups, p.replaced, p.shrink} {
		if err := f(ctx); err != nil {
			return PruneResult{}, err
		}
	}
	r := PruneResult{Tables: []PruneRow{}}
	for _, row := range p.out {
		if row.Rows > 0 {
			r.Tables = append(r.Tables, row)
		}
	}
	slices.SortFunc(r.Tables, func(a, b PruneRow) int { return strings.Compare(a.Table, b.Table) })
	return r, nil
}

func (p *pruner) count(table string, rows, bytes int64) {
	i := slices.IndexFunc(p.out, func(r PruneRow) bool { return r.Table == table })
	if i < 0 {
		p.out = append(p.out, PruneRow{Table: table})
		i = len(p.out) - 1
	}
	p.out[i].Rows += rows
	p.out[i].Bytes += bytes
}

// history applies the retention of one table to the rows of one user.
func (p *pruner) history(ctx context.Context, user uuid.UUID, h Retention) error {
	rows, age := p.pol.HistoryRows, p.pol.HistoryAge
	if h.Age > 0 {
		age = h.Age
	}
	at, key := quote(h.Time), "id"
	where, args := at+` < ?`, []any{user, p.now.Add(-age).UnixMicro()}
	if h.Also != "" {
		where += ` OR (` + h.Also + `)`
	}
	if h.Key != "" {
		key = h.Key
	} else if err := p.s.db.Read(ctx, func(tx *Tx) error { // the newest row beyond the limit
		var when int64
		var id []byte
		err := tx.QueryRow(`SELECT `+at+`, id FROM `+quote(h.Table)+` WHERE user_id = ? ORDER BY `+at+` DESC, id DESC LIMIT 1 OFFSET ?`, user, rows).Scan(&when, &id)
		if err == nil {
			where, args = where+` OR (`+at+`, id) <= (?, ?)`, append(args, when, id)
		}
		return ignoreNoRows(err)
	}); err != nil {
		return err
	}
	where = `user_id = ? AND (` + where + `)`
	if h.Only != "" {
		where += ` AND ` + h.Only
	}
	if h.Keep != nil {
		var keep []uuid.UUID
		err := p.s.db.Read(ctx, func(tx *Tx) (err error) {
			keep, err = h.Keep(tx)
			return err
		})
		if err != nil {
			return err
		}
		list := []string{}
		for _, id := range keep {
			list = append(list, hex.EncodeToString(id[:]))
		}
		text, err := json.Marshal(list)
		if err != nil {
			return err
		}
		where, args = where+` AND id NOT IN (SELECT unhex(value) FROM json_each(?))`, append(args, string(text))
	}
	if err := p.delete(ctx, h.Table, key, where, args...); err != nil {
		return err
	}
	old := p.now.Add(-p.pol.PayloadAge).UnixMicro()
	for _, c := range h.Payloads {
		if err := p.cut(ctx, user, h, c, old); err != nil {
			return err
		}
	}
	return nil
}

// delete removes the rows of table that match where, one batch per transaction, without logging the
// changes: what retention removes here stays on other devices until their own retention removes it.
// key is the columns that identify a row.
func (p *pruner) delete(ctx context.Context, table, key, where string, args ...any) error {
	size := []string{"40"} // bytes a row takes besides its values
	for _, c := range p.columns[table] {
		size = append(size, "coalesce(octet_length("+quote(c)+"), 0)")
	}
	sum := strings.Join(size, " + ")
	t := quote(table)
	if p.dry {
		var rows, bytes int64
		err := p.s.db.Read(ctx, func(tx *Tx) error {
			return tx.QueryRow(`SELECT count(*), coalesce(sum(`+sum+`), 0) FROM `+t+` WHERE `+where, args...).Scan(&rows, &bytes)
		})
		p.count(table, rows, bytes)
		return err
	}
	for {
		var rows, bytes int64
		err := p.turn(ctx, func(tx *Tx) error {
			pick := `SELECT ` + key + ` FROM ` + t + ` WHERE ` + where + ` LIMIT ` + fmt.Sprint(p.batch)
			if err := tx.QueryRow(`SELECT coalesce(sum(`+sum+`), 0) FROM `+t+` WHERE (`+key+`) IN (`+pick+`)`, args...).Scan(&bytes); err != nil {
				return err
			}
			r, err := tx.Exec(`DELETE FROM `+t+` WHERE (`+key+`) IN (`+pick+`)`, args...)
			if err != nil {
				return err
			}
			if rows, err = r.RowsAffected(); rows > 0 {
				publishMany(tx, table)
			}
			return err
		})
		if err != nil || rows == 0 {
			return err
		}
		p.count(table, rows, bytes)
	}
}

// turn runs one batch. It waits while a recording or a run is active, and keeps batches short so
// that other writes get their turn.
func (p *pruner) turn(ctx context.Context, fn func(*Tx) error) error {
	if err := p.s.untilIdle(ctx); err != nil {
		return err
	}
	var took time.Duration
	err := p.s.db.Write(ctx, func(tx *Tx) error {
		begin := time.Now()
		defer func() { took = time.Since(begin) }()
		return tx.WithoutCapture(func() error { return fn(tx) })
	})
	switch {
	case took > pruneTime && p.batch > 10:
		p.batch /= 2
	case took < pruneTime/4 && p.batch < pruneBatch:
		p.batch = min(pruneBatch, p.batch*2)
	}
	return err
}

// cutValue replaces a large payload. It is JSON because the column requires it.
type cutValue struct {
	Truncated bool   `json:"truncated"`
	Bytes     int    `json:"bytes"`
	Head      string `json:"head"`
	Tail      string `json:"tail"`
}

func cutPayload(v string) string {
	head, tail := v[:payloadKeep], v[len(v)-payloadKeep:]
	for len(head) > 0 && !utf8.ValidString(head) {
		head = head[:len(head)-1]
	}
	for len(tail) > 0 && !utf8.ValidString(tail) {
		tail = tail[1:]
	}
	b, err := json.Marshal(cutValue{Truncated: true, Bytes: len(v), Head: head, Tail: tail})
	if err != nil {
		return `{"truncated":true}`
	}
	return string(b)
}

// cut shortens large payloads of rows older than before.
func (p *pruner) cut(ctx context.Context, user uuid.UUID, h Retention, column string, before int64) error {
	t, c, name := quote(h.Table), quote(column), h.Table+"."+column
	where := ` WHERE user_id = ? AND ` + quote(h.Time) + ` < ? AND octet_length(` + c + `) > ?`
	if p.dry {
		var rows, bytes int64
		err := p.s.db.Read(ctx, func(tx *Tx) error {
			return tx.QueryRow(`SELECT count(*), coalesce(sum(octet_length(`+c+`) - ?), 0) FROM `+t+where, 2*payloadKeep, user, before, payloadMax).Scan(&rows, &bytes)
		})
		p.count(name, rows, bytes)
		return err
	}
	for {
		var rows, bytes int64
		err := p.turn(ctx, func(tx *Tx) error {
			type found struct {
				id []byte
				v  string
			}
			var list []found
			if err := eachRow(ctx, tx, `SELECT id, `+c+` FROM `+t+where+` LIMIT 50`, func(scan func(...any) error) error {
				var f found
				defer func() { list = append(list, f) }()
				return scan(&f.id, &f.v)
			}, bind([]any{user, before, payloadMax})...); err != nil {
				return err
			}
			for _, f := range list {
				short := cutPayload(f.v)
				if _, err := tx.Exec(`UPDATE `+t+` SET `+c+` = ? WHERE id = ?`, short, f.id); err != nil {
					return err
				}
				rows, bytes = rows+1, bytes+int64(len(f.v)-len(short))
			}
			return nil
		})
		if err != nil || rows == 0 {
			return err
		}
		p.count(name, rows, bytes)
	}
}

// trash purges tombstones. With a hub, sync purges them once all devices have seen them.
func (p *pruner) trash(ctx context.Context, user uuid.UUID) error {
	if p.hub {
		return nil
	}
	for _, t := range Synced {
		cols := p.columns[t.Table]
		if !slices.Contains(cols, "deleted_at") || !slices.Contains(cols, "user_id") {
			continue
		}
		if err := p.delete(ctx, t.Table, "id", `user_id = ? AND deleted_at < ?`, user, p.now.Add(-p.pol.TrashAge).UnixMicro()); err != nil {
			return fmt.Errorf("purge %s: %w", t.Table, err)
		}
	}
	return nil
}

// changeLog keeps only the newest entry per row if there is no hub to send the others to, and
// limits the size of the log.
func (p *pruner) changeLog(ctx context.Context) error {
	if p.hub {
		return nil
	}
	old, err := p.supersededChanges(ctx)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(old, pruneBatch) {
		list, err := json.Marshal(part)
		if err != nil {
			return err
		}
		if err := p.delete(ctx, "change_log", "seq", `seq IN (SELECT value FROM json_each(?))`, string(list)); err != nil {
			return err
		}
	}
	return p.delete(ctx, "change_log", "seq", `seq <= (SELECT seq FROM change_log ORDER BY seq DESC LIMIT 1 OFFSET ?)`, p.pol.ChangeLogMax/logRowBytes)
}

// supersededChanges lists the entries whose row has a newer entry, in one pass over the log, which
// has no index by row.
func (p *pruner) supersededChanges(ctx context.Context) (old []int64, err error) {
	type row struct {
		table string
		id    uuid.UUID
	}
	seen, names := map[row]bool{}, map[string]string{} // names: one shared copy of each table name
	err = p.s.db.Read(ctx, func(tx *Tx) error {
		return eachRow(ctx, tx, `SELECT seq, tbl, row_id FROM change_log ORDER BY seq DESC`, func(scan func(...any) error) error {
			var seq int64
			var table sql.RawBytes
			var id uuid.UUID
			if err := scan(&seq, &table, &id); err != nil {
				return err
			}
			name, ok := names[string(table)]
			if !ok {
				name = string(table)
				names[name] = name
			}
			r := row{name, id}
			if seen[r] {
				old = append(old, seq)
			}
			seen[r] = true
			return nil
		})
	})
	return old, err
}

const metaOrphans = "blob_orphans"

// blobs removes files that no row has referred to for a day. The meta table records since when.
func (p *pruner) blobs(ctx context.Context) error {
	var since map[string]int64
	var used map[[32]byte]BlobColumn
	if err := p.s.db.Read(ctx, func(tx *Tx) (err error) {
		if since, err = orphansSince(tx); err != nil {
			return err
		}
		used, err = blobReferences(ctx, tx)
		return err
	}); err != nil {
		return err
	}
	next := map[string]int64{}
	err := p.s.db.blobs.Each(func(ref Ref, put time.Time) error {
		if _, ok := used[ref.SHA256]; ok {
			return ctx.Err()
		}
		first, ok := since[ref.String()]
		first = max(first, put.Unix()) // stored again meanwhile: a row may be about to refer to it
		if !ok {
			first = p.now.Unix()
		}
		if p.now.Sub(time.Unix(first, 0)) < p.pol.BlobAge {
			next[ref.String()] = first
			return nil
		}
		p.count("blobs", 1, ref.Size)
		if p.dry {
			return nil
		}
		return p.s.db.blobs.Remove(ref)
	})
	if err != nil || p.dry {
		return err
	}
	b, err := json.Marshal(next)
	if err != nil {
		return err
	}
	return p.s.db.setMeta(ctx, metaOrphans, string(b))
}

// shrink returns free pages to the disk and empties the WAL.
func (p *pruner) shrink(ctx context.Context) error {
	if p.dry {
		return nil
	}
	if err := p.s.db.Write(ctx, func(tx *Tx) error {
		return eachRow(ctx, tx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", vacuumPages), func(func(...any) error) error { return nil })
	}); err != nil {
		return err
	}
	return p.s.db.checkpoint(ctx)
}

// publishMany publishes after the commit that rows of table changed.
func publishMany(tx *Tx, table string) {
	user := identity.UserID(tx.ctx)
	if user == uuid.Nil {
		user = tx.db.LocalUser().ID
	}
	tx.AfterCommit(func() { bus.Publish(tx.Bus(), user, Changed{Table: table, Many: true}) })
}
