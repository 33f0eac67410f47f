/** Records for the tests of this folder. */
export { fake, until } from "../../lib/rpc/testing";
import type { Conversation, Doc, EmbeddingStatus, Hit, ImportJob, Memory, Preview, Stats } from "./types";

export const memory = (id: string, over: Partial<Memory> = {}): Memory => ({
  id,
  type: "episodic",
  content: `Text of ${id}`,
  tags: [],
  source: "manual",
  untrusted: false,
  salience: 50,
  salienceTier: "medium",
  pinned: false,
  accessCount: 0,
  initialStrength: 1,
  embeddingState: "ready",
  version: 1,
  createdAt: "2026-03-02T08:00:00Z",
  updatedAt: "2026-03-02T08:00:00Z",
  ...over,
});

export const hit = (id: string, over: Partial<Hit> = {}): Hit => ({
  id,
  kind: "memory",
  snippet: `Text of ${id}`,
  highlights: [{ start: 0, end: 4 }],
  evidence: [{ kind: "memory", id, quote: `Text of ${id}` }],
  score: 1,
  parts: { bm25Rank: 1, bm25: 4, vectorRank: 2, cosine: 0.5, rrf: 0.02, recency: 1, salience: 1, retention: 1, pinned: 1, cues: 1, window: 2 },
  tags: [],
  source: "manual",
  createdAt: "2026-03-02T08:00:00Z",
  untrusted: false,
  pinned: false,
  ...over,
});

export const turnHit = (id: string, conversationId: string, seq: number): Hit => hit(id, { kind: "turn", source: "chatgpt", evidence: [{ kind: "turn", id, conversationId, seq, quote: "q" }] });

export const conversation = (id: string, over: Partial<Conversation> = {}): Conversation => ({
  id,
  source: "chatgpt",
  externalId: id,
  title: `Talk ${id}`,
  participants: ["You", "ChatGPT"],
  tags: [],
  untrusted: true,
  turns: 2,
  startedAt: "2026-03-02T08:00:00Z",
  endedAt: "2026-03-02T09:00:00Z",
  createdAt: "2026-04-01T00:00:00Z",
  ...over,
});

export const doc = (id: string, over: Partial<Doc> = {}): Doc => ({ id, source: "markdown", sourceUri: `file:///notes/${id}.md`, title: `Note ${id}`, mime: "text/markdown", tags: [], untrusted: true, chunks: 1, createdAt: "2026-04-01T00:00:00Z", updatedAt: "2026-04-01T00:00:00Z", ...over });

export const stats = (over: Partial<Stats> = {}): Stats => ({ total: 1, memories: 1, turns: 0, chunks: 0, conversations: 0, documents: 0, trash: 0, byType: [], byLayer: [], bySource: [], byMonth: [], tags: [], indexBytes: 0, vectorBytes: 0, ...over });

export const job = (id: string, over: Partial<ImportJob> = {}): ImportJob => ({ jobId: id, format: "chatgpt", path: "/home/me/chats.zip", status: "running", progress: 0.5, read: 10, added: 8, updated: 0, skipped: 1, failed: 1, errors: [], ...over });

export const preview = (over: Partial<Preview> = {}): Preview => ({ format: "chatgpt", conversations: 2, items: 10, samples: [], warnings: [], duplicates: 0, ...over });

export const embedding = (over: Partial<EmbeddingStatus> = {}): EmbeddingStatus => ({ modelId: "m", dims: 512, ready: 62, queued: 38, stale: 0, failed: 0, ratePerSec: 2, etaSeconds: 19, paused: false, available: true, models: ["m"], ...over });
