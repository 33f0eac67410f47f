import { describe, expect, it } from "vitest";
import { t } from "./messages";
import { isOpen, runState, stateOptions, stateTitle, stateTone, stateWord } from "./states";

describe("the state of a run", () => {
  it("is one word for every name that it has on the wire", () => {
    for (const same of [["success", "completed", "done", "ran"], ["failure", "failed"], ["cancelled", "canceled"]]) {
      expect(new Set(same.map(stateWord)).size, same.join()).toBe(1);
      expect(new Set(same.map(stateTone)).size, same.join()).toBe(1);
    }
    expect(stateWord("success")).toBe("succeeded");
    expect(stateTitle("cancelled")).toBe("Canceled");
  });

  it("has a text for each status that a domain has on the wire", () => {
    const domains = {
      tools: ["running", "waiting", "success", "failure", "timeout", "canceled"],
      wasm: ["running", "success", "failure", "timeout", "canceled"],
      skills: ["queued", "running", "waiting", "completed", "failed", "cancelled"],
      steps: ["pending", "running", "retrying", "waiting", "completed", "failed", "cancelled", "skipped", "unmocked"],
      schedules: ["queued", "running", "waiting", "success", "failed", "cancelled", "interrupted", "missed", "skipped"],
      jobs: ["pending", "running", "completed", "failed", "cancelled"],
      chat: ["running", "waiting", "done", "failed", "denied", "skipped", "unknown"],
    };
    for (const [domain, names] of Object.entries(domains)) for (const name of names) expect(Object.keys(t.runStates), `${domain} ${name}`).toContain(runState(name));
  });

  it("is open until the run has ended", () => {
    for (const status of ["pending", "queued", "running", "retrying", "waiting"]) expect(isOpen(status), status).toBe(true);
    for (const status of ["success", "completed", "failure", "failed", "timeout", "cancelled", "canceled", "interrupted", "missed", "skipped", "unmocked", "denied"]) expect(isOpen(status), status).toBe(false);
  });

  it("stays as it is when this version does not know it", () => {
    expect(stateWord("half_done")).toBe("half done");
    expect(stateTone("half_done")).toBe("neutral");
  });

  it("makes the choices of a filter, the one for all first", () => {
    expect(stateOptions(["success", "cancelled"])).toEqual([
      { value: "", label: "any" },
      { value: "success", label: "succeeded" },
      { value: "cancelled", label: "canceled" },
    ]);
  });
});
