package backend

import (
	"context"
	"runtime"
	"slices"

	"helix/backend/config"
	"helix/backend/fault"
	"helix/backend/pause"
	"helix/backend/skills"
	"helix/backend/voice"
)

// Desktop is the window program around a backend.
type Desktop interface {
	// Activate shows the window and follows the links in args.
	Activate(ctx context.Context, args []string) error
	Window() WindowState
	// SetAutostart writes or removes the entry of the system that starts Helix with the computer.
	SetAutostart(enabled bool) error
	// SetHotkey registers keys for the whole desktop; "" is none.
	SetHotkey(keys string) HotkeyState
}

// WindowState is what only the window program knows.
type WindowState struct {
	Visible bool `json:"visible"`
	Focused bool `json:"focused"`
	// TrayHost reports whether the tray icon is visible somewhere, so that the window may be hidden.
	TrayHost bool `json:"trayHost"`
	// Autostart is whether Helix starts with the computer, as the system has it.
	Autostart bool        `json:"autostart"`
	Hotkey    HotkeyState `json:"hotkey"`
	// Notices is why the desktop shows no notifications; "": it does.
	Notices string `json:"noticesReason,omitempty"`
	// Display is the window system: x11, wayland, windows or macos; none without a window.
	Display string `json:"display"`
}

// HotkeyState is the state of the hotkey.
type HotkeyState struct {
	Keys   string `json:"keys"`
	State  string `json:"state"`            // off, active or unavailable
	Code   string `json:"code,omitempty"`   // taken, unsupported or invalid, if it is unavailable
	Reason string `json:"reason,omitempty"` // why it is unavailable
}

// AppState is the state of the program around the backend.
type AppState struct {
	WindowState
	TalkMode         bool                 `json:"talkMode"`
	Recording        bool                 `json:"recording"`
	BackgroundPaused bool                 `json:"backgroundPaused"`
	Platform         string               `json:"platform"` // linux, windows or darwin
	PinnedSkills     []skills.PinnedSkill `json:"pinnedSkills"`
}

// noWindow explains why a headless backend cannot do what needs a window.
func noWindow() *fault.Error { return fault.Unavailablef("This backend has no window.") }

// AppState returns the state of the window program. Without one, nothing is visible, and there is
// no tray, autostart or hotkey.
func (b *Backend) AppState(ctx context.Context, _ struct{}) (AppState, error) {
	s := AppState{Platform: runtime.GOOS, WindowState: WindowState{Display: "none", Hotkey: HotkeyState{State: "unavailable", Reason: noWindow().Message}}}
	if b.o.Desktop != nil {
		s.WindowState = b.o.Desktop.Window()
	}
	s.BackgroundPaused = slices.Contains(b.Pause.State().Reasons, pause.Person)
	v, err := b.Voice.Status(ctx, struct{}{})
	if err != nil {
		return AppState{}, err
	}
	s.TalkMode = v.Mode == voice.ModeTalk
	s.Recording = v.RecordingID != nil && !s.TalkMode
	s.PinnedSkills, err = b.Skills.Pinned(ctx)
	return s, err
}

// SetAutostartParams switch autostart on or off.
type SetAutostartParams struct {
	Enabled bool `json:"enabled"`
}

// SetAutostart makes Helix start with the computer, hidden, or stops that. It returns the state as
// the system has it afterwards.
func (b *Backend) SetAutostart(ctx context.Context, p SetAutostartParams) (AppState, error) {
	if b.o.Desktop == nil {
		return AppState{}, noWindow()
	}
	if err := b.o.Desktop.SetAutostart(p.Enabled); err != nil {
		return AppState{}, fault.As(err)
	}
	return b.AppState(ctx, struct{}{})
}

// SetHotkeyParams set the keys of the hotkey.
type SetHotkeyParams struct {
	Keys string `json:"keys"` // such as Ctrl+Shift+Space; "": none
}

// SetHotkey sets the keys that start and stop a voice recording anywhere on the desktop. If they
// cannot be registered, the state says why, and the setting keeps them for another desktop.
func (b *Backend) SetHotkey(ctx context.Context, p SetHotkeyParams) (HotkeyState, error) {
	if b.o.Desktop == nil {
		return HotkeyState{}, noWindow()
	}
	if len(p.Keys) > 100 {
		return HotkeyState{}, fault.InvalidField("keys", fault.CodeRange, "keys can have at most 100 characters.")
	}
	if _, err := b.Config.Set(ctx, config.SetParams{Values: map[string]any{"app.hotkey": p.Keys}}); err != nil {
		return HotkeyState{}, err
	}
	return b.o.Desktop.SetHotkey(p.Keys), nil
}
