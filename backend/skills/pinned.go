package skills

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// maxPinned is how many skills the menu of the tray icon can show.
const maxPinned = 10

// PinSkillParams pin a skill to the menu of the tray icon, or unpin it.
type PinSkillParams struct {
	SkillID uuid.UUID `json:"skillId"`
	Pinned  bool      `json:"pinned"`
	// Position is the skill's place among the pinned ones, from 0; absent: a new one goes to the end,
	// another stays where it is.
	Position *int `json:"position,omitempty"`
}

// PinnedSkill is a skill in the menu of the tray icon.
type PinnedSkill struct {
	SkillID uuid.UUID `json:"skillId"`
	Name    string    `json:"name"`
}

// PinnedResult lists the pinned skills in order.
type PinnedResult struct {
	Skills []PinnedSkill `json:"skills"`
}

// PinsChanged is published when the pinned skills or their order changed.
type PinsChanged struct{}

// PinSkill pins a skill to the menu of the tray icon, moves it there, or unpins it. At most 10
// skills can be pinned; each device has its own.
func (s *Service) PinSkill(ctx context.Context, p PinSkillParams) (out PinnedResult, err error) {
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		all, err := pinned(tx, user)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(all, func(k PinnedSkill) bool { return k.SkillID == p.SkillID })
		if at < 0 && !p.Pinned {
			out.Skills = all
			return nil
		}
		skill := PinnedSkill{SkillID: p.SkillID}
		if at >= 0 {
			skill = all[at]
			all = slices.Delete(all, at, at+1)
		} else {
			row, err := ownSkill(tx, p.SkillID)
			if err != nil {
				return err
			}
			skill.Name = row.name
			at = len(all)
			if len(all) >= maxPinned {
				return fault.Limitf("At most %d skills can be pinned. Unpin another one first.", maxPinned)
			}
		}
		if p.Position != nil {
			at = *p.Position
		}
		if p.Pinned {
			all = slices.Insert(all, max(0, min(at, len(all))), skill)
		}
		out.Skills = all
		tx.AfterCommit(func() { bus.Publish(s.db.Bus(), user, PinsChanged{}) })
		return setPinnedSkills(tx, user, all)
	})
	return out, err
}

// Pinned lists the skills in the menu of the tray icon, in order.
func (s *Service) Pinned(ctx context.Context) (all []PinnedSkill, err error) {
	return storage.Result(ctx, s.db.Read, func(tx *storage.Tx) ([]PinnedSkill, error) { return pinned(tx, identity.UserID(ctx)) })
}

// pinned leaves out skills in the trash, which keep their place.
func pinned(tx *storage.Tx, user uuid.UUID) ([]PinnedSkill, error) {
	return storage.Collect(tx.Select(`SELECT p.skill_id, k.name FROM pinned_skills p JOIN composite_skills k ON k.id = p.skill_id
		WHERE p.user_id = ? AND k.user_id = p.user_id AND k.deleted_at IS NULL ORDER BY p.position, p.skill_id`, user), func(row storage.Row) (k PinnedSkill, err error) {
		err = row.Scan(&k.SkillID, &k.Name)
		return k, err
	})
}

func setPinnedSkills(tx *storage.Tx, user uuid.UUID, all []PinnedSkill) error {
	// Skills in the trash come back at their old place, so only the others are replaced.
	if _, err := tx.Exec(`DELETE FROM pinned_skills WHERE user_id = ? AND skill_id IN (SELECT id FROM composite_skills WHERE deleted_at IS NULL)`, user); err != nil {
		return err
	}
	for i, k := range all {
		if _, err := tx.Exec(`INSERT INTO pinned_skills (user_id, skill_id, position) VALUES (?, ?, ?)`, user, k.SkillID, i); err != nil {
			return err
		}
	}
	return nil
}
