/** Names for the backend's types that this screen uses. */
import type { Item, Params, Result } from "../../lib/rpc";

export type Memory = Item<"memory.list", "items">;
export type Hit = Item<"memory.search", "results">;
export type Enhanced = Result<"memory.search_enhanced">;
export type Facets = NonNullable<Enhanced["facets"]>;
export type Count = Facets["type"][number];
export type Parts = NonNullable<Hit["parts"]>;
export type Span = Hit["highlights"][number];
export type Filters = NonNullable<Params<"memory.list">["filters"]>;
export type Revision = Item<"memory.history", "revisions">;
export type Conversation = Item<"memory.conversations", "conversations">;
export type Turn = Item<"memory.conversation", "turns">;
export type Doc = Item<"memory.list_documents", "documents">;
export type Stats = Result<"memory.stats">;
export type Preview = Result<"memory.import_preview">;
export type ImportParams = Params<"memory.import">;
export type ImportJob = Item<"memory.imports", "jobs">;
export type EmbeddingStatus = Result<"memory.embedding_status">;
export type AddParams = Params<"memory.add">;
export type UpdateParams = Params<"memory.update">;
export type PageParams = Params<"memory.conversations">;

export type Kind = "memory" | "turn" | "chunk";
export type Mode = "hybrid" | "keyword" | "vector";
export type Tier = "critical" | "high" | "medium" | "low";
export type View = "list" | "timeline" | "conversations" | "documents";
