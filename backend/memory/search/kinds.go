package search

import (
	"slices"
)

// The kinds of items.
const (
	KindMemory = "memory"
	KindTurn   = "turn"
	KindChunk  = "chunk"
)

// kind describes where the items of one kind are stored in the database.
type kind struct {
	name  string
	table string
	// rows selects the items that should be indexed: user_id, id, parent, seq, hash.
	rows string
	// attributes selects what the catalog holds. A turn has the attributes of its conversation and
	// a chunk those of its document.
	attributes string
	// words selects what is indexed, in batches: item, id, title, heading, tags, speaker, seq, text.
	words string
	// texts selects what is shown of a user's items. The + keeps SQLite from scanning all
	// rows of the user.
	texts string
}

// kinds is ordered by the numbers of the kinds in the catalog.
var kinds = []kind{
	{
		name: KindMemory, table: "memories",
		rows: `SELECT m.user_id AS user_id, m.id AS id, NULL AS parent, NULL AS seq, m.content_hash AS hash FROM memories m WHERE m.deleted_at IS NULL`,
		attributes: `SELECT s.item, s.tokens, s.user_id, m.id, NULL, 0, m.type, m.layer, m.source, '', m.untrusted, m.pinned, m.salience, m.retention,
			m.occurred_at, m.created_at, (SELECT json_group_array(t.tag) FROM memory_tags t WHERE t.memory_id = m.id)
			FROM search_items s JOIN memories m ON m.id = s.item_id WHERE s.kind = 'memory'`,
		words: `SELECT s.item, m.id, m.metadata, '', (SELECT json_group_array(t.tag ORDER BY t.tag) FROM memory_tags t WHERE t.memory_id = m.id), '', 0, m.content
			FROM search_items s JOIN memories m ON m.id = s.item_id WHERE s.kind = 'memory' AND s.item > ? ORDER BY s.item LIMIT 1000`,
		texts: `SELECT id, content, metadata, coalesce(source_ref, ''), '', salience_tier, NULL, NULL FROM memories WHERE deleted_at IS NULL AND +user_id = ? AND id IN (`,
	},
	{
		name: KindTurn, table: "conversation_turns",
		rows: `SELECT t.user_id AS user_id, t.id AS id, t.conversation_id AS parent, t.seq AS seq, t.content_hash AS hash FROM conversation_turns t
			JOIN conversations c ON c.id = t.conversation_id WHERE t.deleted_at IS NULL AND c.deleted_at IS NULL`,
		attributes: `SELECT s.item, s.tokens, s.user_id, t.id, s.parent_id, s.seq, c.type, c.layer, c.source, t.speaker, c.untrusted, 0, 50, NULL,
			t.occurred_at, t.created_at, c.tags
			FROM search_items s JOIN conversation_turns t ON t.id = s.item_id JOIN conversations c ON c.id = t.conversation_id WHERE s.kind = 'turn' ORDER BY s.parent_id, s.seq`,
		words: `SELECT s.item, t.id, c.title, '', c.tags, t.speaker, t.seq, t.content
			FROM search_items s JOIN conversation_turns t ON t.id = s.item_id JOIN conversations c ON c.id = t.conversation_id WHERE s.kind = 'turn' AND s.item > ? ORDER BY s.item LIMIT 1000`,
		texts: `SELECT t.id, t.content, c.title, c.external_id, coalesce(t.external_id, ''), '', NULL, NULL FROM conversation_turns t
			JOIN conversations c ON c.id = t.conversation_id WHERE t.deleted_at IS NULL AND +t.user_id = ? AND t.id IN (`,
	},
	{
		name: KindChunk, table: "chunks",
		rows: `SELECT k.user_id AS user_id, k.id AS id, k.document_id AS parent, k.seq AS seq, k.content_hash AS hash FROM chunks k
			JOIN documents d ON d.id = k.document_id WHERE k.deleted_at IS NULL AND d.deleted_at IS NULL`,
		attributes: `SELECT s.item, s.tokens, s.user_id, k.id, s.parent_id, s.seq, d.type, d.layer, d.source, '', d.untrusted, 0, 50, NULL,
			d.occurred_at, k.created_at, d.tags
			FROM search_items s JOIN chunks k ON k.id = s.item_id JOIN documents d ON d.id = k.document_id WHERE s.kind = 'chunk' ORDER BY s.parent_id, s.seq`,
		words: `SELECT s.item, k.id, d.title, k.heading, d.tags, '', k.seq, k.content
			FROM search_items s JOIN chunks k ON k.id = s.item_id JOIN documents d ON d.id = k.document_id WHERE s.kind = 'chunk' AND s.item > ? ORDER BY s.item LIMIT 1000`,
		texts: `SELECT k.id, k.content, CASE WHEN k.heading = '' THEN d.title ELSE d.title || ' › ' || k.heading END, d.source_uri, '', '', k.start_offset, k.end_offset FROM chunks k
			JOIN documents d ON d.id = k.document_id WHERE k.deleted_at IS NULL AND +k.user_id = ? AND k.id IN (`,
	},
}

// Table returns the table whose rows are the items of a kind, or "" for an unknown kind.
func Table(name string) string {
	if i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name }); i >= 0 {
		return kinds[i].table
	}
	return ""
}
