// The part of the guest that stands between a tool and the host. It runs before the tool,
// in the same world, so it takes what it needs from the built-ins first: a tool that
// changes them later harms only its own run. The host trusts nothing that comes from here.
//
// All files of this folder are joined, in the order that prelude.go lists, into the body of
// one function (host) => enter. host(code, ...args) is the one way out.

const LOG = 1, CALL = 2, TIMER = 3, CLEAR = 4, DONE = 5, FAIL = 6, UUID = 7, RANDOM = 8, ENCODE = 9, DECODE = 10, IDNA = 11;

const { parse: jsonParse, stringify: jsonStringify } = JSON;
const { apply, ownKeys, getPrototypeOf, setPrototypeOf } = Reflect;
const { defineProperty, freeze, create, keys: objectKeys, getOwnPropertyDescriptor } = Object;
const { isArray } = Array;
const uncurry = (f) => (self, ...args) => apply(f, self, args);
const then = uncurry(Promise.prototype.then);
const promiseResolve = Promise.resolve.bind(Promise), promiseReject = Promise.reject.bind(Promise);
const mapGet = uncurry(Map.prototype.get), mapSet = uncurry(Map.prototype.set), mapDelete = uncurry(Map.prototype.delete), mapHas = uncurry(Map.prototype.has);
const weakGet = uncurry(WeakMap.prototype.get), weakSet = uncurry(WeakMap.prototype.set), weakHas = uncurry(WeakMap.prototype.has);
const push = uncurry(Array.prototype.push), join = uncurry(Array.prototype.join);
const slice = uncurry(String.prototype.slice), charCodeAt = uncurry(String.prototype.charCodeAt);
const toLowerCase = uncurry(String.prototype.toLowerCase), toUpperCase = uncurry(String.prototype.toUpperCase);
const isIdentifier = uncurry(RegExp.prototype.test);
const PromiseCtor = Promise, ErrorCtor = Error, TypeErrorCtor = TypeError, RangeErrorCtor = RangeError, StringCtor = String, NumberCtor = Number;
const Bytes = Uint8Array, Buffer = ArrayBuffer;
const typedProto = getPrototypeOf(Bytes.prototype);
const getter = (proto, name) => uncurry(getOwnPropertyDescriptor(proto, name).get);
const typedBuffer = getter(typedProto, "buffer"), typedOffset = getter(typedProto, "byteOffset"), typedLength = getter(typedProto, "byteLength"), typedTag = getter(typedProto, Symbol.toStringTag);
const bufferLength = getter(Buffer.prototype, "byteLength");
const bytesSet = uncurry(typedProto.set), bytesSubarray = uncurry(typedProto.subarray);
const viewBuffer = getter(DataView.prototype, "buffer"), viewOffset = getter(DataView.prototype, "byteOffset"), viewLength = getter(DataView.prototype, "byteLength");

// A stack frame must not give away this file's functions.
{
  Error.prepareStackTrace = (_, frames) => frames;
  const frame = getPrototypeOf(new Error().stack[0]);
  Error.prepareStackTrace = undefined;
  delete frame.getFunction;
  delete frame.getThis;
}

const define = (name, value) => defineProperty(globalThis, name, { value, writable: true, enumerable: false, configurable: true });

// bytesOf gives [buffer, offset, length] of any view or buffer, or undefined.
const bytesOf = (v) => {
  if (typeof v !== "object" || v === null) return undefined;
  if (typedTag(v) !== undefined) return [typedBuffer(v), typedOffset(v), typedLength(v)];
  try {
    return [v, 0, bufferLength(v)];
  } catch {}
  try {
    return [viewBuffer(v), viewOffset(v), viewLength(v)];
  } catch {}
  return undefined;
};

// ---- logging ----

let logOpen = true;
const maxLine = 65536;
const writeLog = (level, message, fields) => {
  if (!logOpen) return;
  if (message.length > maxLine) message = slice(message, 0, maxLine);
  logOpen = host(LOG, level, message, fields) !== false;
};

const show = (v) => {
  if (typeof v === "string") return v;
  if (typeof v === "object" && v !== null) {
    try {
      if (v instanceof ErrorCtor) return v.stack ? `${v.name}: ${v.message}\n${v.stack}` : `${v.name}: ${v.message}`;
      const s = jsonStringify(v);
      if (s !== undefined) return s;
    } catch {}
  }
  try {
    return typeof v === "bigint" ? `${v}n` : StringCtor(v);
  } catch {
    return `[${typeof v}]`;
  }
};

const showAll = (args) => {
  if (args.length === 1) return show(args[0]);
  const parts = [];
  for (let i = 0; i < args.length; i++) parts[i] = show(args[i]);
  return join(parts, " ");
};

const isLevel = (s) => s === "debug" || s === "info" || s === "warn" || s === "error";

const helixLog = (level, message, fields) => {
  if (!logOpen) return;
  if (!(isLevel(level) && message !== undefined)) {
    fields = message;
    message = level;
    level = "info";
  }
  let f;
  if (fields !== undefined) {
    try {
      f = jsonStringify(fields);
    } catch {}
  }
  writeLog(level, show(message), f);
};

const logger = (level) => (...args) => {
  if (logOpen) writeLog(level, showAll(args));
};
define("log", logger("info"));
define("console", { log: logger("info"), info: logger("info"), debug: logger("debug"), warn: logger("warn"), error: logger("error") });

// ---- host operations ----

const pending = new Map(); // id → [resolve, reject, stack]
const refusals = new WeakMap(); // error → id of the refused call

const call = (op, req) => {
  const body = jsonStringify(req);
  return new PromiseCtor((resolve, reject) => {
    const id = host(CALL, op, body);
    if (typeof id === "string") {
      const e = limitError(id);
      weakSet(refusals, e, 0);
      reject(e);
      return;
    }
    mapSet(pending, id, [resolve, reject]);
  });
};

const setName = (e, name) => defineProperty(e, "name", { value: name, writable: true, enumerable: false, configurable: true });

const limitError = (message) => {
  const e = new ErrorCtor(message);
  setName(e, "LimitError");
  e.code = "limit";
  return e;
};

const deliver = (id, ok, json) => {
  const p = mapGet(pending, id);
  if (p === undefined) return;
  mapDelete(pending, id);
  if (ok) {
    p[0](json === "" ? undefined : jsonParse(json));
    return;
  }
  const r = jsonParse(json);
  setPrototypeOf(r, null); // what is missing is missing, whatever a tool did to Object.prototype
  const e = new ErrorCtor(r.message);
  setName(e, r.name);
  e.code = r.code;
  if (r.capability) e.capability = r.capability;
  if (r.resource) e.resource = r.resource;
  if (r.denied) weakSet(refusals, e, id);
  p[1](e);
};

const need = (v, what) => {
  if (typeof v !== "string" || v === "") throw new TypeErrorCtor(`${what} must be a non-empty string`);
  return v;
};

const setHeader = (headers, name, value) => {
  const k = toLowerCase(StringCtor(name));
  const v = StringCtor(value);
  headers[k] = k in headers ? `${headers[k]}, ${v}` : v;
};

const readHeaders = (init) => {
  const headers = create(null);
  if (init === undefined || init === null) return headers;
  if (typeof init !== "object") throw new TypeErrorCtor("headers must be an object");
  if (isArray(init)) {
    for (let i = 0; i < init.length; i++) setHeader(headers, init[i][0], init[i][1]);
  } else {
    const names = objectKeys(init);
    for (let i = 0; i < names.length; i++) if (init[names[i]] !== undefined) setHeader(headers, names[i], init[names[i]]);
  }
  return headers;
};

const base64 = btoa, unbase64 = atob;

const bytesToBase64 = ([buffer, offset, length]) => {
  const b = new Bytes(buffer, offset, length);
  const parts = [];
  for (let i = 0; i < b.length; i += 8190) push(parts, base64(apply(fromCharCode, undefined, bytesSubarray(b, i, i + 8190))));
  return join(parts, "");
};
const fromCharCode = String.fromCharCode;

const base64ToBytes = (s) => {
  const bin = unbase64(s);
  const b = new Bytes(bin.length);
  for (let i = 0; i < b.length; i++) b[i] = charCodeAt(bin, i);
  return b;
};

const utf8 = (s) => new Bytes(host(ENCODE, s));

class Response {
  #r;
  constructor(r) {
    this.#r = r;
    this.status = r.status;
    this.ok = r.status >= 200 && r.status < 300;
    this.url = r.url;
    this.headers = r.headers;
  }
  async text() {
    const r = this.#r;
    if (r.bodyBase64 === undefined) return r.body ?? "";
    const b = base64ToBytes(r.bodyBase64);
    return host(DECODE, typedBuffer(b), 0, b.length, false);
  }
  async json() {
    return jsonParse(await this.text());
  }
  async bytes() {
    const r = this.#r;
    return r.bodyBase64 === undefined ? utf8(r.body ?? "") : base64ToBytes(r.bodyBase64);
  }
}

const helixFetch = async (url, options) => {
  const o = options ?? {};
  const headers = readHeaders(o.headers);
  const req = { url: StringCtor(url), method: toUpperCase(StringCtor(o.method ?? "GET")), headers };
  const body = o.body;
  if (body !== undefined && body !== null) {
    if (typeof body === "string") req.body = body;
    else if (body instanceof URLSearchParams) {
      req.body = StringCtor(body);
      headers["content-type"] ??= "application/x-www-form-urlencoded;charset=UTF-8";
    } else {
      const b = bytesOf(body);
      if (b === undefined) throw new TypeErrorCtor("body must be a string, bytes or URLSearchParams; use JSON.stringify for objects");
      req.bodyBase64 = bytesToBase64(b);
    }
  }
  if (o.timeoutMs !== undefined) req.timeoutMs = Math.max(1, Math.trunc(NumberCtor(o.timeoutMs)) || 1);
  return new Response(await call("fetch", req));
};

const jsonValue = (v) => {
  const out = convert(v);
  if (out.what !== undefined) throw new TypeErrorCtor(`${out.path} is a ${out.what}, which JSON cannot hold`);
  return jsonParse(out.json);
};

const helix = freeze({
  fetch: helixFetch,
  fs: freeze({
    readText: async (path) => (await call("fs.readText", { path: need(path, "path") })).text,
    list: async (path) => (await call("fs.list", { path: need(path, "path") })).entries,
    writeText: async (path, text) => {
      if (typeof text !== "string") throw new TypeErrorCtor("text must be a string");
      await call("fs.writeText", { path: need(path, "path"), text });
    },
  }),
  state: freeze({
    get: async (key) => {
      const r = await call("state.get", { key: need(key, "key") });
      return r.found ? r.value : undefined;
    },
    set: async (key, value) => {
      await call("state.set", { key: need(key, "key"), value: jsonValue(value) });
    },
    delete: async (key) => (await call("state.delete", { key: need(key, "key") })).deleted,
    keys: async () => (await call("state.keys", {})).keys,
  }),
  log: helixLog,
  secret: async (name) => (await call("secret", { name: need(name, "name") })).placeholder,
  tool: async (name, params) => (await call("tool", { name: need(name, "name"), params: params === undefined ? {} : jsonValue(params) })).output,
});
define("helix", helix);

// ---- timers ----

const timers = new Map();
let timerId = 0;
const addTimer = (f, ms, ...args) => {
  if (typeof f !== "function") throw new TypeErrorCtor("setTimeout needs a function");
  const id = ++timerId;
  if (host(TIMER, id, NumberCtor(ms) || 0) === false) throw limitError("too many timers");
  mapSet(timers, id, [f, args]);
  return id;
};
define("setTimeout", function setTimeout(f, ms, ...args) {
  return addTimer(f, ms, ...args);
});
define("clearTimeout", function clearTimeout(id) {
  if (mapDelete(timers, id)) host(CLEAR, id);
});
const fire = (id) => {
  const t = mapGet(timers, id);
  if (t === undefined) return;
  mapDelete(timers, id);
  apply(t[0], undefined, t[1]);
};

// ---- the result ----

// convert gives {json} or {path, what} for the first value that JSON cannot hold.
const convert = (v) => {
  if (v === undefined) return { json: "null" };
  const kind = typeof v;
  if (v === null || kind === "number" || kind === "string" || kind === "boolean") return { json: jsonStringify(v) };
  let bad = false;
  try {
    const json = jsonStringify(v, (_, x) => {
      const t = typeof x;
      if (t === "function" || t === "symbol" || t === "bigint") {
        bad = true;
        return null;
      }
      return x;
    });
    if (!bad) return { json: json === undefined ? "null" : json };
  } catch (e) {
    const found = locate(v, "$", []);
    if (found === undefined) throw e;
    return found;
  }
  return locate(v, "$", []) ?? { path: "$", what: "value" };
};

const plainKey = /^[A-Za-z_$][A-Za-z0-9_$]*$/;
const locate = (v, path, above) => {
  const t = typeof v;
  if (t === "function" || t === "symbol" || t === "bigint") return { __proto__: null, path, what: t };
  if (t !== "object" || v === null) return undefined;
  if (typeof v.toJSON === "function") {
    v = v.toJSON("");
    if (typeof v !== "object" || v === null) return locate(v, path, above);
  }
  for (let i = 0; i < above.length; i++) if (above[i] === v) return { __proto__: null, path, what: "cycle" };
  if (above.length > 2000) return { __proto__: null, path: "$", what: "value nested too deeply" };
  push(above, v);
  if (isArray(v)) {
    for (let i = 0; i < v.length; i++) {
      const r = locate(v[i], `${path}[${i}]`, above);
      if (r !== undefined) return r;
    }
  } else {
    const names = objectKeys(v);
    for (let i = 0; i < names.length; i++) {
      const k = names[i];
      const r = locate(v[k], isIdentifier(plainKey, k) ? `${path}.${k}` : `${path}[${jsonStringify(k)}]`, above);
      if (r !== undefined) return r;
    }
  }
  above.length--;
  return undefined;
};

const done = (v) => {
  let out;
  try {
    out = convert(v);
  } catch (e) {
    fail(e);
    return;
  }
  if (out.json !== undefined) host(DONE, out.json);
  else host(FAIL, jsonStringify(out));
};

const text = (v, max) => {
  try {
    const s = typeof v === "string" ? v : StringCtor(v);
    return s.length > max ? slice(s, 0, max) : s;
  } catch {
    return "";
  }
};

const fail = (e) => {
  const r = { __proto__: null, name: "", message: "", stack: "" };
  try {
    if (typeof e === "object" && e !== null) {
      if (weakHas(refusals, e)) r.refusal = weakGet(refusals, e);
      r.name = e.name === undefined ? "" : text(e.name, 200);
      r.message = e.message === undefined ? text(show(e), 8000) : text(e.message, 8000);
      r.stack = e.stack === undefined ? "" : text(e.stack, 16000);
    } else r.message = text(show(e), 8000);
  } catch {}
  host(FAIL, jsonStringify(r));
};

const fromModule = (exports) => {
  const f = exports.default;
  if (typeof f !== "function") throw new TypeErrorCtor("export default must be a function");
  return f(globalThis.params, helix);
};
const fromPromise = async (exports) => fromModule(await exports);

// What the host sets for each run. It is there from the start, so that to set it is quick.
const given = ["params", "skillName", "skillVersion", "skillAuthor"];
for (let i = 0; i < given.length; i++) define(given[i], i === 0 ? {} : "");

const enter = (what, a, b, c) => {
  switch (what) {
    case 0: { // set up: [params, name, version, author]
      const m = jsonParse(a);
      globalThis.params = m[0];
      globalThis.skillName = m[1];
      globalThis.skillVersion = m[2];
      globalThis.skillAuthor = m[3];
      return;
    }
    case 1: { // start: tool; gives the promise of its result
      try {
        return promiseResolve(typeof a === "function" ? a(globalThis.params, helix) : fromPromise(a));
      } catch (e) {
        return promiseReject(e);
      }
    }
    case 2: // a host call ended: id, ok, answer
      deliver(a, b, c);
      return;
    case 3: // a timer is due: id
      fire(a);
      return;
    case 4: // the tool's promise is fulfilled: result
      done(a);
      return;
    case 5: // rejected: reason
      fail(a);
      return;
    case 6: // start: what a module exports
      try {
        return promiseResolve(fromModule(a));
      } catch (e) {
        return promiseReject(e);
      }
  }
};
