package storage

// Merge is how concurrent edits of one field are merged; the sync spec defines the values.
type Merge string

// The merge methods.
const (
	LWW         Merge = "lww"       // last writer wins by hybrid logical clock
	Text3       Merge = "text3"     // three-way merge of text
	ORSet       Merge = "orset"     // observed-remove set
	PNCounter   Merge = "pncounter" // counter that goes up and down
	Max         Merge = "max"       // the larger value
	Min         Merge = "min"       // the smaller value
	DenyWins    Merge = "denywins"  // the stricter value
	Derived     Merge = "derived"   // computed on each device; never captured
	Immutable   Merge = "immutable" // never changes after insert
	ManualMerge Merge = "manual"    // a person decides
)

// SyncPolicy is how the rows of a table sync.
type SyncPolicy string

// The sync policies.
const (
	MergeRows  SyncPolicy = "merge"  // rows change on several devices and are merged by field
	AppendRows SyncPolicy = "append" // rows are written by one device and never merged
)

// SyncedTable declares how one table syncs. Its columns besides Fields are id, user_id,
// created_at, updated_at, deleted_at and sync_meta.
type SyncedTable struct {
	Table string
	// If Parent is set, a change of this table's rows counts as a change of the parent row whose id
	// is in column ParentKey. ParentField is the field number that it marks there; it is allocated
	// from the parent's field numbers.
	Parent, ParentKey string
	ParentField       int
	Policy            SyncPolicy
	// Final is an SQL condition over columns written as NEW.x. A row is logged as a whole when it
	// first meets the condition, and its later changes from then on. "" means at insert.
	Final string
	// Free is an SQL condition for rows whose names other rows may have, besides deleted ones; "": none.
	Free string
	// Slugs reports that names have only lower-case letters, digits and hyphens.
	Slugs  bool
	Fields []SyncedField
}

// SyncedField is one column that syncs. No is its permanent number, 1 to 62; number 0 is
// deleted_at. Sensitive fields are encrypted on the hub. Blob fields hold the SHA-256 of a blob
// that is transferred besides the row.
type SyncedField struct {
	No        int
	Name      string
	Merge     Merge
	Sensitive bool
	Blob      bool
	// HashOf names the column whose SHA-256 this column holds; merging keeps it up to date.
	HashOf string
}

// Synced lists the tables that sync, sorted by name. Open generates the capture triggers from it,
// so domains need not know about sync.
var Synced = []SyncedTable{
	{
		Table: "capability_denials", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "subject_kind", Merge: DenyWins},
			{No: 2, Name: "subject_id", Merge: DenyWins},
			{No: 3, Name: "capability", Merge: DenyWins},
			{No: 4, Name: "resource", Merge: DenyWins},
			{No: 5, Name: "reason", Merge: LWW},
		},
	},
	{
		Table: "chunks", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "document_id", Merge: Immutable},
			{No: 2, Name: "seq", Merge: LWW},
			{No: 3, Name: "heading", Merge: LWW, Sensitive: true},
			{No: 4, Name: "content", Merge: LWW, Sensitive: true},
			{No: 5, Name: "content_hash", Merge: LWW, HashOf: "content"},
			{No: 6, Name: "start_offset", Merge: LWW},
			{No: 7, Name: "end_offset", Merge: LWW},
			{No: 8, Name: "metadata", Merge: LWW},
		},
	},
	{
		// A run is logged when it has ended.
		Table: "composite_skill_executions", Policy: AppendRows, Final: "NEW.status IN ('completed', 'failed', 'cancelled') AND NEW.mode = 'live'",
		Fields: []SyncedField{
			{No: 1, Name: "composite_skill_id", Merge: Immutable},
			{No: 2, Name: "version_id", Merge: Immutable},
			{No: 3, Name: "definition_hash", Merge: Immutable},
			{No: 4, Name: "body", Merge: Immutable, Sensitive: true},
			{No: 5, Name: "mode", Merge: Immutable},
			{No: 6, Name: "trigger", Merge: Immutable},
			{No: 7, Name: "input_params", Merge: Immutable, Sensitive: true},
			{No: 8, Name: "final_output", Merge: Immutable, Sensitive: true},
			{No: 9, Name: "status", Merge: Immutable},
			{No: 10, Name: "error_kind", Merge: Immutable},
			{No: 11, Name: "error_message", Merge: Immutable},
			{No: 12, Name: "execution_time_ms", Merge: Immutable},
			{No: 13, Name: "steps_completed", Merge: Immutable},
			{No: 14, Name: "steps_failed", Merge: Immutable},
			{No: 15, Name: "steps_skipped", Merge: Immutable},
			{No: 16, Name: "total_steps", Merge: Immutable},
			{No: 17, Name: "parent_execution_id", Merge: Immutable},
			{No: 18, Name: "parent_step_path", Merge: Immutable},
			{No: 19, Name: "depth", Merge: Immutable},
			{No: 20, Name: "restarted_from", Merge: Immutable},
			{No: 21, Name: "device_id", Merge: Immutable},
			{No: 22, Name: "started_at", Merge: Immutable},
			{No: 23, Name: "finished_at", Merge: Immutable},
			{No: 24, Name: "steps_executed", Merge: Derived},
			{No: 25, Name: "wait_reason", Merge: Derived},
			{No: 26, Name: "request_id", Merge: Derived},
			{No: 27, Name: "pinned", Merge: Derived},
			{No: 28, Name: "bytes", Merge: Derived},
			{No: 29, Name: "deadline_at", Merge: Derived},
			{No: 30, Name: "wake_at", Merge: Derived},
			{No: 31, Name: "cancel_requested_at", Merge: Derived},
			{No: 32, Name: "caller", Merge: Derived},
		},
	},
	{
		Table: "composite_skill_steps", Policy: AppendRows,
		Fields: []SyncedField{
			{No: 1, Name: "execution_id", Merge: Immutable},
			{No: 2, Name: "ordinal", Merge: Immutable},
			{No: 3, Name: "step_path", Merge: Immutable},
			{No: 4, Name: "iteration", Merge: Immutable},
			{No: 5, Name: "tool_type", Merge: Immutable},
			{No: 6, Name: "tool_name", Merge: Immutable},
			{No: 7, Name: "status", Merge: Immutable},
			{No: 8, Name: "reason", Merge: Immutable},
			{No: 9, Name: "attempts", Merge: Immutable},
			{No: 10, Name: "input_hash", Merge: Immutable},
			{No: 11, Name: "output", Merge: Immutable, Sensitive: true},
			{No: 12, Name: "output_blob", Merge: Immutable, Blob: true},
			{No: 13, Name: "error_kind", Merge: Immutable},
			{No: 14, Name: "error_message", Merge: Immutable},
			{No: 15, Name: "outcome", Merge: Immutable},
			{No: 16, Name: "took_ms", Merge: Immutable},
			{No: 17, Name: "started_at", Merge: Immutable},
			{No: 18, Name: "finished_at", Merge: Immutable},
		},
	},
	{
		Table: "composite_skill_versions", Policy: AppendRows,
		Fields: []SyncedField{
			{No: 1, Name: "composite_skill_id", Merge: Immutable},
			{No: 2, Name: "version", Merge: Immutable},
			{No: 3, Name: "body", Merge: Immutable, Sensitive: true},
			{No: 4, Name: "definition_hash", Merge: Immutable},
			{No: 5, Name: "note", Merge: Immutable},
			{No: 6, Name: "origin", Merge: Immutable},
		},
	},
	{
		Table: "composite_skills", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "name", Merge: LWW},
			{No: 2, Name: "description", Merge: LWW},
			{No: 3, Name: "steps", Merge: ManualMerge, Sensitive: true},
			{No: 4, Name: "version", Merge: LWW},
			{No: 5, Name: "tags", Merge: ORSet},
			{No: 6, Name: "icon", Merge: LWW},
			{No: 7, Name: "execution_count", Merge: PNCounter},
			{No: 8, Name: "last_executed", Merge: Max},
			{No: 9, Name: "is_enabled", Merge: DenyWins},
			{No: 10, Name: "visibility", Merge: DenyWins},
			{No: 11, Name: "input_schema", Merge: ManualMerge},
			{No: 12, Name: "output_mapping", Merge: ManualMerge, Sensitive: true},
			{No: 13, Name: "notification", Merge: ManualMerge},
			{No: 14, Name: "overall_timeout_ms", Merge: ManualMerge},
			{No: 15, Name: "definition_hash", Merge: ManualMerge},
			{No: 16, Name: "head_version_id", Merge: ManualMerge},
			{No: 17, Name: "clone_source_id", Merge: Immutable},
		},
	},
	{
		Table: "conversation_turns", Policy: AppendRows,
		Fields: []SyncedField{
			{No: 1, Name: "conversation_id", Merge: Immutable},
			{No: 2, Name: "seq", Merge: Immutable},
			{No: 3, Name: "external_id", Merge: Immutable},
			{No: 4, Name: "role", Merge: Immutable},
			{No: 5, Name: "speaker", Merge: Immutable},
			{No: 6, Name: "content", Merge: Immutable, Sensitive: true},
			{No: 7, Name: "occurred_at", Merge: Immutable},
			{No: 8, Name: "content_hash", Merge: Immutable},
			{No: 9, Name: "metadata", Merge: Immutable},
		},
	},
	{
		Table: "conversations", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "source", Merge: Immutable},
			{No: 2, Name: "external_id", Merge: Immutable},
			{No: 3, Name: "title", Merge: LWW, Sensitive: true},
			{No: 4, Name: "started_at", Merge: LWW},
			{No: 5, Name: "ended_at", Merge: LWW},
			{No: 6, Name: "participants", Merge: LWW},
			{No: 7, Name: "tags", Merge: ORSet},
			{No: 8, Name: "layer", Merge: LWW},
			{No: 9, Name: "type", Merge: LWW},
			{No: 10, Name: "untrusted", Merge: LWW},
			{No: 11, Name: "metadata", Merge: LWW},
		},
	},
	{
		Table: "custom_tool_usage", Policy: AppendRows,
		Fields: []SyncedField{
			{No: 1, Name: "custom_tool_id", Merge: Immutable},
			{No: 2, Name: "input_params", Merge: Immutable, Sensitive: true},
			{No: 3, Name: "output_result", Merge: Immutable, Sensitive: true},
			{No: 4, Name: "status", Merge: Immutable},
			{No: 5, Name: "error_class", Merge: Immutable},
			{No: 6, Name: "error_message", Merge: Immutable},
			{No: 7, Name: "execution_time_ms", Merge: Immutable},
			{No: 8, Name: "cpu_time_ms", Merge: Immutable},
			{No: 9, Name: "memory_used_mb", Merge: Immutable},
			{No: 10, Name: "host_calls", Merge: Immutable},
			{No: 11, Name: "version", Merge: Immutable},
			{No: 12, Name: "definition_hash", Merge: Immutable},
			{No: 13, Name: "caller", Merge: Immutable},
			{No: 14, Name: "parent_id", Merge: Immutable},
			{No: 15, Name: "timestamp", Merge: Immutable},
		},
	},
	{
		Table: "custom_tool_versions", Policy: AppendRows,
		Fields: []SyncedField{
			{No: 1, Name: "custom_tool_id", Merge: Immutable},
			{No: 2, Name: "version", Merge: Immutable},
			{No: 3, Name: "definition_hash", Merge: Immutable},
			{No: 4, Name: "language", Merge: Immutable},
			{No: 5, Name: "code", Merge: Immutable, Sensitive: true},
			{No: 6, Name: "parameters", Merge: Immutable},
			{No: 7, Name: "capabilities", Merge: Immutable},
			{No: 8, Name: "sandbox_profile", Merge: Immutable},
			{No: 9, Name: "limits", Merge: Immutable},
			{No: 10, Name: "description", Merge: Immutable},
			{No: 11, Name: "note", Merge: Immutable},
			{No: 12, Name: "author", Merge: Immutable},
		},
	},
	{
		Table: "custom_tools", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "name", Merge: LWW},
			{No: 2, Name: "description", Merge: ManualMerge}, // covered by the definition hash
			{No: 3, Name: "language", Merge: ManualMerge},
			{No: 4, Name: "code", Merge: ManualMerge, Sensitive: true},
			{No: 5, Name: "parameters", Merge: ManualMerge},
			{No: 6, Name: "capabilities", Merge: ManualMerge},
			{No: 7, Name: "sandbox_profile", Merge: ManualMerge},
			{No: 8, Name: "limits", Merge: ManualMerge},
			{No: 9, Name: "definition_hash", Merge: ManualMerge},
			{No: 10, Name: "version", Merge: LWW},
			{No: 11, Name: "author", Merge: LWW},
			{No: 12, Name: "signature", Merge: LWW},
			{No: 13, Name: "signer_fingerprint", Merge: LWW},
			{No: 14, Name: "signed_at", Merge: LWW},
			{No: 15, Name: "samples", Merge: LWW},
			{No: 16, Name: "tags", Merge: ORSet},
			{No: 17, Name: "icon", Merge: LWW},
			{No: 18, Name: "origin", Merge: LWW},
			{No: 19, Name: "clone_source_id", Merge: Immutable},
			{No: 20, Name: "visibility", Merge: DenyWins},
			{No: 21, Name: "is_enabled", Merge: DenyWins},
			{No: 22, Name: "sync_state", Merge: LWW},
			{No: 23, Name: "usage_count", Merge: PNCounter},
			{No: 24, Name: "last_used", Merge: Max},
		},
	},
	{
		Table: "documents", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "source", Merge: Immutable},
			{No: 2, Name: "source_uri", Merge: Immutable},
			{No: 3, Name: "title", Merge: LWW, Sensitive: true},
			{No: 4, Name: "mime", Merge: LWW},
			{No: 5, Name: "content_hash", Merge: LWW},
			{No: 6, Name: "untrusted", Merge: LWW},
			{No: 7, Name: "tags", Merge: ORSet},
			{No: 8, Name: "layer", Merge: LWW},
			{No: 9, Name: "type", Merge: LWW},
			{No: 10, Name: "occurred_at", Merge: LWW},
			{No: 11, Name: "metadata", Merge: LWW},
		},
	},
	{
		Table: "memories", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "type", Merge: LWW},
			{No: 2, Name: "content", Merge: Text3, Sensitive: true},
			{No: 3, Name: "emotional_valence", Merge: LWW},
			{No: 4, Name: "last_accessed", Merge: Max},
			{No: 5, Name: "occurred_at", Merge: LWW},
			{No: 6, Name: "layer", Merge: LWW},
			{No: 7, Name: "source", Merge: Immutable},
			{No: 8, Name: "source_ref", Merge: Immutable},
			{No: 9, Name: "untrusted", Merge: LWW},
			{No: 10, Name: "content_hash", Merge: LWW, HashOf: "content"},
			{No: 11, Name: "salience", Merge: LWW},
			{No: 12, Name: "salience_tier", Merge: LWW},
			{No: 13, Name: "pinned", Merge: LWW},
			{No: 14, Name: "access_count", Merge: PNCounter},
			{No: 15, Name: "initial_strength", Merge: LWW},
			{No: 16, Name: "last_reinforced_at", Merge: Max},
			{No: 17, Name: "metadata", Merge: LWW},
			{No: 18, Name: "version", Merge: Max},
			{No: 19, Name: "retention", Merge: Derived},
			{No: 21, Name: "decayed_at", Merge: Derived},
		},
	},
	{
		Table: "memory_patterns", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "pattern_id", Merge: Immutable},
			{No: 2, Name: "pattern_type", Merge: Immutable},
			{No: 3, Name: "category", Merge: Immutable},
			{No: 4, Name: "layer", Merge: Immutable},
			{No: 5, Name: "description", Merge: LWW, Sensitive: true},
			{No: 6, Name: "evidence", Merge: LWW, Sensitive: true},
			{No: 7, Name: "confidence", Merge: LWW},
			{No: 8, Name: "measured", Merge: LWW},
			{No: 9, Name: "confidence_parts", Merge: LWW},
			{No: 10, Name: "salience", Merge: LWW},
			{No: 11, Name: "subject", Merge: Immutable, Sensitive: true},
			{No: 12, Name: "subjects", Merge: LWW, Sensitive: true},
			{No: 13, Name: "recommendations", Merge: LWW, Sensitive: true},
			{No: 14, Name: "series", Merge: LWW, Sensitive: true},
			{No: 15, Name: "first_detected", Merge: Min},
			{No: 16, Name: "last_observed", Merge: Max},
			{No: 17, Name: "observation_count", Merge: PNCounter},
			{No: 18, Name: "last_confirmed", Merge: Max},
			{No: 19, Name: "status", Merge: LWW},
			{No: 20, Name: "superseded_by", Merge: LWW},
			{No: 21, Name: "user_confirmed", Merge: LWW},
			{No: 22, Name: "user_notes", Merge: LWW, Sensitive: true},
			{No: 23, Name: "engine", Merge: LWW},
			{No: 24, Name: "undo", Merge: Derived},
			{No: 25, Name: "job_id", Merge: Derived},
		},
	},
	{
		Table: "memory_revisions", Policy: AppendRows,
		Fields: []SyncedField{
			{No: 1, Name: "memory_id", Merge: Immutable},
			{No: 2, Name: "version", Merge: Immutable},
			{No: 3, Name: "content", Merge: Immutable, Sensitive: true},
			{No: 4, Name: "tags", Merge: Immutable},
			{No: 5, Name: "edited_at", Merge: Immutable},
			{No: 6, Name: "origin", Merge: Immutable},
		},
	},
	{
		Table: "memory_synthesis", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "pattern_type", Merge: Immutable},
			{No: 2, Name: "memory_ids", Merge: LWW, Sensitive: true},
			{No: 3, Name: "synthesis_content", Merge: LWW, Sensitive: true},
			{No: 4, Name: "confidence_score", Merge: LWW},
			{No: 5, Name: "fingerprint", Merge: Immutable},
			{No: 6, Name: "engine", Merge: LWW},
			{No: 7, Name: "layer", Merge: Immutable},
			{No: 8, Name: "last_observed", Merge: Max},
			{No: 9, Name: "observation_count", Merge: PNCounter},
			{No: 10, Name: "job_id", Merge: Derived},
		},
	},
	{
		Table: "memory_tags", Parent: "memories", ParentKey: "memory_id", ParentField: 20, Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "tag", Merge: ORSet},
		},
	},
	{
		// The id is derived from the alias, so two devices that correct the same name change the
		// same row.
		Table: "person_aliases", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "alias", Merge: Immutable, Sensitive: true},
			{No: 2, Name: "person", Merge: LWW, Sensitive: true},
			{No: 3, Name: "undo_token", Merge: Derived},
			{No: 4, Name: "undo_person", Merge: Derived},
		},
	},
	{
		// The id is derived from item and day, so two devices that plan the same review create the
		// same row.
		Table: "planned_reviews", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "item_id", Merge: Immutable},
			{No: 2, Name: "at", Merge: LWW},
		},
	},
	{
		Table: "psychology_entries", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "layer_number", Merge: Immutable},
			{No: 2, Name: "kind", Merge: Immutable},
			{No: 3, Name: "data", Merge: LWW, Sensitive: true},
			{No: 4, Name: "memory_ids", Merge: LWW},
			{No: 5, Name: "origin", Merge: Immutable},
			{No: 6, Name: "pattern_id", Merge: Immutable},
			{No: 7, Name: "initial_strength", Merge: LWW},
			{No: 8, Name: "last_reinforced_at", Merge: Max},
			{No: 9, Name: "reinforcement_count", Merge: PNCounter},
			{No: 10, Name: "open_until", Merge: Max},
			{No: 11, Name: "salience_tier", Merge: LWW},
			{No: 12, Name: "pinned", Merge: LWW},
			{No: 13, Name: "version", Merge: Max},
			{No: 14, Name: "retention", Merge: Derived},
			{No: 15, Name: "decayed_at", Merge: Derived},
		},
	},
	{
		Table: "psychology_layers", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "layer_number", Merge: Immutable},
			{No: 2, Name: "layer_name", Merge: Immutable},
			{No: 3, Name: "data", Merge: LWW, Sensitive: true},
			{No: 4, Name: "decay_model", Merge: LWW},
			{No: 5, Name: "decay_rate", Merge: LWW},
			{No: 6, Name: "initial_strength", Merge: LWW},
			{No: 7, Name: "enabled", Merge: LWW},
			{No: 8, Name: "last_updated", Merge: Max},
			{No: 9, Name: "last_reinforced_at", Merge: Max},
			{No: 10, Name: "version", Merge: Max},
			{No: 11, Name: "retention", Merge: Derived},
			{No: 12, Name: "decayed_at", Merge: Derived},
		},
	},
	{
		Table: "psychology_settings", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "enabled", Merge: LWW},
			{No: 2, Name: "decay_enabled", Merge: LWW},
			{No: 3, Name: "mode", Merge: LWW},
			{No: 4, Name: "rate", Merge: LWW},
			{No: 5, Name: "minimum_intensity", Merge: LWW},
			{No: 6, Name: "trust_decay", Merge: LWW},
			{No: 7, Name: "preserve_high_salience", Merge: LWW},
			{No: 8, Name: "hard_grace_days", Merge: LWW},
			{No: 9, Name: "agent_may_read", Merge: LWW},
			{No: 10, Name: "proposals", Merge: LWW},
		},
	},
	{
		// A run is logged when it has ended.
		Table: "schedule_runs", Policy: AppendRows, Final: "NEW.status IN ('success', 'failed', 'cancelled', 'missed', 'skipped')",
		Fields: []SyncedField{
			{No: 1, Name: "schedule_id", Merge: Immutable},
			{No: 2, Name: "due_at", Merge: Immutable},
			{No: 3, Name: "revision", Merge: Immutable},
			{No: 4, Name: "attempt", Merge: Immutable},
			{No: 5, Name: "trigger", Merge: Immutable},
			{No: 6, Name: "status", Merge: Immutable},
			{No: 7, Name: "reason", Merge: Immutable},
			{No: 8, Name: "target_kind", Merge: Immutable},
			{No: 9, Name: "target_run_id", Merge: Immutable},
			{No: 10, Name: "device_id", Merge: Immutable},
			{No: 11, Name: "lease_term", Merge: Immutable},
			{No: 12, Name: "claimed_at", Merge: Immutable},
			{No: 13, Name: "started_at", Merge: Immutable},
			{No: 14, Name: "finished_at", Merge: Immutable},
			{No: 15, Name: "late_ms", Merge: Immutable},
			{No: 16, Name: "output_summary", Merge: Immutable, Sensitive: true},
			{No: 17, Name: "error_kind", Merge: Immutable},
			{No: 18, Name: "error_message", Merge: Immutable},
			{No: 19, Name: "notified", Merge: Immutable},
			{No: 20, Name: "turn_count", Merge: Immutable},
			{No: 21, Name: "cost_micros", Merge: Immutable},
			{No: 22, Name: "missed_count", Merge: Immutable},
			{No: 23, Name: "missed_more", Merge: Immutable},
			{No: 24, Name: "last_missed_at", Merge: Immutable},
			{No: 25, Name: "retry_at", Merge: Derived},
			{No: 26, Name: "output", Merge: Derived},
		},
	},
	{
		Table: "schedules", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "name", Merge: LWW},
			{No: 2, Name: "description", Merge: LWW},
			{No: 3, Name: "status", Merge: LWW},
			{No: 4, Name: "disabled_reason", Merge: LWW},
			{No: 5, Name: "system_key", Merge: Immutable},
			{No: 6, Name: "target_kind", Merge: LWW},
			{No: 7, Name: "target_id", Merge: LWW},
			{No: 8, Name: "target_name", Merge: LWW},
			{No: 9, Name: "target_version", Merge: LWW},
			{No: 10, Name: "target_input", Merge: ManualMerge, Sensitive: true},
			{No: 11, Name: "is_enabled", Merge: DenyWins},
			{No: 12, Name: "cadence", Merge: ManualMerge},
			{No: 13, Name: "timezone", Merge: LWW},
			{No: 14, Name: "os_zone", Merge: LWW},
			{No: 15, Name: "starts_at", Merge: LWW},
			{No: 16, Name: "ends_at", Merge: LWW},
			{No: 17, Name: "max_runs", Merge: LWW},
			{No: 18, Name: "missed_policy", Merge: LWW},
			{No: 19, Name: "grace_secs", Merge: LWW},
			{No: 20, Name: "overlap", Merge: LWW},
			{No: 21, Name: "jitter_secs", Merge: LWW},
			{No: 22, Name: "retry", Merge: LWW},
			{No: 23, Name: "auto_disable_after", Merge: LWW},
			{No: 24, Name: "notify_after", Merge: LWW},
			{No: 25, Name: "notification", Merge: LWW},
			{No: 26, Name: "notify_when", Merge: LWW},
			{No: 27, Name: "max_run_ms", Merge: LWW},
			{No: 28, Name: "home_device_id", Merge: LWW},
			{No: 29, Name: "takeover", Merge: LWW},
			{No: 30, Name: "max_turns", Merge: LWW},
			{No: 31, Name: "max_cost_micros", Merge: LWW},
			{No: 32, Name: "revision", Merge: Max},
		},
	},
	{
		Table: "session_messages", Policy: AppendRows,
		Fields: []SyncedField{
			{No: 1, Name: "session_id", Merge: Immutable},
			{No: 2, Name: "seq", Merge: Immutable},
			{No: 3, Name: "turn_id", Merge: Immutable},
			{No: 4, Name: "role", Merge: Immutable},
			{No: 5, Name: "content", Merge: Immutable, Sensitive: true},
			{No: 6, Name: "origin", Merge: Immutable},
			{No: 7, Name: "model", Merge: Immutable},
			{No: 8, Name: "cost_micros", Merge: Immutable},
		},
	},
	{
		// A session runs on one device. Other devices can change only how it is displayed.
		Table: "sessions", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "device_id", Merge: Immutable},
			{No: 2, Name: "kind", Merge: Immutable},
			{No: 3, Name: "title", Merge: LWW, Sensitive: true},
			{No: 4, Name: "agent_name", Merge: LWW},
			{No: 5, Name: "parent_session_id", Merge: Immutable},
			{No: 6, Name: "parent_turn_id", Merge: Immutable},
			{No: 7, Name: "forked_from", Merge: Immutable},
			{No: 8, Name: "mode", Merge: LWW},
			{No: 9, Name: "queue_mode", Merge: LWW},
			{No: 10, Name: "model", Merge: LWW},
			{No: 11, Name: "project_dir", Merge: LWW},
			{No: 12, Name: "budget", Merge: LWW},
			{No: 13, Name: "remember", Merge: LWW},
			{No: 14, Name: "pinned", Merge: LWW},
			{No: 15, Name: "message_count", Merge: LWW},
			{No: 16, Name: "cost_micros", Merge: LWW},
			{No: 17, Name: "last_message_at", Merge: Max},
			{No: 18, Name: "archived_at", Merge: LWW},
		},
	},
	{
		// A run is logged when it has ended.
		Table: "skill_executions", Policy: AppendRows, Final: "NEW.status <> 'running'",
		Fields: []SyncedField{
			{No: 1, Name: "skill_id", Merge: Immutable},
			{No: 2, Name: "input_params", Merge: Immutable, Sensitive: true},
			{No: 3, Name: "output_result", Merge: Immutable, Sensitive: true},
			{No: 4, Name: "status", Merge: Immutable},
			{No: 5, Name: "error_class", Merge: Immutable},
			{No: 6, Name: "error_message", Merge: Immutable},
			{No: 7, Name: "execution_time_ms", Merge: Immutable},
			{No: 8, Name: "cpu_time_ms", Merge: Immutable},
			{No: 9, Name: "memory_used_mb", Merge: Immutable},
			{No: 10, Name: "host_calls", Merge: Immutable},
			{No: 11, Name: "tier", Merge: Immutable},
			{No: 12, Name: "isolation", Merge: Immutable},
			{No: 13, Name: "version", Merge: Immutable},
			{No: 14, Name: "definition_hash", Merge: Immutable},
			{No: 15, Name: "caller", Merge: Immutable},
			{No: 16, Name: "parent_id", Merge: Immutable},
			{No: 17, Name: "timestamp", Merge: Immutable},
		},
	},
	{
		Table: "skills", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "name", Merge: LWW},
			{No: 2, Name: "description", Merge: ManualMerge},
			{No: 3, Name: "wasm_bytecode", Merge: ManualMerge, Blob: true},
			{No: 4, Name: "wasm_size", Merge: ManualMerge},
			{No: 5, Name: "abi", Merge: ManualMerge},
			{No: 6, Name: "version", Merge: LWW},
			{No: 7, Name: "timeout_ms", Merge: LWW},
			{No: 8, Name: "memory_mb", Merge: LWW},
			{No: 9, Name: "capabilities", Merge: ManualMerge},
			{No: 10, Name: "input_schema", Merge: ManualMerge},
			{No: 11, Name: "definition_hash", Merge: ManualMerge},
			{No: 12, Name: "signature", Merge: LWW},
			{No: 13, Name: "signer_fingerprint", Merge: LWW},
			{No: 14, Name: "origin", Merge: LWW},
			{No: 15, Name: "is_enabled", Merge: DenyWins},
		},
	},
	{
		Table: "soul_documents", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "text", Merge: Text3, Sensitive: true},
			{No: 2, Name: "version", Merge: Max},
			{No: 3, Name: "sha256", Merge: LWW, HashOf: "text"},
		},
	},
	{
		Table: "soul_revisions", Policy: AppendRows,
		Fields: []SyncedField{
			{No: 1, Name: "version", Merge: Immutable},
			{No: 2, Name: "text", Merge: Immutable, Sensitive: true},
			{No: 3, Name: "at", Merge: Immutable},
		},
	},
	{
		// A resolved conflict is never reopened.
		Table: "sync_conflicts", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "table_name", Merge: Immutable},
			{No: 2, Name: "row_id", Merge: Immutable},
			{No: 3, Name: "field", Merge: Immutable},
			{No: 4, Name: "kind", Merge: Immutable},
			{No: 5, Name: "strategy", Merge: Immutable},
			{No: 6, Name: "base", Merge: Immutable, Sensitive: true},
			{No: 7, Name: "local_value", Merge: Immutable, Sensitive: true},
			{No: 8, Name: "remote_value", Merge: Immutable, Sensitive: true},
			{No: 9, Name: "local_dot", Merge: Immutable},
			{No: 10, Name: "remote_dot", Merge: Immutable},
			{No: 11, Name: "status", Merge: DenyWins},
			{No: 12, Name: "resolution", Merge: LWW},
			{No: 13, Name: "resolved_at", Merge: Max},
			{No: 14, Name: "local_at", Merge: Immutable},
			{No: 15, Name: "remote_at", Merge: Immutable},
		},
	},
	{
		Table: "synthesis_recommendations", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "pattern_id", Merge: Immutable},
			{No: 2, Name: "recommendation", Merge: Immutable, Sensitive: true},
			{No: 3, Name: "category", Merge: Immutable},
			{No: 4, Name: "priority", Merge: LWW},
			{No: 5, Name: "status", Merge: LWW},
		},
	},
	{
		// A run is logged when it has ended.
		Table: "tool_execution_log", Policy: AppendRows, Final: "NEW.status <> 'running'",
		Fields: []SyncedField{
			{No: 1, Name: "tool_id", Merge: Immutable},
			{No: 2, Name: "operation", Merge: Immutable},
			{No: 3, Name: "input_params", Merge: Immutable, Sensitive: true},
			{No: 4, Name: "started_at", Merge: Immutable},
			{No: 5, Name: "completed_at", Merge: Immutable},
			{No: 6, Name: "duration_ms", Merge: Immutable},
			{No: 7, Name: "status", Merge: Immutable},
			{No: 8, Name: "error_class", Merge: Immutable},
			{No: 9, Name: "error_message", Merge: Immutable},
			{No: 10, Name: "output", Merge: Immutable, Sensitive: true},
			{No: 11, Name: "output_blob", Merge: Immutable, Blob: true},
			{No: 12, Name: "http_status", Merge: Immutable},
			{No: 13, Name: "bytes_out", Merge: Immutable},
			{No: 14, Name: "bytes_in", Merge: Immutable},
			{No: 15, Name: "definition_hash", Merge: Immutable},
			{No: 16, Name: "caller", Merge: Immutable},
			{No: 17, Name: "run_id", Merge: Immutable},
		},
	},
	{
		// Approvals are in tool_install, which stays on its device: of the states, only disabled and revoked
		// count on other devices.
		Table: "tool_manifest", Policy: MergeRows, Free: "status = 'revoked'", Slugs: true,
		Fields: []SyncedField{
			{No: 1, Name: "name", Merge: LWW},
			{No: 2, Name: "version", Merge: ManualMerge},
			{No: 3, Name: "description", Merge: ManualMerge},
			{No: 4, Name: "source_type", Merge: ManualMerge},
			{No: 5, Name: "source_location", Merge: ManualMerge},
			{No: 6, Name: "status", Merge: DenyWins},
			{No: 7, Name: "execution_type", Merge: ManualMerge},
			{No: 8, Name: "execution_timeout", Merge: ManualMerge},
			{No: 9, Name: "openapi_spec", Merge: ManualMerge, Blob: true},
			{No: 10, Name: "manifest", Merge: ManualMerge},
			{No: 11, Name: "definition_hash", Merge: ManualMerge},
			{No: 12, Name: "revoked_at", Merge: Max},
			{No: 13, Name: "seen_hash", Merge: Derived},
			{No: 14, Name: "seen_status", Merge: Derived},
		},
	},
	{
		Table: "tool_signers", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "fingerprint", Merge: Immutable},
			{No: 2, Name: "public_key", Merge: Immutable},
			{No: 3, Name: "name", Merge: LWW},
			{No: 4, Name: "trusted", Merge: DenyWins},
			{No: 5, Name: "added_at", Merge: Min},
		},
	},
	{
		Table: "trust_interactions", Policy: AppendRows,
		Fields: []SyncedField{
			{No: 1, Name: "person_id", Merge: Immutable},
			{No: 2, Name: "at", Merge: Immutable},
			{No: 3, Name: "dimension", Merge: Immutable},
			{No: 4, Name: "evidence", Merge: Immutable},
			{No: 5, Name: "salience_tier", Merge: Immutable},
			{No: 6, Name: "note", Merge: Immutable, Sensitive: true},
			{No: 7, Name: "memory_id", Merge: Immutable},
			{No: 8, Name: "before", Merge: Immutable},
			{No: 9, Name: "after", Merge: Immutable},
		},
	},
	{
		Table: "voice_commands", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "name", Merge: LWW, Sensitive: true},
			{No: 2, Name: "trigger_phrase", Merge: LWW, Sensitive: true},
			{No: 3, Name: "trigger_confidence", Merge: LWW},
			{No: 4, Name: "action_type", Merge: LWW},
			{No: 5, Name: "tool_id", Merge: LWW},
			{No: 6, Name: "skill_id", Merge: LWW},
			{No: 7, Name: "navigation_target", Merge: LWW},
			{No: 8, Name: "system_action", Merge: LWW},
			{No: 9, Name: "action_params", Merge: LWW, Sensitive: true},
			{No: 10, Name: "target_hash", Merge: LWW},
			{No: 11, Name: "risk_tier", Merge: LWW},
			{No: 12, Name: "enabled", Merge: LWW},
			{No: 13, Name: "usage_count", Merge: LWW},
			{No: 14, Name: "last_used", Merge: LWW},
		},
	},
	{
		Table: "voice_memo_audit", Policy: AppendRows,
		Fields: []SyncedField{
			{No: 1, Name: "recording_id", Merge: Immutable},
			{No: 2, Name: "action", Merge: Immutable},
			{No: 3, Name: "detail", Merge: Immutable},
		},
	},
	{
		Table: "voice_memos", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "recording_id", Merge: Immutable},
			{No: 2, Name: "title", Merge: LWW, Sensitive: true},
			{No: 3, Name: "tags", Merge: ORSet},
			{No: 4, Name: "transcription_status", Merge: LWW},
			{No: 5, Name: "transcription_error", Merge: LWW},
			{No: 6, Name: "recorded_at", Merge: LWW},
		},
	},
	{
		// The sound itself stays on the device that has it, unless the user saves it on the hub.
		Table: "voice_recordings", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "device_id", Merge: Immutable},
			{No: 2, Name: "source", Merge: Immutable},
			{No: 3, Name: "audio_sha256", Merge: Derived, Blob: true},
			{No: 4, Name: "audio_size", Merge: Immutable},
			{No: 5, Name: "format", Merge: Immutable},
			{No: 6, Name: "codec", Merge: Immutable},
			{No: 7, Name: "sample_rate", Merge: Immutable},
			{No: 8, Name: "channels", Merge: Immutable},
			{No: 9, Name: "duration_ms", Merge: LWW},
			{No: 10, Name: "lost_ms", Merge: LWW},
			{No: 11, Name: "recorded_at", Merge: LWW},
			{No: 12, Name: "pinned", Merge: LWW},
			{No: 13, Name: "gaps", Merge: Immutable},
			{No: 14, Name: "recovered", Merge: Immutable},
			{No: 15, Name: "sound_deleted_at", Merge: Derived},
			{No: 16, Name: "audio_format", Merge: LWW},
			{No: 17, Name: "hub_audio", Merge: LWW, Blob: true},
		},
	},
	{
		Table: "voice_sessions", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "mode", Merge: Immutable},
			{No: 2, Name: "started_at", Merge: Immutable},
			{No: 3, Name: "ended_at", Merge: LWW},
			{No: 4, Name: "turns", Merge: LWW},
		},
	},
	{
		Table: "voice_settings", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "provider", Merge: LWW},
			{No: 2, Name: "model", Merge: LWW},
			{No: 3, Name: "language", Merge: LWW},
			{No: 4, Name: "local_engine", Merge: LWW},
			{No: 5, Name: "fallback", Merge: LWW},
			{No: 6, Name: "vad_enabled", Merge: LWW},
			{No: 7, Name: "retain_audio", Merge: LWW},
			{No: 8, Name: "push_to_talk_key", Merge: LWW},
			{No: 9, Name: "command_confirm_ms", Merge: LWW},
			{No: 10, Name: "denoise", Merge: LWW},
			{No: 11, Name: "denoise_for_cloud", Merge: LWW},
			{No: 12, Name: "trim_silence", Merge: LWW},
			{No: 13, Name: "local_model", Merge: LWW},
			{No: 14, Name: "save_transcripts", Merge: LWW},
			{No: 15, Name: "save_audio", Merge: LWW},
			{No: 16, Name: "tts_provider", Merge: LWW},
			{No: 17, Name: "wake_word", Merge: LWW},
		},
	},
	{
		// A version is written once; an edit makes another one.
		Table: "voice_transcripts", Policy: MergeRows, Final: "NEW.device_only = 0",
		Fields: []SyncedField{
			{No: 1, Name: "recording_id", Merge: Immutable},
			{No: 2, Name: "engine", Merge: Immutable},
			{No: 3, Name: "model", Merge: Immutable},
			{No: 4, Name: "language_code", Merge: Immutable},
			{No: 5, Name: "text", Merge: Immutable, Sensitive: true},
			{No: 6, Name: "confidence", Merge: Immutable},
			{No: 7, Name: "words", Merge: Immutable, Sensitive: true},
			{No: 8, Name: "is_current", Merge: LWW},
			{No: 9, Name: "edited_at", Merge: Immutable},
			{No: 10, Name: "device_only", Merge: Derived},
		},
	},
	{
		Table: "voicemail_messages", Policy: MergeRows,
		Fields: []SyncedField{
			{No: 1, Name: "recording_id", Merge: Immutable},
			{No: 2, Name: "sender", Merge: Immutable, Sensitive: true},
			{No: 3, Name: "received_at", Merge: Immutable},
			{No: 4, Name: "is_heard", Merge: LWW},
			{No: 5, Name: "heard_at", Merge: LWW},
			{No: 6, Name: "archived_at", Merge: LWW},
		},
	},
}

// LocalOnly lists the tables with a user_id that never leave this device, sorted.
var LocalOnly = []string{
	"agent_budgets",
	"agent_ledger",        // this device's calls
	"agent_skill_folders", // folders of this device
	"agent_skills",
	"agent_turns",
	"audit_log", // synced by its own key (device_id, seq), never through change_log
	"capability_grants",
	"channel_inbox", // a channel runs on one device
	"channel_outbox",
	"channel_rejections",
	"channel_routes",
	"channel_senders",
	"channel_sessions",
	"channels",
	"chat_attachments", // of messages that have not been sent yet
	"container_runs",
	"container_tools", // images and approvals of this device
	"custom_tool_replies",
	"custom_tool_runs",
	"custom_tool_shares",
	"custom_tool_state",
	"decay_runs",
	"definitions",
	"deletions",
	"device_keys",
	"discovery_catalog", // folders of this device
	"embedding_jobs",
	"eval_runs", // of this build
	"gateway_tokens",
	"item_vectors",
	"mcp_calls",
	"mcp_exposed",
	"mcp_servers", // commands and folders of this device
	"mcp_tools",
	"memory_decay_history",
	"memory_imports",
	"memory_synthesis_jobs",
	"memory_undo",
	"model_roles", // they name providers of this device
	"pending_approvals",
	"pinned_skills", // in the tray menu of this device
	"providers",     // their keys stay on this device
	"recall_log",
	"relay_rows",
	"rpc_idempotency",
	"schedule_notices",
	"schedule_pause",
	"schedule_state",
	"search_items",
	"secrets",
	"session_blobs",
	"session_state",
	"skill_state",
	"sync_local",
	"tool_credential",      // its values are in the secrets of this device
	"tool_discovery_queue", // what is missing on this device
	"tool_install",         // an approval is valid only on the device where it was given
	"tool_secrets",
	"voice_microphones",
	"voice_processing_queue", // recordings of this device
	"watched_files",          // paths of this device
	"watched_folders",
}
