package backend

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/skills"
)

// fakeDesktop is a window program that remembers what it was asked.
type fakeDesktop struct {
	state WindowState
	fails error
}

func (d *fakeDesktop) Activate(context.Context, []string) error { return nil }
func (d *fakeDesktop) Window() WindowState                      { return d.state }

func (d *fakeDesktop) SetAutostart(on bool) error {
	if d.fails == nil {
		d.state.Autostart = on
	}
	return d.fails
}

func (d *fakeDesktop) SetHotkey(keys string) HotkeyState {
	d.state.Hotkey = HotkeyState{Keys: keys, State: "active"}
	return d.state.Hotkey
}

func TestAppStateWithoutAWindow(t *testing.T) {
	t.Parallel()
	b := start(t)
	c := b.session(t)
	var s AppState
	c.call("app.state", struct{}{}, &s)
	if s.Visible || s.TrayHost || s.Autostart || s.Display != "none" || s.Hotkey.State != "unavailable" || s.Hotkey.Reason == "" || s.Platform == "" || s.PinnedSkills == nil {
		t.Errorf("state %+v", s)
	}
	for method, params := range map[string]any{"app.set_autostart": SetAutostartParams{true}, "app.set_hotkey": SetHotkeyParams{"Ctrl+A"}, "app.activate": map[string]any{"args": []string{}}} {
		if err := c.try(method, params, nil); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", method, err)
		}
	}
	var paused struct{ Paused bool }
	c.call("app.pause_background", PauseBackgroundParams{For: "forever"}, &paused)
	if c.call("app.state", struct{}{}, &s); !s.BackgroundPaused {
		t.Error("the pause is not in the state")
	}
}

func TestAppStateOfAWindow(t *testing.T) {
	t.Parallel()
	d := &fakeDesktop{state: WindowState{Visible: true, TrayHost: true, Display: "x11"}}
	o := testOptions(t.TempDir())
	o.Desktop = d
	b := startWith(t, o)
	c := b.session(t)
	var s AppState
	if c.call("app.set_autostart", SetAutostartParams{true}, &s); !s.Autostart || !s.Visible || s.Display != "x11" {
		t.Errorf("state %+v", s)
	}
	d.fails = errors.New("disk")
	if err := c.try("app.set_autostart", SetAutostartParams{false}, nil); err == nil {
		t.Error("an entry that could not be removed is no error")
	}
	var h HotkeyState
	if c.call("app.set_hotkey", SetHotkeyParams{"Ctrl+Shift+Space"}, &h); h.State != "active" || b.Config.Current().AppHotkey != "Ctrl+Shift+Space" {
		t.Errorf("hotkey %+v, setting %q", h, b.Config.Current().AppHotkey)
	}
}

func TestPinnedSkillsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	b := start(t)
	c := b.session(t)
	ids := make([]uuid.UUID, 12)
	for i := range ids {
		var made struct{ SkillID uuid.UUID }
		c.call("skills.create_composite", map[string]any{"skill": map[string]any{"name": "Skill " + string(rune('A'+i)), "steps": []any{map[string]any{"stepId": "s", "toolType": "transform", "value": 1}}}}, &made)
		ids[i] = made.SkillID
	}
	var got skills.PinnedResult
	names := func() (out string) {
		for _, k := range got.Skills {
			out += k.Name[len(k.Name)-1:]
		}
		return out
	}
	for _, id := range ids[:10] {
		c.call("app.pin_skill", skills.PinSkillParams{SkillID: id, Pinned: true}, &got)
	}
	if err := c.try("app.pin_skill", skills.PinSkillParams{SkillID: ids[10], Pinned: true}, nil); !fault.Is(err, fault.Limit) {
		t.Errorf("an eleventh skill: %v", err)
	}
	if err := c.try("app.pin_skill", skills.PinSkillParams{SkillID: uuid.New(), Pinned: true}, nil); !fault.Is(err, fault.NotFound) {
		t.Errorf("an unknown skill: %v", err)
	}
	first, far := 0, 99
	c.call("app.pin_skill", skills.PinSkillParams{SkillID: ids[3], Pinned: true, Position: &first}, &got)
	c.call("app.pin_skill", skills.PinSkillParams{SkillID: ids[0], Pinned: true, Position: &far}, &got)
	c.call("app.pin_skill", skills.PinSkillParams{SkillID: ids[1], Pinned: true}, &got) // stays
	if names() != "DBCEFGHIJA" {
		t.Errorf("order %s", names())
	}
	c.call("app.pin_skill", skills.PinSkillParams{SkillID: ids[4]}, &got)
	c.call("app.pin_skill", skills.PinSkillParams{SkillID: ids[4]}, &got) // again
	c.call("skills.delete_composite", map[string]any{"skillId": ids[5]}, nil)
	var s AppState
	c.call("app.state", struct{}{}, &s)
	if got.Skills = s.PinnedSkills; names() != "DBCGHIJA" {
		t.Errorf("after unpinning E and deleting F: %s", names())
	}
	c.call("skills.restore_composite", map[string]any{"skillId": ids[5]}, nil)
	c.call("app.state", struct{}{}, &s)
	if got.Skills = s.PinnedSkills; !slices.ContainsFunc(got.Skills, func(k skills.PinnedSkill) bool { return k.SkillID == ids[5] }) {
		t.Errorf("a restored skill lost its pin: %s", names())
	}
}
