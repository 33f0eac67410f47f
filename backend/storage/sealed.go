package storage

// SealedColumn names a column whose values go through Keys.Seal. ID is the column whose
// 16 bytes are bound into the seal; "" means "id". Private columns are sealed only if
// storage.private is true. They have the type ANY and hold plain values as TEXT and sealed ones as
// BLOB.
type SealedColumn struct {
	Table, Column string
	ID            string
	Private       bool
}

// Sealed lists every sealed column, sorted by table. Key rotation iterates over it, tests search
// files for plain text of these columns, and export omits the columns of secrets.
var Sealed = []SealedColumn{
	{Table: "channel_inbox", Column: "payload", Private: true},
	{Table: "channel_outbox", Column: "payload", Private: true},
	{Table: "chunks", Column: "content", Private: true},
	{Table: "conversation_events", Column: "payload_json", ID: "session_id", Private: true},
	{Table: "conversation_turns", Column: "content", Private: true},
	{Table: "device_keys", Column: "private_key"},
	{Table: "memories", Column: "content", Private: true},
	{Table: "memory_patterns", Column: "description", Private: true},
	{Table: "memory_patterns", Column: "evidence", Private: true},
	{Table: "memory_patterns", Column: "recommendations", Private: true},
	{Table: "memory_patterns", Column: "subject", Private: true},
	{Table: "memory_patterns", Column: "subjects", Private: true},
	{Table: "memory_patterns", Column: "undo", Private: true},
	{Table: "memory_patterns", Column: "user_notes", Private: true},
	{Table: "memory_revisions", Column: "content", Private: true},
	{Table: "memory_synthesis", Column: "synthesis_content", Private: true},
	{Table: "memory_synthesis_jobs", Column: "insights", Private: true},
	{Table: "memory_synthesis_jobs", Column: "params", Private: true},
	{Table: "person_aliases", Column: "alias", Private: true},
	{Table: "person_aliases", Column: "person", Private: true},
	{Table: "person_aliases", Column: "undo_person", Private: true},
	{Table: "psychology_entries", Column: "data"},
	{Table: "psychology_layers", Column: "data"},
	{Table: "recall_log", Column: "shingles", ID: "item_id", Private: true},
	{Table: "rpc_idempotency", Column: "response", ID: "key"},
	{Table: "secrets", Column: "value"},
	{Table: "session_messages", Column: "content", Private: true},
	{Table: "session_state", Column: "state", ID: "session_id", Private: true},
	{Table: "soul_documents", Column: "text"},
	{Table: "soul_revisions", Column: "text"},
	{Table: "sync_conflicts", Column: "base", Private: true},
	{Table: "sync_conflicts", Column: "local_value", Private: true},
	{Table: "sync_conflicts", Column: "remote_value", Private: true},
	{Table: "synthesis_recommendations", Column: "recommendation", Private: true},
	{Table: "tool_secrets", Column: "value"},
	{Table: "trust_interactions", Column: "note"},
	{Table: "voice_memos", Column: "title", Private: true},
	{Table: "voice_transcripts", Column: "text", Private: true},
	{Table: "voice_transcripts", Column: "words", Private: true},
	{Table: "voicemail_messages", Column: "sender", Private: true},
}
