package storage

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"github.com/google/uuid"

	"helix/backend/fault"
)

// resealBatch is how many rows are encrypted with a new data key in one transaction.
const resealBatch = 200

// resealedTo is the meta key of the number of the data key that all values are encrypted with.
const resealedTo = "keys.resealed_to"

// Run does the background work of the keys until ctx ends: it counts uses, retires a data key after
// 2³¹ uses, and encrypts rows with the current one in small batches. It returns nil when ctx ends.
func (k *Keys) Run(ctx context.Context) error {
	for {
		if err := fault.Catch(func() error { return k.work(ctx) }); err != nil && ctx.Err() == nil {
			k.at.Load().log.Error("background work on the keys", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.wake:
		}
	}
}

func (k *Keys) work(ctx context.Context) error {
	if k.Locked() {
		return nil
	}
	if err := k.countUses(ctx); err != nil {
		return err
	}
	return k.reseal(ctx)
}

// countUses reserves the next block of uses, and retires a key that has reached its limit.
func (k *Keys) countUses(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.ring.Load()
	if r == nil || k.left.Load() > useBlock/2 {
		return nil
	}
	if err := k.reserve(ctx, r.current); err != nil {
		return err
	}
	var uses int64
	if err := k.read(ctx, func(tx *Tx) error {
		return tx.QueryRow(`SELECT uses FROM data_keys WHERE no = ?`, int64(r.current)).Scan(&uses)
	}); err != nil {
		return err
	}
	if uses < maxUses {
		return nil
	}
	return k.addDataKey(ctx, r.root, r, nil)
}

// rotate retires the data key now and wakes Run, which encrypts the rows again.
func (k *Keys) rotate(ctx context.Context) (uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.ring.Load()
	if r == nil {
		return 0, errLocked()
	}
	if err := k.addDataKey(ctx, r.root, r, func(tx *Tx, no uint64) error {
		return k.at.Load().o.Audit.write(tx, "auth.keys_rotated", map[string]any{"no": no})
	}); err != nil {
		return 0, err
	}
	k.nudge()
	return k.ring.Load().current, nil
}

// reseal encrypts every sealed value with the current data key. A crash loses nothing: old data
// keys are kept, and the next Run continues with the values that still use one.
func (k *Keys) reseal(ctx context.Context) error {
	r := k.ring.Load()
	done, err := k.doneTo(ctx)
	if err != nil || done >= r.current {
		return err
	}
	if len(r.keys) > 1 {
		for _, c := range Sealed {
			if err := k.resealColumn(ctx, c); err != nil {
				return fmt.Errorf("reseal %s.%s: %w", c.Table, c.Column, err)
			}
		}
	}
	return k.write(ctx, func(tx *Tx) error {
		_, err := tx.Exec(`INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`, resealedTo, strconv.FormatUint(r.current, 10))
		return err
	})
}

func (k *Keys) doneTo(ctx context.Context) (no uint64, err error) {
	err = k.read(ctx, func(tx *Tx) error {
		var text string
		err := tx.QueryRow(`SELECT value FROM meta WHERE key = ?`, resealedTo).Scan(&text)
		if err != nil {
			return ignoreNoRows(err)
		}
		no, err = strconv.ParseUint(text, 10, 64)
		return err
	})
	return no, err
}

type sealedValue struct {
	id  uuid.UUID
	old []byte
}

func (k *Keys) resealColumn(ctx context.Context, c SealedColumn) error {
	var last uuid.UUID
	for first := true; ; first = false {
		var batch []sealedValue
		err := k.read(ctx, func(tx *Tx) error {
			var err error
			batch, err = Collect(tx.Select(`SELECT `+c.id()+`, `+c.Column+` FROM `+c.Table+`
				WHERE typeof(`+c.Column+`) = 'blob' AND (? OR `+c.id()+` > ?) ORDER BY `+c.id()+` LIMIT ?`, first, last[:], resealBatch), func(row Row) (v sealedValue, err error) {
				err = row.Scan(&v.id, &v.old)
				return v, err
			})
			return err
		})
		if err != nil || len(batch) == 0 {
			return err
		}
		last = batch[len(batch)-1].id
		if err := k.resealBatch(ctx, c, batch); err != nil {
			return err
		}
		crashPoint("keys.batch")
	}
}

// resealBatch encrypts again the values of batch that use an old key. A value that was written
// meanwhile is skipped because it uses the current key. One that cannot be decrypted is logged and
// left unchanged.
func (k *Keys) resealBatch(ctx context.Context, c SealedColumn, batch []sealedValue) error {
	return k.write(ctx, func(tx *Tx) error {
		return tx.WithoutCapture(func() error {
			current := k.ring.Load().current
			for _, v := range batch {
				if no, _, ok := splitSealed(v.old); !ok || no == current {
					continue
				}
				plain, err := k.Unseal(c.Table, c.Column, v.id, v.old)
				if err != nil {
					k.at.Load().log.Error("reseal", "table", c.Table, "column", c.Column, "id", v.id, "err", err)
					continue
				}
				fresh, err := k.Seal(c.Table, c.Column, v.id, plain)
				clear(plain)
				if err != nil {
					return err
				}
				if _, err := tx.Exec(`UPDATE `+c.Table+` SET `+c.Column+` = ? WHERE `+c.id()+` = ? AND `+c.Column+` = ?`, fresh, v.id, v.old); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func (c SealedColumn) id() string {
	if c.ID == "" {
		return "id"
	}
	return c.ID
}

// returnUnusedCounts subtracts the uses that were counted in advance and not needed. Close calls it
// while it holds the writer's turn. A count that is too high does no harm.
func (k *Keys) returnUnusedCounts(w *sql.DB) {
	r := k.ring.Load()
	left := k.left.Swap(0)
	if r == nil || left <= 0 {
		return
	}
	if _, err := w.Exec(`UPDATE data_keys SET uses = max(0, uses - ?) WHERE no = ?`, left, int64(r.current)); err != nil {
		k.at.Load().log.Warn("give back counted uses", "err", err)
	}
}

// rewrap wraps the data keys with another root key.
func (k *Keys) rewrap(ctx context.Context, from, to []byte) error {
	old, err := newAEAD(from)
	if err != nil {
		return err
	}
	fresh, err := newAEAD(to)
	if err != nil {
		return err
	}
	return k.write(ctx, func(tx *Tx) error {
		next := map[uint64][]byte{}
		err := tx.Select(`SELECT no, wrapped FROM data_keys`).Each(func(row Row) error {
			var no uint64
			var wrapped []byte
			if err := row.Scan(&no, &wrapped); err != nil {
				return err
			}
			key, ok := openWrapped(old, no, wrapped)
			if !ok {
				return badSeal("data_keys", "wrapped", fmt.Errorf("data key %d", no))
			}
			var err error
			next[no], err = seal(fresh, 0, "data_keys", "wrapped", wrapID(no), key)
			return err
		})
		if err != nil {
			return err
		}
		for no, wrapped := range next {
			if _, err := tx.Exec(`UPDATE data_keys SET wrapped = ? WHERE no = ?`, wrapped, int64(no)); err != nil {
				return err
			}
		}
		return nil
	})
}

// unlock tries each of roots. It reports whether one of them unwraps the data keys.
func (k *Keys) unlock(ctx context.Context, roots [][]byte) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	db := k.at.Load()
	if db == nil {
		return false, errNoDatabase()
	}
	for _, root := range roots {
		r, err := db.openRing(ctx, root)
		if err != nil {
			return false, err
		}
		if r == nil {
			continue
		}
		if err := k.use(ctx, r); err != nil {
			return false, err
		}
		k.nudge()
		return true, db.afterUnlock(ctx)
	}
	return false, nil
}

// afterUnlock does what a locked start had to skip.
func (db *DB) afterUnlock(ctx context.Context) error {
	d, err := db.ensureDevice(ctx, db.LocalUser().ID)
	if err != nil {
		return err
	}
	db.who.Store(&whoami{user: db.LocalUser(), device: d})
	return nil
}
