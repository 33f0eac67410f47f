package search

import (
	"time"

	"github.com/google/uuid"
)

// Params is the request of memory.search.
type Params struct {
	Query        string   `json:"query"`           // at most 8 KiB
	Limit        int      `json:"limit,omitempty"` // 1 to 100; 0 is 10
	Mode         string   `json:"mode,omitempty"`  // hybrid (default), keyword, vector
	Filters      *Filters `json:"filters,omitempty"`
	MMR          *MMR     `json:"mmr,omitempty"`
	MinScore     float64  `json:"minScore,omitempty"`
	IncludeTurns *bool    `json:"includeTurns,omitempty"` // default true
	Priors       *bool    `json:"priors,omitempty"`       // default true
}

// MMR requests diverse results (maximal marginal relevance, Carbonell and Goldstein 1998).
type MMR struct {
	Lambda *float64 `json:"lambda,omitempty"` // 0: only diversity, 1: only relevance; default 0.7
}

// Filters select items before ranking. Absent fields match every item.
type Filters struct {
	From           *time.Time `json:"from,omitempty"` // of occurredAt, inclusive
	To             *time.Time `json:"to,omitempty"`   // exclusive
	Layers         []int      `json:"layers,omitempty"`
	Types          []string   `json:"types,omitempty"`
	Sources        []string   `json:"sources,omitempty"`
	TagsAll        []string   `json:"tagsAll,omitempty"`
	TagsAny        []string   `json:"tagsAny,omitempty"`
	TagsNone       []string   `json:"tagsNone,omitempty"`
	Kinds          []string   `json:"kinds,omitempty"`
	Pinned         *bool      `json:"pinned,omitempty"`
	Untrusted      *bool      `json:"untrusted,omitempty"`
	MinSalience    *float64   `json:"minSalience,omitempty"`
	MinRetention   *float64   `json:"minRetention,omitempty"`
	ConversationID *uuid.UUID `json:"conversationId,omitempty"`
	DocumentID     *uuid.UUID `json:"documentId,omitempty"`
}

// Result is the result of memory.search.
type Result struct {
	Results  []Hit   `json:"results"`
	TookMs   float64 `json:"tookMs"`
	Mode     string  `json:"mode"`
	Degraded string  `json:"degraded,omitempty"` // no_vectors, reindexing
	ModelID  string  `json:"modelId"`
}

// EnhancedParams is the request of memory.search_enhanced.
type EnhancedParams struct {
	Params
	Explain *bool  `json:"explain,omitempty"` // default true
	Expand  *int   `json:"expand,omitempty"`  // neighbors on each side, 0 to 3; default 1
	GroupBy string `json:"groupBy,omitempty"` // conversation, source, day
	Facets  bool   `json:"facets,omitempty"`
}

// EnhancedResult is the result of memory.search_enhanced.
type EnhancedResult struct {
	Result
	Facets *Facets `json:"facets,omitempty"`
	Groups []Group `json:"groups,omitempty"`
}

// Facets count the items that match the query and the filters.
type Facets struct {
	Type   []Count `json:"type"`
	Layer  []Count `json:"layer"`
	Tag    []Count `json:"tag"`
	Source []Count `json:"source"`
	Month  []Count `json:"month"` // 2023-05, or "" for none
}

// Count is a value and how many items have it.
type Count struct {
	Value string `json:"value"`
	Count int    `json:"count"`
}

// Group is a group of hits, as indexes into results.
type Group struct {
	Key   string `json:"key"`
	Title string `json:"title"`
	Hits  []int  `json:"hits"`
}

// RelatedParams is the request of memory.related. ID may be of any kind.
type RelatedParams struct {
	ID    string `json:"id"`
	Limit int    `json:"limit,omitempty"` // 1 to 100; 0 is 10
}

// Counts are the numbers of searchable items of a user.
type Counts struct {
	Total    int64   `json:"total"`
	Memories int64   `json:"memories"`
	Turns    int64   `json:"turns"`
	Chunks   int64   `json:"chunks"`
	ByType   []Count `json:"byType"`
	ByLayer  []Count `json:"byLayer"`
	BySource []Count `json:"bySource"`
	ByMonth  []Count `json:"byMonth"`
	Tags     []Count `json:"tags"` // most used first, at most 100
}

// Hit is one item found.
type Hit struct {
	ID           uuid.UUID  `json:"id"`
	Kind         string     `json:"kind"` // memory, turn, chunk
	Title        string     `json:"title,omitempty"`
	Snippet      string     `json:"snippet"`
	Highlights   []Span     `json:"highlights"`
	Evidence     []Evidence `json:"evidence"`
	Context      []Neighbor `json:"context,omitempty"` // only memory.search_enhanced
	Score        float64    `json:"score"`
	Parts        *Parts     `json:"parts,omitempty"`
	Type         string     `json:"type,omitempty"`
	Layer        int        `json:"layer,omitempty"`
	Tags         []string   `json:"tags"`
	Source       string     `json:"source"`
	SourceRef    string     `json:"sourceRef,omitempty"`
	Speaker      string     `json:"speaker,omitempty"`
	OccurredAt   *time.Time `json:"occurredAt,omitempty"`
	CreatedAt    time.Time  `json:"createdAt"`
	Untrusted    bool       `json:"untrusted"`
	Pinned       bool       `json:"pinned"`
	SalienceTier string     `json:"salienceTier,omitempty"` // of a memory
	Retention    *float64   `json:"retention,omitempty"`
}

// Span is a part of a text, in UTF-16 code units as JavaScript counts them.
type Span struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// Evidence identifies the part of an item that is quoted.
type Evidence struct {
	Kind           string     `json:"kind"`
	ID             uuid.UUID  `json:"id"`
	ConversationID *uuid.UUID `json:"conversationId,omitempty"`
	TurnID         string     `json:"turnId,omitempty"` // id in the original, such as D1:3
	DocumentID     *uuid.UUID `json:"documentId,omitempty"`
	Seq            *int64     `json:"seq,omitempty"`
	StartOffset    *int64     `json:"startOffset,omitempty"` // in the document; in UTF-16 code units if Helix split it
	EndOffset      *int64     `json:"endOffset,omitempty"`
	Quote          string     `json:"quote"`
}

// Neighbor is an item before or after a hit in its conversation or document.
type Neighbor struct {
	ID      uuid.UUID `json:"id"`
	Seq     int64     `json:"seq"`
	Speaker string    `json:"speaker,omitempty"`
	Text    string    `json:"text"`
}

// Parts are the components of a score. A rank is absent if the item was not in the list.
type Parts struct {
	BM25Rank   *int     `json:"bm25Rank,omitempty"`
	BM25       *float64 `json:"bm25,omitempty"`
	VectorRank *int     `json:"vectorRank,omitempty"`
	Cosine     *float64 `json:"cosine,omitempty"`
	RRF        float64  `json:"rrf"`
	Cues       float64  `json:"cues"` // above 1: the item matches a person or time that the query mentions
	Recency    float64  `json:"recency"`
	Salience   float64  `json:"salience"`
	Retention  float64  `json:"retention"`
	Pinned     float64  `json:"pinned"`
	Window     float64  `json:"window"`
}
