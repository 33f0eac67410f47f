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

// UploadParams are a recording that exists already: its bytes, a blob that belongs to the caller, or a file.
type UploadParams struct {
	AudioBase64 string     `json:"audioBase64,omitempty"` // at most 10 MiB when decoded
	BlobSHA256  string     `json:"blobSha256,omitempty"`
	Path        string     `json:"path,omitempty"` // a file, or the token of an upload
	Title       string     `json:"title,omitempty"`
	Tags        []string   `json:"tags,omitempty"`       // at most 5
	RecordedAt  *time.Time `json:"recordedAt,omitempty"` // default: now
	Engine      string     `json:"engine,omitempty"`     // default: that of the settings
	Language    string     `json:"language,omitempty"`   // default: that of the settings
	Model       string     `json:"model,omitempty"`
}

// UploadResult names what was stored. Its transcript follows.
type UploadResult struct {
	MemoID      uuid.UUID `json:"memoId"`
	RecordingID uuid.UUID `json:"recordingId"`
	Status      string    `json:"status"` // pending
}

// Memo is a recording with its text.
type Memo struct {
	ID          uuid.UUID `json:"id"`
	RecordingID uuid.UUID `json:"recordingId"`
	Title       string    `json:"title"`
	Tags        []string  `json:"tags"`
	Status      string    `json:"status"` // pending, processing, completed or failed
	Error       string    `json:"error,omitempty"`
	Text        string    `json:"text"` // of the current transcript; in lists its beginning
	Language    string    `json:"language,omitempty"`
	Format      string    `json:"format"`
	Size        int64     `json:"size"` // bytes
	DurationMs  *int64    `json:"durationMs,omitempty"`
	LostMs      int64     `json:"lostMs,omitempty"` // of the sound could not be decoded
	HasAudio    bool      `json:"hasAudio"`         // the sound is on this device
	RecordedAt  time.Time `json:"recordedAt"`
	UpdatedAt   time.Time `json:"updatedAt"`
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

// ListResult is a page of memos, the latest first.
type ListResult struct {
	Memos  []Memo `json:"memos"`
	Total  int    `json:"total"`
	Limit  int    `json:"limit"`
	Offset int    `json:"offset"`
}

// MemoParams name a memo.
type MemoParams struct {
	MemoID uuid.UUID `json:"memoId"`
}

// UpdateParams change a memo. Fields that are left out stay.
type UpdateParams struct {
	MemoID uuid.UUID `json:"memoId"`
	Title  *string   `json:"title,omitempty"`
	Tags   *[]string `json:"tags,omitempty"`
}

// RecordingParams name a recording.
type RecordingParams struct {
	RecordingID uuid.UUID `json:"recordingId"`
}

// Version is one transcript of a recording.
type Version struct {
	ID        uuid.UUID `json:"id"`
	Engine    string    `json:"engine"` // person: somebody edited it
	Model     string    `json:"model,omitempty"`
	Language  string    `json:"language,omitempty"`
	Text      string    `json:"text"`
	Current   bool      `json:"current"`
	CreatedAt time.Time `json:"createdAt"`
}

// Transcript is the current text of a recording with its words, and its versions, the latest first.
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

// TranscribeParams ask for another transcript.
type TranscribeParams struct {
	RecordingID uuid.UUID `json:"recordingId"`
	Engine      string    `json:"engine,omitempty"`
	Language    string    `json:"language,omitempty"`
	Model       string    `json:"model,omitempty"`
}

// TranscribeResult names the job.
type TranscribeResult struct {
	JobID  uuid.UUID `json:"jobId"`
	Status string    `json:"status"`
}

// ProcessParams are a recording to transcribe while the caller waits: one that is stored, or its bytes
// or file.
type ProcessParams struct {
	RecordingID *uuid.UUID `json:"recordingId,omitempty"`
	AudioBase64 string     `json:"audioBase64,omitempty"` // at most 10 MiB when decoded
	Path        string     `json:"path,omitempty"`        // a file, or the token of an upload
	Title       string     `json:"title,omitempty"`
	Discard     bool       `json:"discard,omitempty"` // keep neither the sound nor the text
	Engine      string     `json:"engine,omitempty"`
	Language    string     `json:"language,omitempty"`
	Model       string     `json:"model,omitempty"`
}

// ProcessResult is what was heard, or why it was not transcribed. What was stored stays.
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
	Error       string            `json:"error,omitempty"`
	ErrorKind   string            `json:"errorKind,omitempty"`
}

// SearchParams look for words in transcripts.
type SearchParams struct {
	Query string     `json:"query"`
	From  *time.Time `json:"from,omitempty"`
	To    *time.Time `json:"to,omitempty"`
	Tags  []string   `json:"tags,omitempty"` // all of these
	// Limit is 1 to 100; default 20.
	Limit  int `json:"limit,omitempty"`
	Offset int `json:"offset,omitempty"`
}

// Hit is a transcript that has all words. StartMs and EndMs are where the first of them is said; -1: in
// the title or tags only, or the engine gave no times.
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

// SearchResult is a page of hits, the best first.
type SearchResult struct {
	Results []Hit `json:"results"`
	Total   int   `json:"total"`
}

// WaveformParams choose a part of a recording.
type WaveformParams struct {
	RecordingID uuid.UUID `json:"recordingId"`
	FromMs      int64     `json:"fromMs,omitempty"`
	ToMs        int64     `json:"toMs,omitempty"` // 0: the end
	// Buckets is 1 to 4000; default 1000.
	Buckets int `json:"buckets,omitempty"`
}

// Waveform has the lowest, highest and root mean square sample of each bucket. Full scale is 127 for Min
// and Max and 255 for RMS.
type Waveform struct {
	Buckets    int        `json:"buckets"`
	DurationMs int64      `json:"durationMs"`
	Min        []byte     `json:"min"` // int8, in base64
	Max        []byte     `json:"max"` // int8, in base64
	RMS        []byte     `json:"rms"` // uint8, in base64
	Silences   [][2]int64 `json:"silences"`
}

// AudioURLParams name a recording.
type AudioURLParams struct {
	RecordingID uuid.UUID `json:"recordingId"`
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

// QueueResult lists the jobs that are not completed, the oldest first.
type QueueResult struct {
	Jobs       []Job `json:"jobs"`
	Pending    int   `json:"pending"`
	Processing int   `json:"processing"`
	Failed     int   `json:"failed"`
}

// JobParams name a job.
type JobParams struct {
	JobID uuid.UUID `json:"jobId"`
}

// Settings say how recordings of the caller are transcribed.
type Settings struct {
	Provider    string `json:"provider"`    // local or deepgram; only the second sends sound to a service
	Model       string `json:"model"`       // of Deepgram
	Language    string `json:"language"`    // BCP 47, such as en-US
	LocalEngine string `json:"localEngine"` // id of an engine
	Fallback    string `json:"fallback"`    // queue: wait for the service; local: use the local engine when it fails
}

// SettingsParams change settings. Fields that are left out stay.
type SettingsParams struct {
	Provider    *string `json:"provider,omitempty"`
	Model       *string `json:"model,omitempty"`
	Language    *string `json:"language,omitempty"`
	LocalEngine *string `json:"localEngine,omitempty"`
	Fallback    *string `json:"fallback,omitempty"`
}

// Transcribed is published when the transcription of a recording has changed its state.
type Transcribed struct {
	RecordingID uuid.UUID `json:"recordingId"`
	Status      string    `json:"status"`
}

// QueueChanged is published when the queue has changed.
type QueueChanged struct {
	Pending    int `json:"pending"`
	Processing int `json:"processing"`
	Failed     int `json:"failed"`
}
