package voice

import (
	"time"

	"github.com/google/uuid"

	"helix/backend/audio/capture"
)

// Modes of a recording.
const (
	ModeMemo    = "memo"    // the text is kept
	ModeCommand = "command" // the text is also matched with the commands
	ModeTalk    = "talk"    // the text is a turn of a conversation
)

// States of the microphone.
const (
	StateIdle       = "idle"
	StateListening  = "listening" // open, but nothing is kept except the pre-roll
	StateRecording  = "recording"
	StatePaused     = "paused"
	StateProcessing = "processing" // a recording is being stored or transcribed
	StateError      = "error"
)

// DevicesResult lists microphones.
type DevicesResult struct {
	Devices   []capture.Device `json:"devices"`
	Selected  string           `json:"selected,omitempty"` // id; empty: the default device
	Available bool             `json:"available"`
	Reason    string           `json:"reason,omitempty"` // why no microphone is available
}

// StartParams describe a recording.
type StartParams struct {
	Mode     string   `json:"mode,omitempty"`     // memo, command or talk; default memo
	DeviceID string   `json:"deviceId,omitempty"` // default: that of the settings
	Title    string   `json:"title,omitempty"`
	Tags     []string `json:"tags,omitempty"`   // at most 5
	MaxMs    int64    `json:"maxMs,omitempty"`  // the recording stops after this time; 0: it continues in a new recording after 4 hours
	Stream   bool     `json:"stream,omitempty"` // send partial transcripts, if the engine supports it
}

// StartResult identifies the recording.
type StartResult struct {
	RecordingID uuid.UUID `json:"recordingId"`
	StartedAt   time.Time `json:"startedAt"`
	PreRollMs   int64     `json:"preRollMs"` // sound from before the call that the recording contains
}

// StopParams identify the recording; without an id it is the active one.
type StopParams struct {
	RecordingID *uuid.UUID `json:"recordingId,omitempty"`
}

// StopResult is the state of a recording.
type StopResult struct {
	RecordingID uuid.UUID  `json:"recordingId"`
	MemoID      *uuid.UUID `json:"memoId,omitempty"` // of a stored recording
	DurationMs  int64      `json:"durationMs"`
	Status      string     `json:"status"` // recording, paused, pending, or canceled if it was shorter than 250 ms
}

// CancelResult contains the token for voice.undo_cancel; empty if nothing was recorded.
type CancelResult struct {
	UndoToken string `json:"undoToken"`
}

// UndoParams contain the token.
type UndoParams struct {
	UndoToken string `json:"undoToken"`
}

// ToggleParams select the mode of a recording that starts.
type ToggleParams struct {
	Mode string `json:"mode,omitempty"`
}

// ToggleResult is the new state.
type ToggleResult struct {
	State       string    `json:"state"`
	RecordingID uuid.UUID `json:"recordingId"`
}

// StatusResult describes the microphone and the queue.
type StatusResult struct {
	State       string       `json:"state"`
	RecordingID *uuid.UUID   `json:"recordingId,omitempty"`
	Mode        string       `json:"mode,omitempty"`
	ElapsedMs   int64        `json:"elapsedMs"` // without pauses
	PeakDB      float64      `json:"peakDb"`
	RMSDB       float64      `json:"rmsDb"`
	Queue       QueueChanged `json:"queue"`
	Engine      string       `json:"engine"`
	Microphone  Microphone   `json:"microphone"`
	Notice      string       `json:"notice,omitempty"` // what happened to the recording, such as a changed device
}

// Microphone tells whether recording is possible.
type Microphone struct {
	Available bool   `json:"available"`
	Reason    string `json:"reason,omitempty"`
	Open      bool   `json:"open"` // the device is in use
}

// LevelChanged is published 20 times a second during a recording.
type LevelChanged struct {
	RecordingID uuid.UUID `json:"recordingId"`
	PeakDB      float64   `json:"peakDb"`
	RMSDB       float64   `json:"rmsDb"`
	Clipped     bool      `json:"clipped"`
	Quiet       bool      `json:"quiet"` // nothing was heard for 3 s
	ElapsedMs   int64     `json:"elapsedMs"`
}

// StateChanged is published when the microphone or the active recording changes.
type StateChanged struct {
	State       string     `json:"state"`
	RecordingID *uuid.UUID `json:"recordingId,omitempty"`
	Mode        string     `json:"mode,omitempty"`
	Notice      string     `json:"notice,omitempty"`
}
