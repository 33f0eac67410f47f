package voice

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/trash"
)

const (
	maxCommands   = 2000
	maxParams     = 16 << 10
	firstAccept   = 0.8 // default of triggerConfidence
	leastAccept   = 0.5
	maxCandidates = 5
)

// navigationTargets are the screens that a command can open.
var navigationTargets = []string{"activity", "approvals", "chat", "insights", "memory", "psychology", "schedules", "settings", "skills", "sync", "tools", "trash", "voice"}

// systemActions are what commands can do with the recorder, with their risk tiers.
var systemActions = map[string]string{"stop": RiskLow, "pause": RiskLow, "new_memo": RiskLow, "undo": RiskMedium, "read_last": RiskLow}

var systemOrder = []string{"stop", "pause", "new_memo", "undo", "read_last"}

var tiers = []string{RiskLow, RiskMedium, RiskHigh}

func higher(a, b string) string { return tiers[max(slices.Index(tiers, a), slices.Index(tiers, b))] }

// command is a row of voice_commands with what is derived from it.
type command struct {
	Command
	hash   string // definition of the target when the command was saved
	phrase phrase
	target callable.Info
}

const commandColumns = `SELECT id, name, trigger_phrase, trigger_confidence, action_type, tool_id, skill_id, navigation_target, system_action, action_params, target_hash, risk_tier, enabled, usage_count, last_used, updated_at
	FROM voice_commands WHERE user_id = ? AND deleted_at IS NULL`

func scanCommand(row storage.Row) (c command, err error) {
	var params string
	if err := row.Scan(&c.ID, &c.Name, &c.TriggerPhrase, &c.TriggerConfidence, &c.ActionType, &c.ToolID, &c.SkillID, &c.NavigationTarget, &c.SystemAction, &params, &c.hash, &c.RiskTier, &c.Enabled, &c.UsageCount,
		storage.TimePtr(&c.LastUsed), storage.Time(&c.UpdatedAt)); err != nil {
		return c, err
	}
	c.ActionParams = json.RawMessage(params)
	c.Slots = []Slot{}
	if c.phrase, err = parsePhrase(c.TriggerPhrase); err != nil {
		c.Problem = fault.As(err).Message // of another version of Helix
		return c, nil
	}
	c.Slots = c.phrase.slots
	return c, nil
}

// allCommands reads the caller's commands by name.
func allCommands(tx *storage.Tx) (out []command, err error) {
	err = tx.Select(commandColumns+` ORDER BY name, id`, identity.UserID(tx.Context())).Each(func(row storage.Row) error {
		c, err := scanCommand(row)
		out = append(out, c)
		return err
	})
	return out, err
}

// triggerList is the commands that triggers read last, and the text in which they came.
type triggerList struct {
	mu    sync.Mutex
	lines string
	list  []command
}

// triggers reads what matching needs of the caller's enabled commands, which the caller must not change. It
// runs for every spoken command, so that they come as the lines of one row, which costs a third of as many
// rows, and are parsed only if the text has changed.
func (s *Service) triggers(tx *storage.Tx) (out []command, err error) {
	var lines string
	if err := tx.QueryRow(`SELECT coalesce(group_concat(hex(id) || ' ' || trigger_confidence || ' ' || json_quote(trigger_phrase), char(10)), '') FROM voice_commands WHERE user_id = ? AND deleted_at IS NULL AND enabled`,
		identity.UserID(tx.Context())).Scan(&lines); err != nil || lines == "" {
		return nil, err
	}
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	if lines == s.known.lines {
		return s.known.list, nil
	}
	for line := range strings.SplitSeq(lines, "\n") {
		id, rest, _ := strings.Cut(line, " ")
		confidence, quoted, _ := strings.Cut(rest, " ")
		c := command{Command: Command{Enabled: true}}
		if c.ID, err = uuid.Parse(id); err != nil {
			return nil, err
		}
		if c.TriggerConfidence, err = strconv.ParseFloat(confidence, 64); err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(quoted), &c.TriggerPhrase); err != nil {
			return nil, err
		}
		if c.phrase, err = parsePhrase(c.TriggerPhrase); err != nil {
			continue // of another version of Helix; lists show the problem
		}
		c.Slots = c.phrase.slots
		out = append(out, c)
	}
	s.known.lines, s.known.list = lines, out
	return out, nil
}

func oneCommand(tx *storage.Tx, id uuid.UUID) (command, error) {
	c, err := scanCommand(tx.QueryRow(commandColumns+` AND id = ?`, identity.UserID(tx.Context()), id))
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.NotFoundf("Command not found.")
	}
	return c, err
}

// ref returns what a command calls.
func (c *command) ref() (kind callable.Kind, id string) {
	if c.ActionType == ActionSkill {
		return callable.Skill, c.SkillID
	}
	if k, id, ok := strings.Cut(c.ToolID, ":"); ok {
		return callable.Kind(k), id
	}
	return callable.Tool, c.ToolID
}

// resolve finds the target of a command, its risk tier and why it can't run.
func (s *Service) resolve(ctx context.Context, c *command) error {
	switch c.ActionType {
	case ActionNavigation:
		if !slices.Contains(navigationTargets, c.NavigationTarget) {
			c.Problem = "This version of Helix has no such screen."
		}
		return nil
	case ActionSystem:
		tier, ok := systemActions[c.SystemAction]
		if !ok {
			c.Problem = "This version of Helix has no such action."
			return nil
		}
		c.RiskTier = higher(c.RiskTier, tier)
		return nil
	}
	kind, id := c.ref()
	found, err := s.o.Callables.Find(ctx, kind, id, "")
	if err != nil {
		return err
	}
	switch {
	case len(found) == 0 || found[0].Blocked == callable.ReasonForeign:
		c.Problem, c.RiskTier = "The "+c.ActionType+" no longer exists.", RiskHigh
		return nil
	case found[0].Blocked == callable.ReasonDisabled:
		c.Problem = "The " + c.ActionType + " is disabled."
	case found[0].Blocked == callable.ReasonDraft:
		c.Problem = "The " + c.ActionType + " is a draft with errors."
	case c.hash != found[0].Hash:
		c.Problem = "The " + c.ActionType + " has changed since the command was saved. Check the command and save it again."
	}
	c.target = found[0]
	c.RiskTier = higher(c.RiskTier, targetTier(found[0].Effects))
	return nil
}

// targetTier returns the risk tier of a callable.
func targetTier(e callable.Effects) string {
	switch {
	case e.Destructive || e.OpenWorld && !e.ReadOnly:
		return RiskHigh
	case e.ReadOnly:
		return RiskLow
	}
	return RiskMedium
}

// ListCommands lists the caller's commands, with why any of them can't run.
func (s *Service) ListCommands(ctx context.Context, _ struct{}) (out CommandList, err error) {
	out = CommandList{Commands: []Command{}, NavigationTargets: navigationTargets, SystemActions: systemOrder}
	list, err := s.readCommands(ctx)
	for i := range list {
		if err := s.resolve(ctx, &list[i]); err != nil {
			return out, err
		}
		out.Commands = append(out.Commands, list[i].Command)
	}
	return out, err
}

func (s *Service) readCommands(ctx context.Context) (list []command, err error) {
	return storage.Result(ctx, s.db.Read, allCommands)
}

// CreateCommand adds a command.
func (s *Service) CreateCommand(ctx context.Context, p CreateCommandParams) (Command, error) {
	c := command{Command: Command{ID: storage.NewID(), TriggerConfidence: firstAccept, Enabled: true, ActionParams: json.RawMessage("{}")}}
	return s.saveCommand(ctx, c, UpdateCommandParams{
		Name: &p.Name, TriggerPhrase: &p.TriggerPhrase, TriggerConfidence: p.TriggerConfidence, ActionType: &p.ActionType, ToolID: &p.ToolID, SkillID: &p.SkillID,
		NavigationTarget: &p.NavigationTarget, SystemAction: &p.SystemAction, ActionParams: p.ActionParams, RiskTier: &p.RiskTier, Enabled: p.Enabled,
	})
}

// UpdateCommand changes a command.
func (s *Service) UpdateCommand(ctx context.Context, p UpdateCommandParams) (out Command, err error) {
	c, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (command, error) { return oneCommand(tx, p.CommandID) })
	if err != nil {
		return out, err
	}
	return s.saveCommand(ctx, c, p)
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// saveCommand applies p to a command, checks it and stores it.
func (s *Service) saveCommand(ctx context.Context, c command, p UpdateCommandParams) (out Command, err error) {
	set(&c.Name, p.Name)
	set(&c.TriggerPhrase, p.TriggerPhrase)
	set(&c.TriggerConfidence, p.TriggerConfidence)
	set(&c.ActionType, p.ActionType)
	set(&c.ToolID, p.ToolID)
	set(&c.SkillID, p.SkillID)
	set(&c.NavigationTarget, p.NavigationTarget)
	set(&c.SystemAction, p.SystemAction)
	set(&c.Enabled, p.Enabled)
	set(&c.RiskTier, p.RiskTier)
	if len(p.ActionParams) > 0 {
		c.ActionParams = p.ActionParams
	}
	wanted := cmp.Or(c.RiskTier, RiskLow)
	if err := s.checkCommand(&c); err != nil {
		return out, err
	}
	c.RiskTier, c.Problem = RiskLow, ""
	if err := s.resolve(ctx, &c); err != nil {
		return out, err
	}
	if c.target.ID == "" && c.Problem != "" {
		return out, fault.InvalidField(targetField[c.ActionType], fault.CodeInvalid, "%s", c.Problem)
	}
	if p.RiskTier != nil && *p.RiskTier != "" && higher(wanted, c.RiskTier) != wanted {
		return out, fault.InvalidField("riskTier", fault.CodeRange, "The risk tier can't be lower than that of the target, which is %s.", c.RiskTier)
	}
	c.RiskTier, c.hash = higher(wanted, c.RiskTier), c.target.Hash
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		list, err := allCommands(tx)
		if err != nil {
			return err
		}
		if err := checkUnique(list, c); err != nil {
			return err
		}
		if len(list) >= maxCommands && !slices.ContainsFunc(list, func(o command) bool { return o.ID == c.ID }) {
			return fault.Limitf("There are %d commands already. Delete one first.", maxCommands)
		}
		c.UpdatedAt = tx.Now
		_, err = tx.Exec(`INSERT INTO voice_commands (id, user_id, name, trigger_phrase, trigger_confidence, action_type, tool_id, skill_id, navigation_target, system_action, action_params, target_hash, risk_tier, enabled, created_at, updated_at)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?15)
			ON CONFLICT (id) DO UPDATE SET name = excluded.name, trigger_phrase = excluded.trigger_phrase, trigger_confidence = excluded.trigger_confidence, action_type = excluded.action_type, tool_id = excluded.tool_id,
				skill_id = excluded.skill_id, navigation_target = excluded.navigation_target, system_action = excluded.system_action, action_params = excluded.action_params, target_hash = excluded.target_hash,
				risk_tier = excluded.risk_tier, enabled = excluded.enabled, updated_at = excluded.updated_at`,
			c.ID, identity.UserID(ctx), c.Name, c.TriggerPhrase, c.TriggerConfidence, c.ActionType, c.ToolID, c.SkillID, c.NavigationTarget, c.SystemAction, string(c.ActionParams), c.hash, c.RiskTier, c.Enabled, tx.Now)
		return err
	})
	if err != nil {
		return out, err
	}
	if c.Problem = ""; c.target.ID != "" {
		if err := s.resolve(ctx, &c); err != nil {
			return out, err
		}
	}
	return c.Command, nil
}

// checkUnique returns an error if another command of the list has the phrase of c.
func checkUnique(list []command, c command) error {
	for _, o := range list {
		if o.ID != c.ID && o.phrase.key() == c.phrase.key() && o.phrase.size > 0 {
			return fault.InvalidField("triggerPhrase", fault.CodeInvalid, "The command %q has this phrase already.", o.Name)
		}
	}
	return nil
}

var targetField = map[string]string{ActionTool: "toolId", ActionSkill: "skillId", ActionNavigation: "navigationTarget", ActionSystem: "systemAction"}

// checkCommand checks the fields of a command and parses its phrase.
func (s *Service) checkCommand(c *command) (err error) {
	c.Name, c.TriggerPhrase = strings.TrimSpace(c.Name), strings.TrimSpace(c.TriggerPhrase)
	if n := utf8.RuneCountInString(c.Name); n < 1 || n > maxTitle || !utf8.ValidString(c.Name) {
		return fault.InvalidField("name", fault.CodeRange, "A name has 1 to %d characters.", maxTitle)
	}
	if c.phrase, err = parsePhrase(c.TriggerPhrase); err != nil {
		return err
	}
	c.Slots = c.phrase.slots
	if t := c.TriggerConfidence; math.IsNaN(t) || t < leastAccept || t > 1 {
		return fault.InvalidField("triggerConfidence", fault.CodeRange, "triggerConfidence must be %g to 1.", leastAccept)
	}
	if c.RiskTier != "" && !slices.Contains(tiers, c.RiskTier) {
		return fault.InvalidField("riskTier", fault.CodeRange, "riskTier must be low, medium or high.")
	}
	targets := map[string]string{ActionTool: c.ToolID, ActionSkill: c.SkillID, ActionNavigation: c.NavigationTarget, ActionSystem: c.SystemAction}
	target, ok := targets[c.ActionType]
	switch {
	case !ok:
		return fault.InvalidField("actionType", fault.CodeRange, "actionType must be tool, skill, navigation or system.")
	case target == "" || len(target) > maxTitle:
		return fault.InvalidField(targetField[c.ActionType], fault.CodeInvalid, "A command of the type %s needs %s.", c.ActionType, targetField[c.ActionType])
	}
	var params map[string]any
	dec := json.NewDecoder(bytes.NewReader(c.ActionParams))
	if err := dec.Decode(&params); err != nil || params == nil || len(c.ActionParams) > maxParams {
		return fault.InvalidField("actionParams", fault.CodeInvalid, "actionParams must be a JSON object of at most %d KiB.", maxParams>>10)
	}
	return nil
}

// DeleteCommand moves a command to the trash.
func (s *Service) DeleteCommand(ctx context.Context, p CommandParams) (out Command, err error) {
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		c, err := oneCommand(tx, p.CommandID)
		if err != nil {
			return err
		}
		out = c.Command
		user := identity.UserID(ctx)
		if _, err := tx.Exec(`UPDATE voice_commands SET deleted_at = ?1, updated_at = ?1 WHERE id = ?2 AND user_id = ?3`, tx.Now, p.CommandID, user); err != nil {
			return err
		}
		return trash.Deleted(tx, user, p.CommandID)
	})
	return out, err
}

// CommandTrash describes deleted commands to the trash.
func (s *Service) CommandTrash() trash.Kind {
	return trash.Kind{
		Name: "command",
		Rows: `SELECT id, name, trigger_phrase AS text, deleted_at FROM voice_commands WHERE user_id = ?1 AND deleted_at IS NOT NULL`,
		Restore: func(ctx context.Context, id uuid.UUID) error {
			return s.db.Write(ctx, func(tx *storage.Tx) error {
				if _, err := tx.Exec(`UPDATE voice_commands SET deleted_at = NULL, updated_at = ? WHERE id = ? AND user_id = ? AND deleted_at IS NOT NULL`, tx.Now, id, identity.UserID(ctx)); err != nil {
					return err
				}
				c, err := oneCommand(tx, id)
				if err != nil {
					return err
				}
				list, err := allCommands(tx)
				if err != nil {
					return err
				}
				return checkUnique(list, c)
			})
		},
		Purge: func(tx *storage.Tx, id uuid.UUID) error {
			_, err := tx.Exec(`DELETE FROM voice_commands WHERE id = ? AND user_id = ? AND deleted_at IS NOT NULL`, id, identity.UserID(tx.Context()))
			return err
		},
	}
}
