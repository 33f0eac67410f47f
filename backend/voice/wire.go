package voice

import (
	"time"

	"github.com/google/uuid"

	"helix/backend/audio"
	"helix/backend/transcribe"
)

// EnginesResult lists engines.
type EnginesResult struct {
	Engines []transcribe.Info `json:"engines"`
}

// UploadParams describe an existing recording, given as bytes, as a blob of the caller or as a
// file.
type UploadParams struct {
	AudioBase64 string     `json:"audioBase64,omitempty"` // at most 10 MiB when decoded
	BlobSHA256  string     `json:"blobSha256,omitempty"`
	Path        string     `json:"path,omitempty"` // a file, or the token of an upload
	Title       string     `json:"title,omitempty"`
	Sender      string     `json:"sender,omitempty"`     // who left the recording, which makes it a voicemail
	Tags        []string   `json:"tags,omitempty"`       // at most 5
	RecordedAt  *time.Time `json:"recordedAt,omitempty"` // default: now
	Engine      string     `json:"engine,omitempty"`     // default: that of the settings
	Language    string     `json:"language,omitempty"`   // default: that of the settings
	Model       string     `json:"model,omitempty"`
}

// UploadResult identifies the stored recording. It is transcribed later.
type UploadResult struct {
	MemoID      uuid.UUID `json:"memoId"`
	RecordingID uuid.UUID `json:"recordingId"`
	Status      string    `json:"status"` // pending
}

// Memo is a recording with its text.
type Memo struct {
	ID             uuid.UUID  `json:"id"`
	RecordingID    uuid.UUID  `json:"recordingId"`
	Title          string     `json:"title"`
	Tags           []string   `json:"tags"`
	Status         string     `json:"status"` // pending, processing, completed or failed
	Error          string     `json:"error,omitempty"`
	Text           string     `json:"text"` // of the current transcript; shortened in lists
	Language       string     `json:"language,omitempty"`
	Format         string     `json:"format"`
	Size           int64      `json:"size"` // bytes
	DurationMs     *int64     `json:"durationMs,omitempty"`
	LostMs         int64      `json:"lostMs,omitempty"` // duration of sound that could not be decoded
	HasAudio       bool       `json:"hasAudio"`         // the sound is stored on this device
	AudioSHA256    string     `json:"audioSha256,omitempty"`
	SoundDeletedAt *time.Time `json:"soundDeletedAt,omitempty"` // retention moved the sound to the trash, where it stays for 30 days; pin the memo to restore it
	Pinned         bool       `json:"pinned"`                   // retention keeps the sound
	Recovered      bool       `json:"recovered,omitempty"`      // Helix ended unexpectedly during the recording
	RecordedAt     time.Time  `json:"recordedAt"`
	UpdatedAt      time.Time  `json:"updatedAt"`
}

// ListParams filter memos.
type ListParams struct {
	Query  string     `json:"query,omitempty"` // words of the text, title or tags
	Tags   []string   `json:"tags,omitempty"`  // all of these
	From   *time.Time `json:"from,omitempty"`
	To     *time.Time `json:"to,omitempty"`
	Status string     `json:"status,omitempty"`
	// Limit is 1 to 200; default 50.
	Limit  int `json:"limit,omitempty"`
	Offset int `json:"offset,omitempty"`
}

// ListResult is a page of memos, newest first.
type ListResult struct {
	Memos  []Memo `json:"memos"`
	Total  int    `json:"total"`
	Limit  int    `json:"limit"`
	Offset int    `json:"offset"`
}

// MemoParams identify a memo.
type MemoParams struct {
	MemoID uuid.UUID `json:"memoId"`
}

// UpdateParams change a memo. Omitted fields stay unchanged.
type UpdateParams struct {
	MemoID uuid.UUID `json:"memoId"`
	Title  *string   `json:"title,omitempty"`
	Tags   *[]string `json:"tags,omitempty"`
	Pinned *bool     `json:"pinned,omitempty"`
}

// RecordingParams identify a recording.
type RecordingParams struct {
	RecordingID uuid.UUID `json:"recordingId"`
}

// Version is one transcript of a recording.
type Version struct {
	ID        uuid.UUID `json:"id"`
	Engine    string    `json:"engine"` // person if a person edited the text
	Model     string    `json:"model,omitempty"`
	Language  string    `json:"language,omitempty"`
	Text      string    `json:"text"`
	Current   bool      `json:"current"`
	CreatedAt time.Time `json:"createdAt"`
}

// Transcript is the current text of a recording with its words, and its versions, newest first.
type Transcript struct {
	RecordingID uuid.UUID         `json:"recordingId"`
	Text        string            `json:"text"`
	Words       []transcribe.Word `json:"words"`
	Engine      string            `json:"engine"`
	Model       string            `json:"model,omitempty"`
	Language    string            `json:"language,omitempty"`
	Confidence  float64           `json:"confidence,omitempty"`
	Versions    []Version         `json:"versions"`
}

// EditParams change the text of a recording.
type EditParams struct {
	RecordingID uuid.UUID `json:"recordingId"`
	Text        string    `json:"text"`
}

// TranscribeParams request another transcript.
type TranscribeParams struct {
	RecordingID uuid.UUID `json:"recordingId"`
	Engine      string    `json:"engine,omitempty"`
	Language    string    `json:"language,omitempty"`
	Model       string    `json:"model,omitempty"`
}

// TranscribeResult identifies the job.
type TranscribeResult struct {
	JobID  uuid.UUID `json:"jobId"`
	Status string    `json:"status"`
}

// ProcessParams describe a recording to transcribe while the caller waits: a stored one, or its
// bytes or file.
type ProcessParams struct {
	RecordingID *uuid.UUID `json:"recordingId,omitempty"`
	AudioBase64 string     `json:"audioBase64,omitempty"` // at most 10 MiB when decoded
	Path        string     `json:"path,omitempty"`        // a file, or the token of an upload
	Title       string     `json:"title,omitempty"`
	// Mode is transcribe, command (run the command that was said) or both; default transcribe.
	Mode     string `json:"mode,omitempty"`
	Discard  bool   `json:"discard,omitempty"` // store neither the sound nor the text
	Engine   string `json:"engine,omitempty"`
	Language string `json:"language,omitempty"`
	Model    string `json:"model,omitempty"`
}

// ProcessResult is the transcript, or the reason why there is none yet. A stored recording is kept
// in both cases.
type ProcessResult struct {
	Success     bool              `json:"success"`
	RecordingID *uuid.UUID        `json:"recordingId,omitempty"`
	MemoID      *uuid.UUID        `json:"memoId,omitempty"`
	Status      string            `json:"status"` // completed, pending or failed
	Transcript  string            `json:"transcript"`
	Confidence  float64           `json:"confidence,omitempty"`
	Words       []transcribe.Word `json:"words"`
	Engine      string            `json:"engine,omitempty"`
	Language    string            `json:"language,omitempty"`
	DurationMs  int64             `json:"durationMs,omitempty"`
	LostMs      int64             `json:"lostMs,omitempty"`
	Command     *CommandHeard     `json:"command,omitempty"` // with the mode command or both
	Error       string            `json:"error,omitempty"`
	ErrorKind   string            `json:"errorKind,omitempty"`
}

// SearchParams select transcripts by their words.
type SearchParams struct {
	Query string     `json:"query"`
	From  *time.Time `json:"from,omitempty"`
	To    *time.Time `json:"to,omitempty"`
	Tags  []string   `json:"tags,omitempty"` // all of these
	// Limit is 1 to 100; default 20.
	Limit  int `json:"limit,omitempty"`
	Offset int `json:"offset,omitempty"`
}

// Hit is a transcript that contains all words. StartMs and EndMs are the times of the first of
// them; -1 if it occurs only in the title or the tags, or if the engine reported no times.
type Hit struct {
	RecordingID uuid.UUID    `json:"recordingId"`
	MemoID      *uuid.UUID   `json:"memoId,omitempty"`
	Title       string       `json:"title"`
	Snippet     string       `json:"snippet"`
	StartMs     int64        `json:"startMs"`
	EndMs       int64        `json:"endMs"`
	Matches     []audio.Span `json:"matches"`
	Score       float64      `json:"score"` // larger is better
	RecordedAt  time.Time    `json:"recordedAt"`
}

// SearchResult is a page of hits, best first.
type SearchResult struct {
	Results []Hit `json:"results"`
	Total   int   `json:"total"` // at most 500; of more, only the latest are ranked
}

// WaveformParams select a part of a recording.
type WaveformParams struct {
	RecordingID uuid.UUID `json:"recordingId"`
	FromMs      int64     `json:"fromMs,omitempty"`
	ToMs        int64     `json:"toMs,omitempty"` // 0: the end
	// Buckets is 1 to 4000; default 1000.
	Buckets int `json:"buckets,omitempty"`
}

// Waveform is the minimum, maximum and root mean square of the samples in each bucket. Full scale
// is 127 for Min and Max and 255 for RMS.
type Waveform struct {
	Buckets    int        `json:"buckets"`
	DurationMs int64      `json:"durationMs"`
	Min        []byte     `json:"min"` // int8, in base64
	Max        []byte     `json:"max"` // int8, in base64
	RMS        []byte     `json:"rms"` // uint8, in base64
	Silences   [][2]int64 `json:"silences"`
}

// AudioURLParams identify a recording.
type AudioURLParams struct {
	RecordingID uuid.UUID `json:"recordingId"`
	// As is original (default), or denoised: without background noise, as engines hear it with the
	// setting denoise. The stored recording is not changed.
	As string `json:"as,omitempty"`
}

// Job is an entry of the queue.
type Job struct {
	ID          uuid.UUID  `json:"id"`
	RecordingID uuid.UUID  `json:"recordingId"`
	MemoID      *uuid.UUID `json:"memoId,omitempty"`
	Title       string     `json:"title"`
	Task        string     `json:"task"`
	Engine      string     `json:"engine"`
	Status      string     `json:"status"`
	Attempts    int        `json:"attempts"`
	MaxAttempts int        `json:"maxAttempts"`
	NextAttempt *time.Time `json:"nextAttemptAt,omitempty"` // of a pending job
	ErrorKind   string     `json:"errorKind,omitempty"`
	Error       string     `json:"error,omitempty"`
	CreatedAt   time.Time  `json:"createdAt"`
	UpdatedAt   time.Time  `json:"updatedAt"`
}

// QueueResult lists the jobs that are not completed, oldest first.
type QueueResult struct {
	Jobs       []Job `json:"jobs"`
	Pending    int   `json:"pending"`
	Processing int   `json:"processing"`
	Failed     int   `json:"failed"`
}

// JobParams identify a job.
type JobParams struct {
	JobID uuid.UUID `json:"jobId"`
}

// Settings control how the caller's recordings are transcribed.
type Settings struct {
	Provider    string `json:"provider"`    // local or deepgram; only deepgram sends sound to a service
	Model       string `json:"model"`       // model of Deepgram
	Language    string `json:"language"`    // BCP 47, such as en-US
	LocalEngine string `json:"localEngine"` // id of an engine
	LocalModel  string `json:"localModel"`  // of the local engine; empty: the best one that is installed
	Fallback    string `json:"fallback"`    // queue: wait for the service; local: use the local engine if the service fails
	// VADEnabled skips the engine for recordings without speech.
	VADEnabled bool `json:"vadEnabled"`
	// TrimSilence leaves out pauses of the sound that an engine gets.
	TrimSilence bool `json:"trimSilence"`
	// Denoise removes background noise from the sound that local engines get; with DenoiseForCloud,
	// services too. What is stored is not changed.
	Denoise         bool `json:"denoise"`
	DenoiseForCloud bool `json:"denoiseForCloud"`
	// SaveTranscripts syncs the texts of later transcriptions; without it, they stay on this device.
	SaveTranscripts bool `json:"saveTranscripts"`
	// SaveAudio keeps the sound of recordings on the hub too, encrypted, for the user's other devices.
	SaveAudio   bool   `json:"saveAudio"`
	TTSProvider string `json:"ttsProvider"` // what reads aloud: system, or none
	// WakeWord may be said before a command and is not part of it. WakeWordEnabled is always false:
	// nothing listens for it.
	WakeWord         string `json:"wakeWord"`
	WakeWordEnabled  bool   `json:"wakeWordEnabled"`
	RetainAudio      string `json:"retainAudio"` // forever, until_transcribed or days:n; applies to transcribed recordings that are not pinned
	PushToTalkKey    string `json:"pushToTalkKey"`
	CommandConfirmMs int64  `json:"commandConfirmMs"` // how long a command waits for a confirmation
	// InputDevice, KeepMicOpen and PreRollMs apply to this device only.
	InputDevice string `json:"inputDevice"` // id of a microphone; empty: the default one
	KeepMicOpen bool   `json:"keepMicOpen"` // the microphone is open between recordings too
	PreRollMs   int64  `json:"preRollMs"`   // sound from before the start of a recording; needs keepMicOpen
}

// SettingsParams change settings. Omitted fields stay unchanged.
type SettingsParams struct {
	Provider    *string `json:"provider,omitempty"`
	Model       *string `json:"model,omitempty"`
	Language    *string `json:"language,omitempty"`
	LocalEngine *string `json:"localEngine,omitempty"`
	LocalModel  *string `json:"localModel,omitempty"`
	Fallback    *string `json:"fallback,omitempty"`

	VADEnabled       *bool   `json:"vadEnabled,omitempty"`
	TrimSilence      *bool   `json:"trimSilence,omitempty"`
	Denoise          *bool   `json:"denoise,omitempty"`
	DenoiseForCloud  *bool   `json:"denoiseForCloud,omitempty"`
	RetainAudio      *string `json:"retainAudio,omitempty"`
	PushToTalkKey    *string `json:"pushToTalkKey,omitempty"`
	CommandConfirmMs *int64  `json:"commandConfirmMs,omitempty"`
	InputDevice      *string `json:"inputDevice,omitempty"`
	KeepMicOpen      *bool   `json:"keepMicOpen,omitempty"`
	PreRollMs        *int64  `json:"preRollMs,omitempty"`

	SaveTranscripts *bool   `json:"saveTranscripts,omitempty"`
	SaveAudio       *bool   `json:"saveAudio,omitempty"`
	TTSProvider     *string `json:"ttsProvider,omitempty"`
	WakeWord        *string `json:"wakeWord,omitempty"`
	WakeWordEnabled *bool   `json:"wakeWordEnabled,omitempty"` // true is refused: no build can listen for it
}

// Transcribed is published when the transcription status of a recording changes.
type Transcribed struct {
	RecordingID uuid.UUID `json:"recordingId"`
	Status      string    `json:"status"`
}

// QueueChanged is published when the queue changes.
type QueueChanged struct {
	Pending    int `json:"pending"`
	Processing int `json:"processing"`
	Failed     int `json:"failed"`
}
