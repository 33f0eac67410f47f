-- +goose Up

-- Skills in the menu of the tray icon of this computer, in the person's order.
CREATE TABLE pinned_skills (
    user_id  BLOB NOT NULL CHECK (length(user_id) = 16),
    skill_id BLOB NOT NULL REFERENCES composite_skills (id) ON DELETE CASCADE,
    position INTEGER NOT NULL CHECK (position >= 0),
    PRIMARY KEY (user_id, skill_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX pinned_skills_skill ON pinned_skills (skill_id);
