package psychology

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

const (
	maxReviews = 50                  // planned per item
	overdueFor = 30 * 24 * time.Hour // how long a missed review is listed
	reviewsAct = "psychology reviews"
)

// PlanReviewsParams sets when an item is to be reviewed.
type PlanReviewsParams struct {
	ID uuid.UUID   `json:"id"` // of a memory or an entry
	At []time.Time `json:"at"` // in the future, at most 50, one per day; they replace the planned ones
}

// PlanReviewsResult contains the planned reviews, and a token to undo the change.
type PlanReviewsResult struct {
	Reviews   []time.Time `json:"reviews"`
	UndoToken string      `json:"undoToken,omitempty"`
}

// plannedUndo holds the previously planned reviews of an item.
type plannedUndo struct {
	ID uuid.UUID   `json:"id"`
	At []time.Time `json:"at"`
}

// PlanReviews stores when a person plans to review a memory or an entry. Forecasts take the plan
// into account, and the list of fading items includes what is due. The plan itself reinforces
// nothing. It can be undone.
func (s *Service) PlanReviews(ctx context.Context, p PlanReviewsParams) (out PlanReviewsResult, err error) {
	if len(p.At) > maxReviews {
		return out, fault.InvalidField("at", fault.CodeRange, "You can plan at most %d reviews of one item.", maxReviews)
	}
	return out, s.db.Write(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		for _, at := range p.At {
			if !at.After(tx.Now) || at.Sub(tx.Now) > longest {
				return fault.InvalidField("at", fault.CodeRange, "A review must be planned for a day in the next two years.")
			}
		}
		conf, err := settings(tx, user)
		if err != nil {
			return err
		}
		if _, _, err := s.find(tx, conf, &p.ID, 0); err != nil {
			return err
		}
		before, err := planned(tx, user, p.ID)
		if err != nil {
			return err
		}
		if err := s.plan(tx, user, p.ID, p.At); err != nil {
			return err
		}
		if out.Reviews, err = planned(tx, user, p.ID); err != nil {
			return err
		}
		token, err := tx.KeepUndo(user, reviewsAct, plannedUndo{p.ID, before})
		out.UndoToken = undoPrefix + token
		s.changed(tx, user, nil, p.ID)
		return err
	})
}

// planned returns the future reviews of an item.
func planned(tx *storage.Tx, user, id uuid.UUID) (out []time.Time, err error) {
	out = []time.Time{}
	return out, tx.Select(`SELECT at FROM planned_reviews WHERE user_id = ? AND item_id = ? AND at > ? AND deleted_at IS NULL ORDER BY at`, user, id, tx.Now).Each(func(r storage.Row) error {
		var at time.Time
		err := r.Scan(storage.Time(&at))
		out = append(out, at)
		return err
	})
}

// plan replaces the future reviews of an item.
func (s *Service) plan(tx *storage.Tx, user, item uuid.UUID, at []time.Time) error {
	if _, err := tx.Exec(`UPDATE planned_reviews SET deleted_at = ?1, updated_at = ?1 WHERE user_id = ?2 AND item_id = ?3 AND at > ?1 AND deleted_at IS NULL`, tx.Now, user, item); err != nil {
		return err
	}
	for _, t := range at {
		id := uuid.NewSHA1(s.db.IDSpace(user), []byte("review "+item.String()+" "+t.UTC().Format(time.DateOnly)))
		if _, err := tx.Exec(`INSERT INTO planned_reviews (id, user_id, item_id, at, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?5)
			ON CONFLICT (id) DO UPDATE SET at = excluded.at, updated_at = excluded.updated_at, deleted_at = NULL`, id, user, item, t, tx.Now); err != nil {
			return err
		}
	}
	return nil
}

// undoPlan restores the previously planned reviews.
func (s *Service) undoPlan(tx *storage.Tx, user uuid.UUID, state []byte) error {
	var was plannedUndo
	if err := json.Unmarshal(state, &was); err != nil {
		return err
	}
	s.changed(tx, user, nil, was.ID)
	return s.plan(tx, user, was.ID, slices.DeleteFunc(was.At, func(at time.Time) bool { return !at.After(tx.Now) }))
}

// dueReviews lists the items with a review planned before end, including missed ones of the last 30
// days. Items that no longer exist are skipped.
func (s *Service) dueReviews(tx *storage.Tx, user uuid.UUID, conf Settings, end time.Time) (out []FadingItem, err error) {
	type review struct {
		item uuid.UUID
		at   time.Time
	}
	list, err := storage.Collect(tx.Select(`SELECT item_id, at FROM planned_reviews WHERE user_id = ? AND at BETWEEN ? AND ? AND deleted_at IS NULL ORDER BY at, id`, user, tx.Now.Add(-overdueFor), end), func(r storage.Row) (x review, err error) {
		return x, r.Scan(&x.item, storage.Time(&x.at))
	})
	for _, x := range list {
		of, it, err := s.find(tx, conf, &x.item, 0)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !of.anchor.Before(x.at.Truncate(24 * time.Hour)) { // the review was made
			continue
		}
		it.Retention = conf.retention(of, tx.Now)
		out = append(out, FadingItem{Item: it, At: x.at, Cause: Cause{Code: CauseReview}, Reason: "You planned to review it on this day.", Review: true})
	}
	return out, err
}
