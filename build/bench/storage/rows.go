package main

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"helix/backend/storage"
	"helixbench/figures"
)

const insertOne = `INSERT INTO bench_rows (id, user_id, title, body, n, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?)`

var (
	user = uuid.New()
	body = strings.Repeat("Some text of a note, as people write it. ", 6)
)

// row returns the values of one row in a form that both drivers accept.
func row(id uuid.UUID, i int) []any {
	at := time.Now().UnixMicro()
	return []any{id[:], user[:], fmt.Sprint("title ", i), body, i, at, at}
}

func (b *bench) oneTx(w *sql.DB, fn func(tx *sql.Tx) error) {
	tx, err := w.BeginTx(b.ctx, nil)
	check(err)
	check(fn(tx))
	check(tx.Commit())
}

// durable measures one row per transaction, on disk when the call returns.
func (b *bench) durable() {
	o, w, r := b.pair("durable")
	defer o.Close()
	defer w.Close()
	defer r.Close()
	ours, theirs := versus(5, func() float64 {
		return rate(time.Second, func(i int) {
			check(o.Write(b.ctx, func(tx *storage.Tx) error { _, err := tx.Exec(insertOne, row(storage.NewID(), i)...); return err }))
		})
	}, func() float64 {
		return rate(time.Second, func(i int) {
			b.oneTx(w, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(b.ctx, insertOne, row(storage.NewID(), i)...)
				return err
			})
		})
	})
	figures.Print("durable_writes", ours, "1/s", ours/theirs, "mattn")
}

const perStatement, perTx = 25, 5000

func upsertSQL(n int) string {
	return `INSERT INTO bench_rows (id, user_id, title, body, n, created_at, updated_at) VALUES ` +
		strings.TrimSuffix(strings.Repeat("(?, ?, ?, ?, ?, ?, ?), ", n), ", ") +
		` ON CONFLICT (id) DO UPDATE SET title = excluded.title, body = excluded.body, n = excluded.n, updated_at = excluded.updated_at`
}

// bulk measures upserts of UUIDv7 keys, half of which exist.
func (b *bench) bulk() {
	o, w, r := b.pair("bulk")
	defer o.Close()
	defer w.Close()
	defer r.Close()
	ids := func() []uuid.UUID {
		out := make([]uuid.UUID, perTx)
		for i := range out {
			out[i] = storage.NewID()
		}
		return out
	}
	type execer func(query string, args ...any) error
	run := func(exec execer, list []uuid.UUID, n int) {
		q := upsertSQL(n)
		args := make([]any, 0, n*7)
		for i := 0; i < len(list); i += n {
			args = args[:0]
			for k := range n {
				args = append(args, row(list[i+k], i+k)...)
			}
			check(exec(q, args...))
		}
	}
	mine := func(n int, cost func(func()) float64) func() float64 {
		return func() float64 {
			list := ids()
			t := cost(func() {
				for range 2 { // insert, then update
					check(o.Write(b.ctx, func(tx *storage.Tx) error {
						run(func(q string, a ...any) error { _, err := tx.Exec(q, a...); return err }, list, n)
						return nil
					}))
				}
			})
			return 2 * perTx / t
		}
	}
	other := func(w *sql.DB, n int, cost func(func()) float64) func() float64 {
		return func() float64 {
			list := ids()
			t := cost(func() {
				for range 2 {
					b.oneTx(w, func(tx *sql.Tx) error {
						run(func(q string, a ...any) error { _, err := tx.ExecContext(b.ctx, q, a...); return err }, list, n)
						return nil
					})
				}
			})
			return 2 * perTx / t
		}
	}
	ours, theirs := versus(11, mine(perStatement, took), other(w, perStatement, took))
	figures.Print("bulk_upsert", ours, "rows/s", ours/theirs, "mattn")
	ours, theirs = versus(11, mine(perStatement, worked), other(w, perStatement, worked))
	figures.Print("bulk_upsert_cpu", ours, "rows/CPU s", ours/theirs, "mattn")
	// One row per statement, as database/sql runs it: parsed each time.
	plain := b.plain("bulk-plain")
	defer plain.Close()
	_, err := plain.Exec(tables)
	check(err)
	ours, theirs = versus(7, mine(perStatement, worked), other(plain, 1, worked))
	figures.Print("bulk_upsert_against_single", ours, "rows/CPU s", ours/theirs, "one row a statement, database/sql")
	// And as storage runs it, whose statement cache leaves little to gain: two thirds of the time
	// is SQLite's own work on the row, which is the same for both.
	ours, theirs = versus(7, mine(perStatement, worked), mine(1, worked))
	figures.Print("bulk_upsert_against_single_cached", ours, "rows/CPU s", ours/theirs, "one row a statement, storage.Tx")
}

// fill inserts n rows into both and returns their ids.
func (b *bench) fill(o *storage.DB, w *sql.DB, n int) []uuid.UUID {
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = storage.NewID()
	}
	check(o.Write(b.ctx, func(tx *storage.Tx) error {
		for i, id := range ids {
			if _, err := tx.Exec(insertOne, row(id, i)...); err != nil {
				return err
			}
		}
		return nil
	}))
	b.oneTx(w, func(tx *sql.Tx) error {
		for i, id := range ids {
			if _, err := tx.ExecContext(b.ctx, insertOne, row(id, i)...); err != nil {
				return err
			}
		}
		return nil
	})
	return ids
}

const selectOne = `SELECT title, body, n FROM bench_rows WHERE id = ?`

func (b *bench) readOurs(o *storage.DB, ids []uuid.UUID, rng *rand.Rand, n int) error {
	return o.Read(b.ctx, func(tx *storage.Tx) error {
		for range n {
			var title, body string
			var k int
			if err := tx.QueryRow(selectOne, ids[rng.IntN(len(ids))]).Scan(&title, &body, &k); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *bench) readTheirs(r *sql.DB, ids []uuid.UUID, rng *rand.Rand, n int) error {
	tx, err := r.BeginTx(b.ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for range n {
		var title, body string
		var k int
		id := ids[rng.IntN(len(ids))]
		if err := tx.QueryRowContext(b.ctx, selectOne, id[:]).Scan(&title, &body, &k); err != nil {
			return err
		}
	}
	return nil
}

// point measures rows by key, each in a transaction of its own, and a hundred in one.
func (b *bench) point() {
	o, w, r := b.pair("point")
	defer o.Close()
	defer w.Close()
	defer r.Close()
	ids := b.fill(o, w, 50_000)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name string
		n    int
	}{{"point_reads", 1}, {"point_reads_100_a_transaction", 100}} {
		ours, theirs := versus(7, func() float64 {
			return float64(c.n) * cpuRate(300*time.Millisecond, func(int) { check(b.readOurs(o, ids, rng, c.n)) })
		}, func() float64 {
			return float64(c.n) * cpuRate(300*time.Millisecond, func(int) { check(b.readTheirs(r, ids, rng, c.n)) })
		})
		figures.Print(c.name, ours, "1/s", ours/theirs, "mattn")
	}
}

// mixed measures four readers and one writer at once.
func (b *bench) mixed() {
	o, w, r := b.pair("mixed")
	defer o.Close()
	defer w.Close()
	defer r.Close()
	ids := b.fill(o, w, 50_000)
	var busy atomic.Int64
	run := func(read func(rng *rand.Rand) error, write func(i int) error) float64 {
		stop := make(chan struct{})
		var reads atomic.Int64
		var wg sync.WaitGroup
		for k := range 4 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(k), 9))
				for {
					select {
					case <-stop:
						return
					default:
					}
					if err := read(rng); err != nil {
						busy.Add(1)
					}
					reads.Add(1)
				}
			})
		}
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := write(i); err != nil {
					busy.Add(1)
				}
			}
		})
		begin := time.Now()
		time.Sleep(1500 * time.Millisecond)
		n := reads.Load()
		t := time.Since(begin).Seconds()
		close(stop)
		wg.Wait()
		return float64(n) / t
	}
	ours, theirs := versus(5, func() float64 {
		return run(func(rng *rand.Rand) error { return b.readOurs(o, ids, rng, 1) }, func(i int) error {
			return o.Write(b.ctx, func(tx *storage.Tx) error { _, err := tx.Exec(insertOne, row(storage.NewID(), i)...); return err })
		})
	}, func() float64 {
		mine := busy.Load()
		defer busy.Store(mine) // only ours count
		return run(func(rng *rand.Rand) error { return b.readTheirs(r, ids, rng, 1) }, func(i int) error {
			tx, err := w.BeginTx(b.ctx, nil)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(b.ctx, insertOne, row(storage.NewID(), i)...); err != nil {
				_ = tx.Rollback()
				return err
			}
			return tx.Commit()
		})
	})
	figures.Print("reads_4_readers_1_writer", ours, "1/s", ours/theirs, "mattn")
	figures.Print("busy_errors", float64(busy.Load()), "errors", 0, "-")
}

// fts measures the best 20 of 50,000 documents for two words.
func (b *bench) fts() {
	o, w, r := b.pair("fts")
	defer o.Close()
	defer w.Close()
	defer r.Close()
	rng := rand.New(rand.NewPCG(4, 4))
	zipf := rand.NewZipf(rng, 1.1, 5, 20_000)
	docs := make([]string, 50_000)
	for i := range docs {
		words := make([]string, 20+rng.IntN(40))
		for k := range words {
			words[k] = fmt.Sprintf("w%d", zipf.Uint64())
		}
		docs[i] = strings.Join(words, " ")
	}
	const doc, index = `INSERT INTO bench_docs (rowid, text) VALUES (?, ?)`, `INSERT INTO bench_fts (rowid, text) VALUES (?, ?)`
	check(o.Write(b.ctx, func(tx *storage.Tx) error {
		for i, d := range docs {
			for _, q := range []string{doc, index} {
				if _, err := tx.Exec(q, i+1, d); err != nil {
					return err
				}
			}
		}
		return nil
	}))
	b.oneTx(w, func(tx *sql.Tx) error {
		for i, d := range docs {
			for _, q := range []string{doc, index} {
				if _, err := tx.ExecContext(b.ctx, q, i+1, d); err != nil {
					return err
				}
			}
		}
		return nil
	})
	const find = `SELECT rowid, bm25(bench_fts) FROM bench_fts WHERE bench_fts MATCH ? ORDER BY rank LIMIT 20`
	words := func() string { return fmt.Sprintf("w%d OR w%d", 5+rng.IntN(200), 5+rng.IntN(200)) }
	ours, theirs := versus(7, func() float64 {
		return cpuRate(400*time.Millisecond, func(int) {
			check(o.Read(b.ctx, func(tx *storage.Tx) error {
				rows, err := tx.Query(find, words())
				if err != nil {
					return err
				}
				return drain(rows)
			}))
		})
	}, func() float64 {
		return cpuRate(400*time.Millisecond, func(int) {
			tx, err := r.BeginTx(b.ctx, &sql.TxOptions{ReadOnly: true})
			check(err)
			rows, err := tx.QueryContext(b.ctx, find, words())
			check(err)
			check(drain(rows))
			check(tx.Rollback())
		})
	})
	figures.Print("fts_two_words_top_20", ours, "1/s", ours/theirs, "mattn")
}

func drain(rows *sql.Rows) error {
	defer rows.Close()
	for rows.Next() {
		var id int64
		var score float64
		if err := rows.Scan(&id, &score); err != nil {
			return err
		}
	}
	return rows.Err()
}

// capture measures updates of a synced table against the same table without triggers and, as the
// best that SQLite can do, with a trigger that only appends a constant row. That row alone takes
// 1.5 to 1.65 times the time of the plain update: calling a trigger, the row, its checks and
// AUTOINCREMENT. The rest of a captured update is the set of changed fields, about 0.25, and the
// clock and transaction number, about 0.25.
func (b *bench) capture() {
	o := b.ours("capture")
	defer o.Close()
	const n = 2000
	ids := make([]uuid.UUID, n)
	check(o.Write(b.ctx, func(tx *storage.Tx) error {
		for _, t := range []string{"plain_tools", "bare_tools"} {
			if err := cloneTable(tx, "custom_tools", t); err != nil {
				return err
			}
		}
		if err := cloneTable(tx, "change_log", "bare_log"); err != nil {
			return err
		}
		if _, err := tx.Exec(`CREATE TRIGGER bare AFTER UPDATE OF description ON bare_tools BEGIN
			INSERT INTO bare_log (tbl, row_id, op, fields, hlc, txn, at) VALUES ('bare_tools', NEW.id, 'U', 2, 1, 1, 1); END`); err != nil {
			return err
		}
		for i := range ids {
			ids[i] = storage.NewID()
			for _, t := range []string{"custom_tools", "plain_tools", "bare_tools"} {
				if _, err := tx.Exec(`INSERT INTO `+t+` (id, user_id, name, code, definition_hash, created_at, updated_at) VALUES (?, ?, ?, ?, zeroblob(32), ?, ?)`,
					ids[i], o.LocalUser().ID, fmt.Sprint("tool ", i), body, tx.Now, tx.Now); err != nil {
					return err
				}
			}
		}
		return nil
	}))
	k := 0
	update := func(table string) func() float64 {
		return func() float64 {
			k++
			return worked(func() {
				check(o.Write(b.ctx, func(tx *storage.Tx) error {
					text := fmt.Sprint("text ", k)
					for _, id := range ids {
						if _, err := tx.Exec(`UPDATE `+table+` SET description = ?, updated_at = ? WHERE id = ?`, text, tx.Now, id); err != nil {
							return err
						}
					}
					return nil
				}))
			})
		}
	}
	single := func(table string) func() float64 {
		return func() float64 {
			k++
			return took(func() {
				for _, id := range ids[:50] {
					check(o.Write(b.ctx, func(tx *storage.Tx) error {
						_, err := tx.Exec(`UPDATE `+table+` SET description = ?, updated_at = ? WHERE id = ?`, fmt.Sprint("text ", k), tx.Now, id)
						return err
					}))
				}
			})
		}
	}
	const peer = "same table without triggers"
	with, without := versus(41, update("custom_tools"), update("plain_tools"))
	figures.Print("captured_update_in_one_transaction", with/n*1e6, "µs", with/without, peer)
	with, without = versus(41, update("bare_tools"), update("plain_tools"))
	figures.Print("bare_trigger_in_one_transaction", with/n*1e6, "µs", with/without, peer)
	with, without = versus(21, single("custom_tools"), single("plain_tools"))
	figures.Print("captured_update_durable", with/50*1e6, "µs", with/without, peer)
}

// cloneTable creates an empty copy of a table with its indexes and without its triggers.
func cloneTable(tx *storage.Tx, from, to string) error {
	rows, err := tx.Query(`SELECT sql FROM sqlite_master WHERE tbl_name = ? AND type IN ('table', 'index') AND sql IS NOT NULL ORDER BY type DESC`, from)
	if err != nil {
		return err
	}
	var ddl []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return errors.Join(err, rows.Close())
		}
		ddl = append(ddl, strings.ReplaceAll(s, from, to))
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, s := range ddl {
		if _, err := tx.Exec(s); err != nil {
			return err
		}
	}
	return nil
}

// seal measures encrypting and decrypting one value.
func (b *bench) seal() {
	o := b.ours("seal")
	defer o.Close()
	id := uuid.New()
	for _, n := range []int{300, 6 << 10} {
		plain := make([]byte, n)
		var xs []float64
		for range 9 {
			xs = append(xs, 1e6/cpuRate(100*time.Millisecond, func(int) {
				for range 100 {
					s, err := o.Keys().Seal("secrets", "value", id, plain)
					check(err)
					_, err = o.Keys().Unseal("secrets", "value", id, s)
					check(err)
				}
			})/100)
		}
		figures.Print(fmt.Sprintf("seal_unseal_%dB", n), median(xs), "µs", 0, "-")
	}
}
