package memory

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"helix/backend/memory/search"
)

// The kinds of items that search finds.
const (
	KindMemory = search.KindMemory // a row of memories
	KindTurn   = search.KindTurn   // one message of a conversation
	KindChunk  = search.KindChunk  // a part of a document
)

// Item is one memory.
type Item struct {
	ID               uuid.UUID       `json:"id"`
	Type             string          `json:"type"` // episodic, semantic, procedural
	Title            string          `json:"title,omitempty"`
	Content          string          `json:"content"`
	Layer            int             `json:"layer,omitempty"` // 1 to 7; absent: none
	Tags             []string        `json:"tags"`
	Source           string          `json:"source"`
	SourceRef        string          `json:"sourceRef,omitempty"`
	Untrusted        bool            `json:"untrusted"`
	Salience         float64         `json:"salience"`     // 0 to 100
	SalienceTier     string          `json:"salienceTier"` // critical, high, medium, low
	Pinned           bool            `json:"pinned"`
	EmotionalValence *float64        `json:"emotionalValence,omitempty"` // -1 to 1
	AccessCount      int64           `json:"accessCount"`
	OccurredAt       *time.Time      `json:"occurredAt,omitempty"`
	LastAccessed     *time.Time      `json:"lastAccessed,omitempty"`
	LastReinforcedAt *time.Time      `json:"lastReinforcedAt,omitempty"`
	InitialStrength  float64         `json:"initialStrength"`
	Retention        *float64        `json:"retention,omitempty"` // current retention, 0 to 1
	EmbeddingState   string          `json:"embeddingState"`      // none, queued, ready, stale, failed
	Metadata         json.RawMessage `json:"metadata,omitempty"`
	Version          int64           `json:"version"`
	CreatedAt        time.Time       `json:"createdAt"`
	UpdatedAt        time.Time       `json:"updatedAt"`
	DeletedAt        *time.Time      `json:"deletedAt,omitempty"`
}

// AddParams is the request of memory.add.
type AddParams struct {
	Content      string          `json:"content"`         // 1 byte to 64 KiB
	Type         string          `json:"type,omitempty"`  // default episodic
	Layer        *int            `json:"layer,omitempty"` // 1 to 7; absent: none
	Tags         []string        `json:"tags,omitempty"`
	OccurredAt   *time.Time      `json:"occurredAt,omitempty"`
	SalienceTier string          `json:"salienceTier,omitempty"`
	Signals      *Signals        `json:"signals,omitempty"` // determine the tier if salienceTier is absent
	Pinned       bool            `json:"pinned,omitempty"`
	Source       string          `json:"source,omitempty"` // default manual
	SourceRef    string          `json:"sourceRef,omitempty"`
	Metadata     json.RawMessage `json:"metadata,omitempty"`
	Dedupe       *bool           `json:"dedupe,omitempty"` // default true
	Untrusted    *bool           `json:"untrusted,omitempty"`
	Session      string          `json:"session,omitempty"` // of the agent that stores it

	EmotionalValence *float64 `json:"emotionalValence,omitempty"` // -1 to 1; absent: not known

	byModel bool // a model wrote it
}

// AddResult is the result of memory.add.
type AddResult struct {
	Item         *Item `json:"item,omitempty"` // absent if recalled text was not stored again
	Deduplicated bool  `json:"deduplicated"`
}

// AddBatchParams is the request of memory.add_batch: 1 to 1,000 items.
type AddBatchParams struct {
	Items []AddParams `json:"items"`
}

// AddBatchResult has one entry per item, in order.
type AddBatchResult struct {
	Items []AddBatchItem `json:"items"`
}

// AddBatchItem is the result for one item.
type AddBatchItem struct {
	AddResult
	Error *ItemError `json:"error,omitempty"`
}

// ItemError is the reason why an item was rejected.
type ItemError struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// GetParams is the request of memory.get. ID may also have the form note-<uuid>.
type GetParams struct {
	ID    string `json:"id"`
	Touch bool   `json:"touch,omitempty"` // the person opened it, which reinforces it
}

// ListParams is the request of memory.list.
type ListParams struct {
	Filters *search.Filters `json:"filters,omitempty"`
	Sort    string          `json:"sort,omitempty"`  // recent (default), occurred, salience, retention
	Limit   int             `json:"limit,omitempty"` // 1 to 200; 0 is 50
	Offset  int             `json:"offset,omitempty"`
	Cursor  string          `json:"cursor,omitempty"`
	Trash   bool            `json:"trash,omitempty"` // deleted memories, newest first
}

// ListResult is the result of memory.list.
type ListResult struct {
	Items      []Item `json:"items"`
	Total      int64  `json:"total"`
	NextCursor string `json:"nextCursor,omitempty"`
}

// UpdateParams is the request of memory.update. Absent fields are left unchanged.
type UpdateParams struct {
	ID           string          `json:"id"`
	Version      int64           `json:"version"`
	Content      *string         `json:"content,omitempty"`
	Type         *string         `json:"type,omitempty"`
	Layer        *int            `json:"layer,omitempty"` // 0: clear
	Tags         *[]string       `json:"tags,omitempty"`
	SalienceTier *string         `json:"salienceTier,omitempty"`
	OccurredAt   json.RawMessage `json:"occurredAt,omitempty"` // a time, or null to clear
	Metadata     json.RawMessage `json:"metadata,omitempty"`   // an object, or null to clear
	Untrusted    *bool           `json:"untrusted,omitempty"`

	EmotionalValence json.RawMessage `json:"emotionalValence,omitempty"` // -1 to 1, or null to clear
}

// UpdateResult holds the updated memory and a token to undo the edit.
type UpdateResult struct {
	Item
	UndoToken string `json:"undoToken,omitempty"` // absent if nothing changed
}

// IDsParams names 1 to 1,000 memories.
type IDsParams struct {
	IDs []string `json:"ids"`
}

// CountResult holds the number of affected rows and a token to undo the action.
type CountResult struct {
	Count     int    `json:"count"`
	UndoToken string `json:"undoToken,omitempty"`
}

// UndoParams is the request of memory.undo. A token expires after ten minutes.
type UndoParams struct {
	UndoToken string `json:"undoToken"`
}

// PinParams is the request of memory.pin.
type PinParams struct {
	ID  string   `json:"id,omitempty"`
	IDs []string `json:"ids,omitempty"`
	On  *bool    `json:"on,omitempty"` // default true
}

// SalienceParams is the request of memory.set_salience.
type SalienceParams struct {
	ID   string   `json:"id,omitempty"`
	IDs  []string `json:"ids,omitempty"`
	Tier string   `json:"tier"`
}

// TagParams is the request of memory.tag.
type TagParams struct {
	ID     string   `json:"id,omitempty"`
	IDs    []string `json:"ids,omitempty"`
	Add    []string `json:"add,omitempty"`
	Remove []string `json:"remove,omitempty"`
}

// ItemsResult lists changed memories.
type ItemsResult struct {
	Items     []Item `json:"items"`
	UndoToken string `json:"undoToken,omitempty"`
}

// HistoryParams is the request of memory.history.
type HistoryParams struct {
	ID string `json:"id"`
}

// HistoryResult lists earlier versions of a memory, newest first.
type HistoryResult struct {
	Revisions []Revision `json:"revisions"`
}

// Revision is one earlier version of a memory.
type Revision struct {
	Version  int64     `json:"version"`
	Content  string    `json:"content"`
	Tags     []string  `json:"tags"`
	EditedAt time.Time `json:"editedAt"`
	Origin   string    `json:"origin"` // person, agent, import, sync, undo
}

// UpsertParams is the request of memory.upsert_chunks. It has either chunks or text.
type UpsertParams struct {
	Source    UpsertSource  `json:"source"`
	Chunks    []UpsertChunk `json:"chunks,omitempty"`
	Text      *string       `json:"text,omitempty"` // Helix splits it
	Tags      []string      `json:"tags,omitempty"`
	Untrusted *bool         `json:"untrusted,omitempty"` // default true
}

// UpsertSource identifies a document.
type UpsertSource struct {
	URI         string `json:"uri"`
	Title       string `json:"title,omitempty"`
	Mime        string `json:"mime,omitempty"`
	ContentHash string `json:"contentHash,omitempty"` // hex SHA-256 of the whole document
}

// UpsertChunk is one part of a document.
type UpsertChunk struct {
	Seq         int64           `json:"seq"`
	Text        string          `json:"text"`
	Heading     string          `json:"heading,omitempty"`
	StartOffset *int64          `json:"startOffset,omitempty"` // in the document
	EndOffset   *int64          `json:"endOffset,omitempty"`
	Metadata    json.RawMessage `json:"metadata,omitempty"`
}

// UpsertResult counts the changes.
type UpsertResult struct {
	DocumentID uuid.UUID `json:"documentId"`
	Added      int       `json:"added"`
	Kept       int       `json:"kept"`
	Removed    int       `json:"removed"`
	Embedded   int       `json:"embedded"`
}

// PageParams requests a page of a list.
type PageParams struct {
	Query  string     `json:"query,omitempty"` // searched in titles
	Limit  int        `json:"limit,omitempty"` // 1 to 200; 0 is 50
	Offset int        `json:"offset,omitempty"`
	Trash  bool       `json:"trash,omitempty"`
	From   *time.Time `json:"from,omitempty"` // time of the content of a conversation or document, inclusive
	To     *time.Time `json:"to,omitempty"`   // exclusive
}

// Document is one document without its text.
type Document struct {
	ID         uuid.UUID  `json:"id"`
	Source     string     `json:"source"`
	SourceURI  string     `json:"sourceUri"`
	Title      string     `json:"title"`
	Mime       string     `json:"mime"`
	Tags       []string   `json:"tags"`
	Untrusted  bool       `json:"untrusted"`
	Chunks     int64      `json:"chunks"`
	OccurredAt *time.Time `json:"occurredAt,omitempty"`
	CreatedAt  time.Time  `json:"createdAt"`
	UpdatedAt  time.Time  `json:"updatedAt"`
	DeletedAt  *time.Time `json:"deletedAt,omitempty"`
}

// DocumentsResult is the result of memory.list_documents, most recently changed first.
type DocumentsResult struct {
	Documents []Document `json:"documents"`
	Total     int64      `json:"total"`
}

// DocumentParams names a document.
type DocumentParams struct {
	DocumentID uuid.UUID `json:"documentId"`
}

// DocumentViewParams is the request of memory.document.
type DocumentViewParams struct {
	ID        uuid.UUID `json:"id"`
	AroundSeq *int64    `json:"aroundSeq,omitempty"`
	Limit     int       `json:"limit,omitempty"` // chunks, 1 to 200; 0 is 50
	Offset    int       `json:"offset,omitempty"`
}

// DocumentView is a document with some of its parts, in order.
type DocumentView struct {
	Document Document `json:"document"`
	Chunks   []Chunk  `json:"chunks"`
	Total    int64    `json:"total"`
	Offset   int      `json:"offset"`
}

// Chunk is a part of a document.
type Chunk struct {
	ID          uuid.UUID `json:"id"`
	Seq         int64     `json:"seq"`
	Heading     string    `json:"heading,omitempty"`
	Text        string    `json:"text"`
	StartOffset *int64    `json:"startOffset,omitempty"` // in the document; in UTF-16 code units if Helix split it
	EndOffset   *int64    `json:"endOffset,omitempty"`
}

// Conversation is a conversation without its turns.
type Conversation struct {
	ID           uuid.UUID  `json:"id"`
	Source       string     `json:"source"`
	ExternalID   string     `json:"externalId"`
	Title        string     `json:"title"`
	Participants []string   `json:"participants"`
	Tags         []string   `json:"tags"`
	Untrusted    bool       `json:"untrusted"`
	Turns        int64      `json:"turns"`
	StartedAt    *time.Time `json:"startedAt,omitempty"`
	EndedAt      *time.Time `json:"endedAt,omitempty"`
	CreatedAt    time.Time  `json:"createdAt"`
	DeletedAt    *time.Time `json:"deletedAt,omitempty"`
}

// ConversationsResult is the result of memory.conversations, latest first.
type ConversationsResult struct {
	Conversations []Conversation `json:"conversations"`
	Total         int64          `json:"total"`
}

// ConversationParams is the request of memory.conversation.
type ConversationParams struct {
	ID        uuid.UUID `json:"id"`
	AroundSeq *int64    `json:"aroundSeq,omitempty"` // selects the page with this turn in its middle
	Limit     int       `json:"limit,omitempty"`     // 1 to 200; 0 is 50
	Offset    int       `json:"offset,omitempty"`
}

// ConversationResult is a conversation with some of its turns, in order.
type ConversationResult struct {
	Conversation Conversation `json:"conversation"`
	Turns        []Turn       `json:"turns"`
	Total        int64        `json:"total"`
	Offset       int          `json:"offset"`
}

// Turn is one message.
type Turn struct {
	ID         uuid.UUID  `json:"id"`
	Seq        int64      `json:"seq"`
	TurnID     string     `json:"turnId,omitempty"` // id in the original
	Role       string     `json:"role"`             // user, assistant
	Speaker    string     `json:"speaker,omitempty"`
	Text       string     `json:"text"`
	OccurredAt *time.Time `json:"occurredAt,omitempty"`
}

// ConversationIDParams names a conversation.
type ConversationIDParams struct {
	ID uuid.UUID `json:"id"`
}

// TrustParams is the request of memory.set_untrusted, which marks or unmarks everything from one
// source: a conversation, a document or an importer.
type TrustParams struct {
	ConversationID *uuid.UUID `json:"conversationId,omitempty"`
	DocumentID     *uuid.UUID `json:"documentId,omitempty"`
	Source         string     `json:"source,omitempty"`
	Untrusted      bool       `json:"untrusted"`
}

// EmbeddingStatus is the state of semantic search.
type EmbeddingStatus struct {
	ModelID       string   `json:"modelId"`
	Dims          int      `json:"dims"`
	Ready         int64    `json:"ready"`
	Queued        int64    `json:"queued"`
	Stale         int64    `json:"stale"`
	Failed        int64    `json:"failed"`
	RatePerSec    float64  `json:"ratePerSec"`
	ETASeconds    float64  `json:"etaSeconds"`
	Paused        bool     `json:"paused"`
	Available     bool     `json:"available"`
	Reason        string   `json:"reason,omitempty"`        // why it is unavailable
	BuildingModel string   `json:"buildingModel,omitempty"` // the model being prepared; the counts are for it
	Models        []string `json:"models"`                  // that memory.reembed can switch to
}

// ReembedParams is the request of memory.reembed.
type ReembedParams struct {
	ModelID string `json:"modelId,omitempty"` // "": recompute all vectors of the active model
	Pause   *bool  `json:"pause,omitempty"`   // only pauses or resumes the work
	Failed  bool   `json:"failed,omitempty"`  // only retries failed items
}

// Stats counts the items of a user.
type Stats struct {
	search.Counts
	Conversations int64 `json:"conversations"`
	Documents     int64 `json:"documents"`
	Trash         int64 `json:"trash"`
	IndexBytes    int64 `json:"indexBytes"`
	VectorBytes   int64 `json:"vectorBytes"` // in memory
}

// ExportParams is the request of memory.export.
type ExportParams struct {
	Format  string          `json:"format,omitempty"` // jsonl (default), markdown
	Filters *search.Filters `json:"filters,omitempty"`
}

// ExportResult names the blob that contains the export.
type ExportResult struct {
	BlobID string `json:"blobId"`
	Size   int64  `json:"size"`
	Items  int64  `json:"items"`
	Path   string `json:"path,omitempty"`
}

// Changed is the event memory.changed. Op is add, update, delete, restore, purge, import or
// documents. IDs has at most 100 ids; Many is set if there are more.
type Changed struct {
	IDs  []uuid.UUID `json:"ids"`
	Op   string      `json:"op"`
	Many bool        `json:"many,omitempty"`
}

// ImportProgress is the event memory.import_progress, at most 4 per second.
type ImportProgress struct{ ImportStatus }

// ImportDone is the event memory.import_done.
type ImportDone struct{ ImportStatus }

// EmbeddingProgress is the event memory.embedding_progress, at most 4 per second.
type EmbeddingProgress struct {
	Ready      int64   `json:"ready"`
	Queued     int64   `json:"queued"`
	RatePerSec float64 `json:"ratePerSec"`
}
