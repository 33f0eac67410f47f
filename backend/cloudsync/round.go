package cloudsync

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/storage"
)

// Round counts what one exchange with the hub did.
type Round struct {
	Pushed      int `json:"pushed"`
	Pulled      int `json:"pulled"`
	Merged      int `json:"merged"`
	Conflicts   int `json:"conflicts"`
	DeadLetters int `json:"deadLetters"`
}

// Applied is published when rows from other devices were stored.
type Applied struct {
	Rows int `json:"rows"`
}

// CoordinateParams select what to exchange.
type CoordinateParams struct {
	// Action is now, push or pull; default now, which does both.
	Action string `json:"action,omitempty"`
}

// CoordinateResult reports what an exchange did.
type CoordinateResult struct {
	Status State `json:"status"`
	Round
	Cursor     string `json:"cursor"`
	DurationMS int64  `json:"durationMs"`
}

// Coordinate exchanges changes with the hub immediately.
func (s *Service) Coordinate(ctx context.Context, p CoordinateParams) (CoordinateResult, error) {
	switch p.Action {
	case "", "now", "push", "pull":
	default:
		return CoordinateResult{}, fault.Invalidf("action: %.32q is not one of now, push and pull.", p.Action)
	}
	begin := time.Now()
	r, err := s.exchange(ctx, p.Action)
	if err != nil {
		return CoordinateResult{}, err
	}
	st, err := s.Status(ctx, struct{}{})
	return CoordinateResult{Status: st.State, Round: r, Cursor: st.Cursor, DurationMS: time.Since(begin).Milliseconds()}, err
}

// exchange runs one exchange with the hub. Status reports its error until the next one.
func (s *Service) exchange(ctx context.Context, action string) (r Round, err error) {
	err = s.exclusive(ctx, func() (err error) {
		defer func() { s.ended(ctx, err, r) }()
		h, l, err := s.reach(ctx)
		if err != nil {
			return err
		}
		if err = s.exchangeOn(ctx, h, l, action, &r); err == nil {
			s.counts.add(r)
			err = s.heartbeat(ctx, h)
		}
		if err != nil {
			if c := connection(h); c != nil && c.IsClosed() {
				s.conn = nil
			}
			return hubError(l.hub.Host, err)
		}
		return nil
	})
	return r, err
}

// maxTurns limits the retries per exchange while other devices write the same rows. The next
// exchange continues.
const maxTurns = 20

func (s *Service) exchangeOn(ctx context.Context, h link, l local, action string, r *Round) error {
	s.heard = 0 // of an earlier exchange, perhaps with another hub
	again, err := s.checkHorizon(ctx, l)
	if err != nil {
		return err
	}
	if again {
		if err := s.adoptKeys(ctx, h, &l); err != nil {
			return err
		}
	}
	former, err := s.hasFormer(ctx)
	if err != nil {
		return err
	}
	if action != "push" || former || again {
		if err := s.pull(ctx, h, r); err != nil {
			return err
		}
	}
	if action == "pull" {
		return nil
	}
	if l.greeting.MinWrite > SchemaVersion {
		return errTooOld
	}
	c := connection(h)
	files := c != nil || l.greeting.Calls
	if c != nil {
		if err := s.pushFresh(ctx, c, r); err != nil {
			return err
		}
	}
	before := Round{}
	for turns := 0; turns < maxTurns; {
		n, err := s.packageChanges(ctx)
		if err != nil {
			return err
		}
		stale, err := s.push(ctx, h, r)
		if err != nil {
			return err
		}
		if stale {
			turns++
			if err := s.pull(ctx, h, r); err != nil {
				return err
			}
			if err := s.fetchStale(ctx, h, r); err != nil {
				return err
			}
		} else if n == 0 {
			done, more := false, false
			if files {
				if done, more, err = s.sendBlobs(ctx, h, l); err != nil {
					return err
				}
				if !done && !more && c != nil {
					if more, err = s.sendVectors(ctx, c, l, *r != before); err != nil {
						return err
					}
					before = *r
				}
			}
			if !done && !more {
				break
			}
			if err := s.pull(ctx, h, r); err != nil { // a large blob must not hold up other devices' changes
				return err
			}
		}
	}
	if files {
		if err := s.keepBlobs(ctx, h, l, r); err != nil {
			return err
		}
	}
	if c != nil {
		if err := s.learnDevices(ctx, c); err != nil {
			return err
		}
		if err := s.pruneHub(ctx, c); err != nil {
			return err
		}
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`INSERT INTO sync_cursor (one, synced_at, acked) VALUES (1, ?, ?) ON CONFLICT (one) DO UPDATE SET synced_at = excluded.synced_at, acked = max(acked, excluded.acked)`, tx.Now, s.heard)
		return err
	})
}

var errTooOld = fault.Deniedf("The hub takes no changes from this version of Helix. Update Helix on this device; its changes are kept until then.")

// fetchStale fetches rows whose push was rejected as stale and that the feed did not return,
// because this device had already read past their entries.
func (s *Service) fetchStale(ctx context.Context, h link, r *Round) error {
	stale, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) ([]rowKey, error) {
		return storage.Collect(tx.Select(`SELECT tbl, row_id FROM sync_outbox WHERE attempts > 0 AND parked = 0`), scanKey)
	})
	if err != nil {
		return err
	}
	for _, k := range stale {
		if _, ok := s.table(k.table); !ok {
			continue
		}
		x, err := h.row(ctx, k)
		if err != nil {
			return err
		}
		if x != nil {
			if err := s.applyPage(ctx, []remote{*x}, 0, r); err != nil {
				return err
			}
		}
	}
	return nil
}

func jsonText(v any) string {
	b, _ := json.Marshal(v) // cannot fail: plain values
	return string(b)
}

// registration is the hub's answer when a device registers.
type registration struct {
	ID        uuid.UUID `json:"id"`
	UserID    uuid.UUID `json:"userId"`
	HubID     uuid.UUID `json:"-"`
	DeviceID  uuid.UUID `json:"deviceId"`
	Site      int64     `json:"site"`
	Role      string    `json:"role"`
	Password  string    `json:"password"`
	Channel   string    `json:"channel"`
	ExpiresAt time.Time `json:"expiresAt"`
}
