/** Records for the tests of this folder. */
export { fake, until } from "../../lib/rpc/testing";
import type { Notice, PreviewTime, Run, Schedule, Status } from "./types";

export const schedule = (over: Partial<Schedule> = {}): Schedule => ({
  scheduleId: "s1",
  name: "Morning report",
  description: "",
  status: "active",
  system: false,
  target: { kind: "skill", id: "k1", name: "Report", input: { city: "Oslo" } },
  cadence: { type: "cron", expression: "0 9 * * 1-5", timezone: "Europe/Berlin" },
  words: "weekdays at 09:00, Berlin",
  parts: { times: ["09:00"], weekdays: [1, 2, 3, 4, 5], timezone: "Europe/Berlin" },
  osZone: false,
  missedPolicy: "once",
  graceSecs: 86_400,
  overlap: "skip",
  jitterSecs: 0,
  retry: { max: 2, baseSecs: 60, capSecs: 3600 },
  autoDisableAfter: 5,
  notifyAfterFailures: 3,
  notification: "conditional",
  maxRunMs: 1_800_000,
  placement: { homeDeviceId: "d1", takeover: false, here: true },
  budget: { maxTurns: 10, maxCostMicros: 500_000 },
  revision: 3,
  nextRunAt: "2026-03-03T08:00:00Z",
  lastRun: null,
  recentRuns: [],
  runCount: 0,
  consecutiveFailures: 0,
  createdAt: "2026-01-01T00:00:00Z",
  updatedAt: "2026-01-01T00:00:00Z",
  ...over,
});

export const run = (over: Partial<Run> = {}): Run => ({
  runId: "r1",
  scheduleId: "s1",
  scheduleName: "Morning report",
  dueAt: "2026-03-02T08:00:00Z",
  trigger: "due",
  attempt: 0,
  status: "success",
  targetKind: "skill",
  targetRunId: "e1",
  deviceId: "d1",
  lateMs: 0,
  outputSummary: "",
  notified: false,
  turnCount: 0,
  costMicros: 0,
  ...over,
});

export const status = (over: Partial<Status> = {}): Status => ({
  enabled: true,
  pausedAll: false,
  lanes: [
    { lane: "skill", running: 1, capacity: 2, waiting: 0 },
    { lane: "tool", running: 2, capacity: 4, waiting: 3 },
  ],
  nextDue: { scheduleId: "s1", name: "Morning report", at: "2026-03-03T08:00:00Z" },
  clock: { skewMs: 0 },
  leases: [],
  targets: [
    { kind: "agent", title: "Agent turn", reason: "Agent turns are not available in this build." },
    { kind: "skill", title: "Skill" },
    { kind: "tool", title: "Tool" },
  ],
  timezone: "Europe/Berlin",
  ...over,
});

export const notice = (id: string, over: Partial<Notice> = {}): Notice => ({ noticeId: id, scheduleId: "s1", runId: "r1", title: `Notice ${id}`, body: "", level: "info", at: "2026-03-02T08:00:00Z", ...over });

/** Due times a fixed step apart, in UTC. */
export function times(first: string, stepMs: number, count: number): PreviewTime[] {
  return Array.from({ length: count }, (_, i) => {
    const at = new Date(Date.parse(first) + i * stepMs).toISOString();
    return { at, local: at.slice(0, 19).replace("T", " "), offset: "+00:00" };
  });
}
