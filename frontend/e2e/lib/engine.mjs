// A container engine that runs nothing, on a Unix socket: it has images and volumes, pulls step by step as the suite
// says, and holds the creation of a container until its client goes.
import { createServer } from "node:http";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

const id = (n) => `sha256:${String(n).padStart(64, "0")}`;

/** Prepares an engine that does not listen yet: `open` starts it. */
export async function prepareEngine() {
  const dir = await mkdtemp(path.join(tmpdir(), "hx-engine-"));
  const socket = path.join(dir, "s");
  const engine = {
    images: [{ Id: id(1), RepoTags: ["docker.io/library/alpine:3.20"], RepoDigests: [`docker.io/library/alpine@${id(11)}`], Size: 7_800_000, Created: 1_760_000_000 }],
    volumes: [],
    /** The answer of the pull in progress. */
    pull: null,
    env: { DOCKER_HOST: `unix://${socket}` },
  };
  const find = (ref) => engine.images.find((i) => i.Id === ref || i.RepoTags.includes(ref) || i.RepoTags.includes(`${ref}:latest`) || i.RepoDigests.includes(ref));
  const server = createServer(async (req, res) => {
    const url = new URL(req.url, "http://engine");
    const at = url.pathname.replace(/^\/v[\d.]+/, "");
    const answer = (status, body) => res.writeHead(status, { "Content-Type": "application/json" }).end(body === undefined ? "" : JSON.stringify(body));
    const missing = () => answer(404, { message: "no such thing" });
    const name = decodeURIComponent(at.replace(/^\/(images|volumes)\//, "").replace(/\/json$/, ""));
    if (at === "/version") return answer(200, { Version: "27.1.0", ApiVersion: "1.46", MinAPIVersion: "1.24", Components: [] });
    if (at === "/info") return answer(200, { Driver: "overlay2", DefaultRuntime: "runc", CgroupVersion: "2", SwapLimit: false, PidsLimit: true, SecurityOptions: ["name=seccomp,profile=builtin"] });
    if (at === "/images/json") return answer(200, engine.images);
    if (at === "/containers/json") return answer(200, []);
    if (at === "/volumes/create") return answer(500, { message: "no quota" });
    if (at === "/volumes") {
      // The owner of the volumes is whoever asks.
      const [label] = JSON.parse(url.searchParams.get("filters") ?? "{}").label ?? [];
      const [key, owner] = (label ?? "").split("=");
      return answer(200, { Volumes: engine.volumes.map((v) => ({ ...v, Labels: { [key]: owner } })) });
    }
    if (at === "/system/df") return answer(200, { Volumes: engine.volumes });
    if (at === "/images/create") {
      res.writeHead(200, { "Content-Type": "application/json" });
      const line = (v) => res.write(`${JSON.stringify(v)}\n`);
      line({ status: "Pulling fs layer", id: "a" });
      line({ status: "Downloading", id: "a", progressDetail: { current: 3_000_000, total: 8_000_000 } });
      const ref = url.searchParams.get("fromImage");
      engine.pull = {
        ref,
        ended: new Promise((resolve) => res.on("close", resolve)),
        finish: () => {
          engine.images.push({ Id: id(2), RepoTags: [ref], RepoDigests: [`${ref.split(":")[0]}@${id(12)}`], Size: 8_000_000, Created: 1_760_000_000 });
          line({ status: "Pull complete", id: "a" });
          res.end();
        },
        fail: (message) => {
          line({ error: message });
          res.end();
        },
      };
      return;
    }
    if (at === "/containers/create") return; // until the client goes
    if (req.method === "DELETE" && at.startsWith("/images/")) {
      if (!find(name)) return missing();
      engine.images = engine.images.filter((i) => i !== find(name));
      return answer(200, []);
    }
    if (req.method === "DELETE" && at.startsWith("/volumes/")) {
      engine.volumes = engine.volumes.filter((v) => v.Name !== name);
      return answer(204);
    }
    if (at.startsWith("/images/") && at.endsWith("/json")) {
      const image = find(name);
      return image ? answer(200, { ...image, Created: "2026-01-01T00:00:00Z", Config: { Cmd: ["/bin/sh"], Env: [], WorkingDir: "" } }) : missing();
    }
    missing();
  });
  engine.open = () => new Promise((resolve, reject) => server.once("error", reject).listen(socket, resolve));
  engine.stop = async () => {
    if (server.listening) {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
    await rm(dir, { recursive: true, force: true });
  };
  return engine;
}
