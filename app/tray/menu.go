// Package tray is the icon in the notification area and its menu. Menu is a pure function of State;
// one driver for each system shows it. Only app imports it.
package tray

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// State is everything that the menu shows.
type State struct {
	GatewayRunning bool
	Sync           SyncState
	SyncCount      int // of Syncing, Offline and Conflicts

	TalkMode   bool
	Microphone bool // the build and the computer can record
	Recording  bool
	Recorded   time.Duration // so far

	Skills   []Entry // pinned, in the person's order
	Agents   []Entry // Active: working
	Channels []Entry // Active: connected

	Approvals     int
	Paused        bool // background work
	WindowVisible bool

	Jobs  int    // runs that are in progress
	Error string // a lasting problem, in a few words
}

// SyncState is what the menu says about sync.
type SyncState string

// The states of sync.
const (
	SyncOff       SyncState = "off"
	SyncCurrent   SyncState = "current"
	Syncing       SyncState = "syncing"
	SyncOffline   SyncState = "offline"
	SyncConflicts SyncState = "conflicts"
)

// Entry is one entry of a submenu.
type Entry struct {
	ID     string
	Name   string
	Active bool
}

// Item is one entry of the menu.
type Item struct {
	ID        string
	Label     string
	Enabled   bool
	Checked   bool
	Separator bool
	Children  []Item
}

// Ids of the menu's entries. Entries of submenus are skill:ID, agent:ID and channel:ID.
const (
	Header        = "header"
	GatewayStatus = "gateway-status"
	SyncStatus    = "sync-state"
	NewChat       = "new-chat"
	TalkMode      = "talk-mode"
	RecordMemo    = "record-memo"
	RunSkill      = "run-skill"
	Agents        = "agents-submenu"
	Channels      = "channels-submenu"
	Settings      = "settings"
	Approvals     = "approvals"
	Pause         = "pause-background"
	PauseHour     = "pause-background:1h"
	PauseTomorrow = "pause-background:tomorrow"
	PauseForever  = "pause-background:forever"
	Resume        = "resume-background"
	ShowWindow    = "show-window"
	Restart       = "restart-gateway"
	Quit          = "quit"

	AllSkills   = "run-skill:all"
	AllAgents   = "agents-submenu:all"
	AllChannels = "channels-submenu:all"

	noSkills   = "run-skill:none"
	noAgents   = "agents-submenu:none"
	noChannels = "channels-submenu:none"
)

// Most entries that a submenu shows before "Show all…".
const (
	maxSkills  = 10
	maxEntries = 20
)

// Menu returns the entries that s shows, in order.
func Menu(s State) []Item {
	return visible([]Item{
		{ID: Header, Label: "Helix"},
		{ID: GatewayStatus, Label: "Gateway: " + either(s.GatewayRunning, "Running", "Stopped")},
		syncItem(s),
		{Separator: true},
		button(NewChat, "New Chat"),
		{ID: TalkMode, Label: either(s.TalkMode, "Talk Mode (on)", "Talk Mode"), Enabled: s.Microphone || s.TalkMode, Checked: s.TalkMode},
		recordItem(s),
		submenu(RunSkill, "Run Skill", "skill:", s.Skills, maxSkills, plain, AllSkills, Item{ID: noSkills, Label: "No pinned skills"}),
		{Separator: true},
		submenu(Agents, "Agents", "agent:", s.Agents, maxEntries, dotted, AllAgents, Item{ID: noAgents, Label: "No agents configured"}),
		submenu(Channels, "Channels", "channel:", s.Channels, maxEntries, dotted, AllChannels, Item{ID: noChannels, Label: "No channels configured"}),
		{Separator: true},
		button(Settings, "Settings"),
		button(Approvals, counted("Approvals", s.Approvals)),
		{Separator: true},
		pauseItem(s),
		button(ShowWindow, either(s.WindowVisible, "Hide Window", "Show Window")),
		button(Restart, "Restart Gateway"),
		{Separator: true},
		button(Quit, "Quit Helix"),
	})
}

func button(id, label string) Item { return Item{ID: id, Label: label, Enabled: true} }

func either(on bool, yes, no string) string {
	if on {
		return yes
	}
	return no
}

func counted(label string, n int) string {
	if n == 0 {
		return label
	}
	return fmt.Sprintf("%s (%d)", label, n)
}

func syncItem(s State) Item {
	it := Item{ID: SyncStatus}
	switch s.Sync {
	case SyncCurrent:
		it.Label = "Sync: Up to date"
	case Syncing:
		it.Label = counted("Sync: Syncing", s.SyncCount)
	case SyncOffline:
		it.Label = "Sync: Offline"
		if s.SyncCount > 0 {
			it.Label = fmt.Sprintf("Sync: Offline (%d waiting)", s.SyncCount)
		}
	case SyncConflicts:
		it.Label = fmt.Sprintf("Sync: %d %s", s.SyncCount, either(s.SyncCount == 1, "conflict", "conflicts"))
		it.Enabled = true
	default:
		it.Label = "Sync: Off"
	}
	return it
}

// recordItem is empty, and so left out, where nothing can be recorded.
func recordItem(s State) Item {
	switch {
	case s.Recording:
		sec := int(s.Recorded / time.Second)
		return button(RecordMemo, fmt.Sprintf("Stop Recording (%d:%02d)", sec/60, sec%60))
	case s.Microphone:
		return button(RecordMemo, "Record Voice Memo")
	}
	return Item{}
}

func pauseItem(s State) Item {
	if s.Paused {
		return button(Resume, "Resume Background Work")
	}
	it := button(Pause, "Pause Background Work")
	it.Children = []Item{button(PauseHour, "For 1 hour"), button(PauseTomorrow, "Until tomorrow"), button(PauseForever, "Until I resume")}
	return it
}

func submenu(id, label, prefix string, entries []Entry, limit int, show func(Entry) string, all string, empty Item) Item {
	it := button(id, label)
	for _, e := range entries[:min(len(entries), limit)] {
		it.Children = append(it.Children, button(prefix+e.ID, show(e)))
	}
	switch {
	case len(entries) == 0:
		it.Children = []Item{empty}
	case len(entries) > limit:
		it.Children = append(it.Children, button(all, "Show all…"))
	}
	return it
}

func plain(e Entry) string { return label(e.Name) }

// dotted marks the state by shape, so that it can be seen without color.
func dotted(e Entry) string { return either(e.Active, "● ", "○ ") + label(e.Name) }

// maxLabel is the longest name in the menu, in characters.
const maxLabel = 60

// label makes a name safe for a menu: one line without control characters, and without marks that
// would change the direction of the text after it.
func label(name string) string {
	name = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r):
			return ' '
		case unicode.Is(unicode.Cf, r), r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, name)), " ")
	if r := []rune(name); len(r) > maxLabel {
		return string(r[:maxLabel-1]) + "…"
	}
	return name
}

func visible(items []Item) []Item {
	out := items[:0]
	for _, it := range items {
		if it.ID != "" || it.Separator {
			out = append(out, it)
		}
	}
	return out
}

// Look is what the icon shows.
type Look string

// The looks of the icon, which differ in shape.
const (
	Idle       Look = "idle"
	Listening  Look = "listening"
	Processing Look = "processing"
	Failed     Look = "failed"
)

// Appearance returns the icon and the tooltip of s.
func Appearance(s State) (look Look, tooltip string) {
	switch {
	case s.Error != "":
		return Failed, "Helix: " + label(s.Error)
	case s.Recording || s.TalkMode:
		return Listening, "Helix: listening"
	case s.Jobs > 0:
		return Processing, fmt.Sprintf("Helix: working (%d)", s.Jobs)
	}
	return Idle, "Helix"
}
