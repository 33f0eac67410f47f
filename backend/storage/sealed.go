package storage

// SealedColumn names a column whose values go through Keys.Seal. ID is the column whose
// 16 bytes are bound into the seal; "" means "id". Private columns are sealed only with
// storage.private=true: they have the type ANY, and hold a text when it is plain and a BLOB when
// it is sealed.
type SealedColumn struct {
	Table, Column string
	ID            string
	Private       bool
}

// Sealed lists every sealed column, sorted by table. Rotation walks it, the tests look for
// plain text of it in files, and export leaves the columns of secrets out.
var Sealed = []SealedColumn{
	{Table: "chunks", Column: "content", Private: true},
	{Table: "conversation_events", Column: "payload_json", ID: "session_id", Private: true},
	{Table: "conversation_turns", Column: "content", Private: true},
	{Table: "device_keys", Column: "private_key"},
	{Table: "memories", Column: "content", Private: true},
	{Table: "memory_revisions", Column: "content", Private: true},
	{Table: "psychology_entries", Column: "data"},
	{Table: "psychology_layers", Column: "data"},
	{Table: "recall_log", Column: "shingles", ID: "item_id", Private: true},
	{Table: "rpc_idempotency", Column: "response", ID: "key"},
	{Table: "secrets", Column: "value"},
	{Table: "session_messages", Column: "content", Private: true},
	{Table: "session_state", Column: "state", ID: "session_id", Private: true},
	{Table: "soul_documents", Column: "text"},
	{Table: "soul_revisions", Column: "text"},
	{Table: "tool_secrets", Column: "value"},
	{Table: "trust_interactions", Column: "note"},
}
