import { beforeEach, describe, expect, it, vi } from "vitest";
import { RpcError } from "../../lib/rpc/errors";
import { fake, until } from "../../lib/rpc/testing";
import { nav } from "../../lib/ui/nav.svelte";
import type { toasts, Notify } from "../../lib/ui/state";
import { addressOf, viewOf } from "./address";
import { DiscoveryScreen } from "./discovery.svelte";
import { isOpen, stateOf } from "./requests.svelte";
import type { Candidate, Request } from "./types";

const candidate = (ref: string): Candidate => ({ ref, source: ref.split(":")[0]!, name: "rates", title: "Rates", description: "Exchange rates", hosts: ["rates.example"], auth: "none", score: 1, why: ["rate"] });
const request = (requestId: string, more: Partial<Request> = {}): Request => ({ requestId, capabilityDescription: "the rate of the euro", requestedBy: "agent", searchQuery: "euro", status: "found", candidates: [candidate("catalog:rates"), candidate("imported:t1")], createdAt: "2026-05-01T10:00:00Z", ...more });
const operation = { key: "get /rates", name: "getRates", method: "GET", path: "/rates", summary: "Rates", tags: [], deprecated: false, tier: "readOnly", idempotent: true, destructive: false, auth: [], tokens: 12, paginated: false };
const inspection = { specId: "s1", title: "Rates", version: "1.0.0", openapi: "3.1.0", servers: [{ url: "https://rates.example" }], auth: [], tags: [], counts: { operations: 1, skipped: 0, deprecated: 0, readOnly: 1 }, tokens: 12, warnings: [], skipped: [] };

function setup(answers: object = {}) {
  const rpc = fake({
    "discovery.list": () => ({ tools: [], total: 0 }),
    "discovery.executions": () => ({ executions: [] }),
    "discovery.queue": () => ({ requests: [request("r1"), request("r2", { status: "failed", finishedAt: "2026-05-01T10:01:00Z", candidates: [] })], total: 2 }),
    "discovery.search": () => ({ results: [candidate("catalog:rates")], skippedSources: [] }),
    "discovery.request": () => ({ requestId: "r3", status: "pending" }),
    "discovery.inspect_openapi": () => inspection,
    "discovery.operations": () => ({ operations: [operation], total: 1 }),
    "discovery.accept": () => ({ manifestId: "t9", status: "pending_approval" }),
    "discovery.import_openapi": () => ({ manifestId: "t8" }),
    "discovery.reject": () => ({ requestId: "r1", status: "rejected" }),
    "discovery.verify": () => ({ jobId: "j1" }),
    ...answers,
  });
  const notify = { ok: vi.fn(), error: vi.fn(), undo: vi.fn(), add: vi.fn(), deferred: vi.fn() };
  const screen = new DiscoveryScreen(rpc as never, notify as unknown as Notify & Pick<typeof toasts, "deferred">);
  return { rpc, notify, screen };
}

beforeEach(() => nav.go("discovery"));

describe("addresses", () => {
  it("lead to each view and back", () => {
    for (const view of ["tools", "find", "requests", "log"] as const) expect(viewOf(addressOf(view).split("/").slice(1))).toBe(view);
    expect(viewOf(["0197", "runs"])).toBe("tools");
  });
});

describe("finding", () => {
  it("searches in the chosen source and clears with the words", async () => {
    const { rpc, screen } = setup();
    screen.find.query = " euro ";
    await screen.find.search();
    expect(rpc.sent("discovery.search")).toEqual([{ query: "euro", limit: 50 }]);
    expect(screen.find.results.data).toHaveLength(1);
    screen.find.setSource("catalog");
    await until(() => rpc.sent("discovery.search").length === 2);
    expect(rpc.sent("discovery.search")[1]).toMatchObject({ sources: ["catalog"] });
    screen.find.query = "";
    await screen.find.search();
    expect(screen.find.results.data).toBeUndefined();
    expect(rpc.sent("discovery.search")).toHaveLength(2);
  });
  it("requests what is missing and shows the request", async () => {
    const { rpc, screen } = setup();
    await screen.find.request();
    expect(rpc.sent("discovery.request")).toHaveLength(0);
    screen.find.query = "the rate of the euro";
    await screen.find.request();
    expect(rpc.sent("discovery.request")).toEqual([{ capabilityDescription: "the rate of the euro" }]);
    expect(nav.rest).toEqual(["requests", "r3"]);
  });
  it("says why a request was refused and stays", async () => {
    const { rpc, notify, screen } = setup();
    rpc.failNext("discovery.request", new RpcError({ kind: "limit", message: "200 requests are open." }));
    screen.find.query = "euro";
    await screen.find.request();
    expect(notify.error).toHaveBeenCalledOnce();
    expect(screen.find.requesting).toBe(false);
    expect(nav.rest).toEqual([]);
  });
});

describe("requests", () => {
  it("counts those that wait for a choice and follows events", async () => {
    const { rpc, screen } = setup();
    screen.start();
    await until(() => screen.requests.list.page.items.length === 2);
    expect(screen.requests.open).toBe(1);
    const before = rpc.sent("discovery.queue").length;
    rpc.emit("discovery.request_changed", { requestId: "r1", status: "found" });
    await until(() => rpc.sent("discovery.queue").length > before);
    for (const list of [screen.list, screen.log, screen.requests.list]) list.stop();
  });
  it("are open until they are accepted, rejected or failed", () => {
    expect(isOpen(request("r"))).toBe(true);
    expect(isOpen(request("r", { finishedAt: "2026-05-01T10:00:00Z" }))).toBe(false);
    expect(isOpen(request("r", { status: "searching" }))).toBe(false);
    expect(stateOf(request("r", { selected: "catalog:rates" }))).toBe("accepted");
  });
  it("end with the tool whose operations were chosen", async () => {
    const { rpc, screen } = setup();
    screen.adding.begin({ url: "catalog:rates" }, { requestId: "r1", ref: "catalog:rates" });
    await until(() => screen.adding.step === "operations" && !screen.adding.busy);
    screen.adding.name = "rates";
    await screen.add();
    expect(rpc.sent("discovery.accept")).toEqual([{ server: "https://rates.example", requestId: "r1", ref: "catalog:rates", operations: ["get /rates"], name: "rates" }]);
    expect(rpc.sent("discovery.import_openapi")).toHaveLength(0);
    expect(nav.rest).toEqual(["t9"]);
    screen.adding.begin({ url: "catalog:rates" });
    await until(() => screen.adding.step === "operations" && !screen.adding.busy);
    await screen.add();
    expect(rpc.sent("discovery.import_openapi")).toHaveLength(1);
    expect(rpc.sent("discovery.accept")).toHaveLength(1);
  });
  it("end with a tool that is there already", async () => {
    const { rpc, screen } = setup();
    await screen.requests.use(request("r1"), candidate("imported:t1"));
    expect(rpc.sent("discovery.accept")).toEqual([{ requestId: "r1", ref: "imported:t1" }]);
    expect(nav.rest).toEqual(["t9"]);
  });
  it("are rejected", async () => {
    const { rpc, screen } = setup();
    await screen.requests.reject(request("r1"));
    expect(rpc.sent("discovery.reject")).toEqual([{ requestId: "r1" }]);
    expect(screen.requests.busy).toBe("");
  });
});

describe("catalogs", () => {
  const catalog = { catalogId: "c1", kind: "dir", location: "/apis", entries: 2 };
  it("are added, read again and removed, and the search is repeated", async () => {
    const { rpc, screen } = setup({ "discovery.catalogs": () => ({ catalogs: [catalog] }), "discovery.catalog_add": () => ({ catalogs: [catalog] }), "discovery.catalog_refresh": () => ({ catalogs: [catalog] }), "discovery.catalog_remove": () => ({ catalogs: [] }) });
    screen.find.query = "rate";
    screen.catalogs.show();
    await until(() => screen.catalogs.list.data?.length === 1);
    screen.catalogs.address = "https://lists.example/list.json";
    await screen.catalogs.add({ listUrl: "https://lists.example/list.json" });
    await screen.catalogs.refresh(catalog);
    await screen.catalogs.remove(catalog);
    expect(screen.catalogs.address).toBe("");
    expect(rpc.sent("discovery.catalog_add")).toEqual([{ listUrl: "https://lists.example/list.json" }]);
    expect(rpc.sent("discovery.catalog_refresh")).toEqual([{ catalogId: "c1" }]);
    expect(rpc.sent("discovery.catalog_remove")).toEqual([{ catalogId: "c1" }]);
    await until(() => rpc.sent("discovery.search").length === 3);
  });
  it("keep what was entered if it couldn't be added", async () => {
    const { notify, screen } = setup({
      "discovery.catalog_add": () => {
        throw new RpcError({ message: "Lists are off.", kind: "denied" });
      },
    });
    screen.catalogs.address = "https://lists.example/list.json";
    await screen.catalogs.add({ listUrl: screen.catalogs.address });
    expect(notify.error).toHaveBeenCalledOnce();
    expect(screen.catalogs.address).toBe("https://lists.example/list.json");
    expect(screen.catalogs.busy).toBe("");
  });
  it("have manifests, which wait for approval when they are added", async () => {
    const { rpc, screen } = setup({ "discovery.import_manifest": () => ({ manifestId: "t7" }) });
    await screen.addManifest({ ...candidate("directory:c1/tides"), manifest: true });
    expect(rpc.sent("discovery.import_manifest")).toEqual([{ url: "directory:c1/tides", dryRun: false }]);
    expect(nav.rest).toEqual(["t7"]);
  });
});

describe("variables of a server", () => {
  const server = (url: string) => ({ url, variables: [{ name: "host", default: "mail.example" }, { name: "from" }] });
  it("are asked for and kept when another server is chosen", async () => {
    const { rpc, screen } = setup({ "discovery.inspect_openapi": () => ({ ...inspection, servers: [server("smtps://{host}:465/{from}"), server("smtp://{host}:587/{from}")] }) });
    screen.adding.begin({ url: "catalog:send-mail" });
    await until(() => screen.adding.step === "operations" && !screen.adding.busy);
    expect(screen.adding.variables).toEqual({ host: "mail.example", from: "" });
    screen.adding.variables.from = "me@mail.example";
    screen.adding.setServer("smtp://{host}:587/{from}");
    await screen.add();
    expect(rpc.sent("discovery.import_openapi")).toEqual([{ specId: "s1", operations: ["get /rates"], server: "smtp://{host}:587/{from}", serverVariables: { host: "mail.example", from: "me@mail.example" }, dryRun: false }]);
    screen.adding.server = "https://other.example";
    expect(screen.adding.asked).toEqual([]);
  });
});
