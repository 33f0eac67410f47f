import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { RpcError } from "./errors";
import { http, MAX_FILES, MAX_UPLOAD, Upload, type Folder, type Uploaded } from "./upload.svelte";

const file = (name = "chats.zip", size = 10) => Object.assign(new Blob(["x"]), { name, ...(size === 10 ? {} : { size }) }) as never;

const folder = (name: string, ...paths: string[]): Folder => ({ name, files: paths.map((path) => ({ path, file: new File([path], path.split("/").at(-1)!) })) });

/** A server side that the test plays. */
function server() {
  const sent: { what: Folder; name: string; signal: AbortSignal; progress: (part: number) => void; done: (u: Uploaded) => void; fail: (e: unknown) => void }[] = [];
  const discarded: string[] = [];
  const to = {
    send: (f: Folder, signal: AbortSignal, progress: (part: number) => void) =>
      new Promise<Uploaded>((done, fail) => void sent.push({ what: f, name: f.name, signal, progress, done, fail })),
    discard: async (token: string) => void discarded.push(token),
  };
  return { sent, discarded, upload: new Upload(to as never) };
}

describe("an upload", () => {
  it("tells its progress and answers the token", async () => {
    const { sent, upload, discarded } = server();
    const going = upload.send(file());
    expect([upload.busy, upload.name, upload.part]).toEqual([true, "chats.zip", 0]);
    sent[0]!.progress(0.5);
    expect(upload.part).toBe(0.5);
    sent[0]!.done({ token: "pick:1", name: "chats.zip", size: 10 });
    expect(await going).toEqual({ token: "pick:1", name: "chats.zip", size: 10 });
    expect([upload.busy, upload.error]).toEqual([false, null]);
    upload.taken();
    upload.drop();
    expect(discarded).toEqual([]);
  });

  it("stops when it is canceled, and gives back what arrives all the same", async () => {
    const { sent, upload, discarded } = server();
    const going = upload.send(file());
    upload.cancel();
    expect([sent[0]!.signal.aborted, upload.busy]).toEqual([true, false]);
    sent[0]!.progress(0.9);
    expect(upload.part).toBe(0);
    sent[0]!.done({ token: "pick:late", name: "chats.zip", size: 10 });
    expect(await going).toBeNull();
    expect(discarded).toEqual(["pick:late"]);
    expect(upload.error).toBeNull();
  });

  it("gives the former file back when another is sent", async () => {
    const { sent, upload, discarded } = server();
    const first = upload.send(file("a"));
    sent[0]!.done({ token: "pick:a", name: "a", size: 1 });
    await first;
    const second = upload.send(file("b"));
    expect(discarded).toEqual(["pick:a"]);
    sent[1]!.fail(new RpcError({ message: "The disk is full." }));
    expect(await second).toBeNull();
    expect(upload.error?.message).toBe("The disk is full.");
  });

  it("refuses what is too large before it is sent", async () => {
    const { sent, upload } = server();
    const big = { name: "big.zip", size: MAX_UPLOAD + 1 } as never;
    expect(await upload.send(big)).toBeNull();
    expect(sent).toEqual([]);
    expect(upload.error?.kind).toBe("limit");
  });

  it("sends those files of a folder that are wanted, as one", async () => {
    const { sent, upload } = server();
    const going = upload.send(folder("vault", "a.md", "sub/b.md", "photo.jpg"), (path) => path.endsWith(".md"));
    expect([upload.busy, upload.name, sent[0]!.what.files.map((f) => f.path)]).toEqual([true, "vault", ["a.md", "sub/b.md"]]);
    sent[0]!.done({ token: "pick:1", name: "vault", size: 10 });
    expect((await going)?.token).toBe("pick:1");
  });

  it("refuses a folder with nothing in it, too many files or too many bytes", async () => {
    const { sent, upload } = server();
    const many = { name: "many", files: new Array(MAX_FILES + 1).fill({ path: "a", file: { size: 1 } }) } as never;
    const large = { name: "large", files: [1, 2].map((n) => ({ path: `${n}`, file: { size: MAX_UPLOAD / 2 + 1 } })) } as never;
    for (const what of [folder("pictures", "a.jpg"), many, large]) {
      expect(await upload.send(what, (path) => !path.endsWith(".jpg"))).toBeNull();
      expect(upload.error?.kind).toBe("limit");
    }
    expect(sent).toEqual([]);
    void upload.send(folder("vault", "a.md"));
    expect(upload.error).toBeNull();
  });
});

/** As much of XMLHttpRequest as is used. */
class Request {
  static last: Request;
  readonly upload: { onprogress?: (e: { loaded: number; total: number }) => void } = {};
  readonly head: Record<string, string> = {};
  at = "";
  status = 0;
  responseText = "";
  onload?: () => void;
  onerror?: () => void;
  onabort?: () => void;
  constructor() {
    Request.last = this;
  }
  open(method: string, url: string): void {
    this.at = `${method} ${url}`;
  }
  setRequestHeader(name: string, value: string): void {
    this.head[name] = value;
  }
  body: unknown;
  send(body: unknown): void {
    this.body = body;
  }
  abort(): void {
    this.onabort?.();
  }
  answer(status: number, body: string): void {
    this.status = status;
    this.responseText = body;
    this.onload?.();
  }
}

describe("the request", () => {
  beforeEach(() => {
    vi.stubGlobal("XMLHttpRequest", Request);
    vi.stubGlobal("sessionStorage", { getItem: () => "secret" });
  });
  afterEach(() => vi.unstubAllGlobals());

  it("carries the session and the name, and tells how much was sent", async () => {
    const parts: number[] = [];
    const going = http.send(file("my chats.zip"), new AbortController().signal, (p) => parts.push(p));
    const x = Request.last;
    expect(x.at).toBe("POST /upload?name=my%20chats.zip");
    expect(x.head.Authorization).toBe("Bearer secret");
    x.upload.onprogress?.({ loaded: 1, total: 4 });
    x.answer(201, `{"token":"pick:1","name":"my chats.zip","size":10}`);
    expect((await going).token).toBe("pick:1");
    expect(parts).toEqual([0.25]);
  });

  it("carries a folder as a form whose parts are named by their paths", async () => {
    void http.send(folder("my vault", "a.md", "sub/b.md"), new AbortController().signal, () => {});
    const x = Request.last;
    expect([x.at, x.head["Content-Type"]]).toEqual(["POST /upload?name=my%20vault&folder=true", undefined]);
    expect((x.body as FormData).getAll("file").map((f) => (f as File).name)).toEqual(["a.md", "sub/b.md"]);
  });

  it("fails as a call does: refused, not understood, broken off, canceled", async () => {
    const send = (act: (x: Request, abort: AbortController) => void) => {
      const abort = new AbortController();
      const going = http.send(file(), abort.signal, () => {});
      act(Request.last, abort);
      return going.then(
        () => "sent",
        (e: RpcError) => e.kind,
      );
    };
    expect(await send((x) => x.answer(413, `{"error":{"code":-32007,"message":"too large","data":{"kind":"limit"}}}`))).toBe("limit");
    expect(await send((x) => x.answer(502, "<html>"))).toBe("internal");
    expect(await send((x) => x.onerror?.())).toBe("unavailable");
    expect(await send((_, abort) => abort.abort())).toBe("canceled");
  });
});
