/** Records for the tests of this folder. */
export { fake, until } from "../../../lib/rpc/testing";
import type { Execution, Module, ModuleResult, Report } from "./module";

export const module = (over: Partial<Module> = {}): Module => ({
  id: "s1",
  name: "Word count",
  description: "Counts words.",
  wasmBytecode: `sha256:${"ab".repeat(32)}`,
  wasmSize: 21_000,
  abi: "command",
  version: "1.0.0",
  timeoutMs: 5000,
  memoryMb: 128,
  capabilities: [],
  inputSchema: {},
  definitionHash: "00".repeat(32),
  signature: { state: "none" },
  signer: "unsigned",
  origin: "import",
  isEnabled: true,
  suspended: false,
  downloaded: true,
  tier: "t1",
  isolation: "process+landlock",
  reasons: ["bwrap_missing"],
  runs: 0,
  createdAt: "2026-01-01T00:00:00Z",
  updatedAt: "2026-01-01T00:00:00Z",
  ...over,
});

export const report = (over: Partial<Report> = {}): Report => ({
  valid: true,
  errors: [],
  warnings: [],
  info: { abi: "command", exports: ["_start", "memory"], imports: ["wasi_snapshot_preview1.fd_read"], memory: 2, tables: 1, size: 21_000, sha256: "ab".repeat(32) },
  capabilities: [],
  tier: "t1",
  isolation: "process+landlock",
  reasons: ["bwrap_missing"],
  signature: { state: "none" },
  signer: "unsigned",
  ...over,
});

export const result = (over: Partial<ModuleResult> = {}): ModuleResult => ({
  success: true,
  output: { words: 4 },
  executionId: "e1",
  status: "success",
  executionTimeMs: 12.5,
  cpuTimeMs: 3,
  peakMemoryBytes: 2_097_152,
  hostCalls: 0,
  fuel: 1000,
  outputBytes: 11,
  logs: [],
  tier: "t1",
  isolation: "process+landlock",
  reasons: ["bwrap_missing"],
  limits: { wallMs: 5000, cpuMs: 5000, memoryBytes: 134_217_728, inputBytes: 4_194_304, outputBytes: 1_048_576, logBytes: 65_536, hostCalls: 1000 },
  auditLog: [],
  ...over,
});

export const execution = (over: Partial<Execution> = {}): Execution => ({
  id: "e1",
  skillId: "s1",
  input: {},
  output: { words: 4 },
  status: "success",
  executionTimeMs: 12,
  cpuTimeMs: 3,
  memoryUsedMb: 2,
  hostCalls: 0,
  tier: "t1",
  isolation: "process+landlock",
  version: "1.0.0",
  caller: "user",
  timestamp: "2026-01-01T00:00:00Z",
  ...over,
});

/** A file of `size` bytes that begins like a module. */
export function moduleFile(name = "word_count.wasm", size = 64) {
  const bytes = new Uint8Array(size);
  bytes.set([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0].slice(0, size));
  return { name, size, arrayBuffer: async () => bytes.buffer as ArrayBuffer };
}
