// Web globals that are small enough to live here.

// The engine's own clock counts from a word of its memory that the host sets before each run.
const now = performance.now, dateNow = Date.now;
define("performance", freeze({ now: () => now(), get timeOrigin() { return dateNow() - now(); } }));
delete globalThis.SharedArrayBuffer;

const randomBytes = (n) => new Bytes(host(RANDOM, n));
const hex = [];
for (let i = 0; i < 256; i++) hex[i] = (i + 256).toString(16).slice(1);

define("crypto", freeze({
  getRandomValues(view) {
    const tag = typeof view === "object" && view !== null ? typedTag(view) : undefined;
    if (tag === undefined || tag === "Float32Array" || tag === "Float64Array" || tag === "Float16Array") throw new TypeErrorCtor("getRandomValues needs an integer typed array");
    const n = typedLength(view);
    if (n > 65536) throw new DOMException("getRandomValues gives at most 65536 bytes", "QuotaExceededError");
    bytesSet(new Bytes(typedBuffer(view), typedOffset(view), n), randomBytes(n));
    return view;
  },
  randomUUID() {
    return host(UUID);
  },
}));

define("TextEncoder", class TextEncoder {
  get encoding() {
    return "utf-8";
  }
  encode(s = "") {
    return utf8(StringCtor(s));
  }
  encodeInto(s, into) {
    s = StringCtor(s);
    let read = 0, written = 0;
    for (const c of s) {
      const b = utf8(c);
      if (written + b.length > into.length) break;
      bytesSet(into, b, written);
      written += b.length;
      read += c.length;
    }
    return { read, written };
  }
});

// How many bytes at the end of b begin a character that is not complete.
const openTail = (b) => {
  for (let i = 1; i <= 3 && i <= b.length; i++) {
    const c = b[b.length - i];
    if (c < 0x80) return 0;
    if (c >= 0xc0) return (c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2) > i ? i : 0;
  }
  return 0;
};

define("TextDecoder", class TextDecoder {
  #fatal;
  #keepBOM;
  #tail = new Bytes(0);
  #started = false;
  constructor(label = "utf-8", options = {}) {
    const l = toLowerCase(StringCtor(label).trim());
    if (l !== "utf-8" && l !== "utf8" && l !== "unicode-1-1-utf-8") throw new RangeErrorCtor(`encoding ${label} is not supported, only utf-8`);
    this.#fatal = !!options.fatal;
    this.#keepBOM = !!options.ignoreBOM;
  }
  get encoding() {
    return "utf-8";
  }
  get fatal() {
    return this.#fatal;
  }
  get ignoreBOM() {
    return this.#keepBOM;
  }
  decode(input, options = {}) {
    let b = new Bytes(0);
    if (input !== undefined) {
      const v = bytesOf(input);
      if (v === undefined) throw new TypeErrorCtor("decode needs bytes");
      b = new Bytes(v[0], v[1], v[2]);
    }
    if (this.#tail.length > 0) {
      const all = new Bytes(this.#tail.length + b.length);
      bytesSet(all, this.#tail);
      bytesSet(all, b, this.#tail.length);
      b = all;
    }
    const keep = options.stream ? openTail(b) : 0;
    const n = b.length - keep;
    const tail = new Bytes(keep);
    bytesSet(tail, bytesSubarray(b, n));
    this.#tail = tail;
    let s = host(DECODE, typedBuffer(b), typedOffset(b), n, this.#fatal);
    if (s === undefined) {
      this.#tail = new Bytes(0);
      this.#started = false;
      throw new TypeErrorCtor("the bytes are not valid UTF-8");
    }
    if (!this.#started && s !== "") {
      this.#started = true;
      if (!this.#keepBOM && charCodeAt(s, 0) === 0xfeff) s = slice(s, 1);
    }
    if (!options.stream) this.#started = false;
    return s;
  }
});

// ---- structuredClone ----

const cloneError = (what) => new DOMException(`${what} could not be cloned`, "DataCloneError");
const errorNames = freeze({ __proto__: null, Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError });
const { Map: MapCtor, Set: SetCtor, Date: DateCtor, RegExp: RegExpCtor } = globalThis;
const dateTime = uncurry(Date.prototype.getTime);
const regSource = getter(RegExp.prototype, "source"), regFlags = getter(RegExp.prototype, "flags");
const mapForEach = uncurry(Map.prototype.forEach), setForEach = uncurry(Set.prototype.forEach), setAdd = uncurry(Set.prototype.add);
const typedCtors = { __proto__: null };
for (const c of [Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array, Float32Array, Float64Array, BigInt64Array, BigUint64Array]) typedCtors[c.name] = c;
const typedCount = getter(typedProto, "length");

const clone = (v, seen) => {
  const t = typeof v;
  if (t === "function") throw cloneError("a function");
  if (t === "symbol") throw cloneError("a symbol");
  if (t !== "object" || v === null) return v;
  if (mapHas(seen, v)) return mapGet(seen, v);
  const keep = (o) => (mapSet(seen, v, o), o);
  if (isArray(v)) {
    const o = keep([]);
    o.length = v.length;
    const names = objectKeys(v);
    for (let i = 0; i < names.length; i++) o[names[i]] = clone(v[names[i]], seen);
    return o;
  }
  const tag = typedTag(v);
  if (tag !== undefined) return keep(new typedCtors[tag](clone(typedBuffer(v), seen), typedOffset(v), typedCount(v)));
  if (v instanceof Buffer) {
    const n = bufferLength(v);
    const o = keep(new Buffer(n));
    bytesSet(new Bytes(o), new Bytes(v));
    return o;
  }
  if (v instanceof DataView) return keep(new DataView(clone(viewBuffer(v), seen), viewOffset(v), viewLength(v)));
  if (v instanceof DateCtor) return keep(new DateCtor(dateTime(v)));
  if (v instanceof RegExpCtor) return keep(new RegExpCtor(regSource(v), regFlags(v)));
  if (v instanceof MapCtor) {
    const o = keep(new MapCtor());
    const pairs = [];
    mapForEach(v, (x, k) => push(pairs, [k, x]));
    for (let i = 0; i < pairs.length; i++) mapSet(o, clone(pairs[i][0], seen), clone(pairs[i][1], seen));
    return o;
  }
  if (v instanceof SetCtor) {
    const o = keep(new SetCtor());
    const items = [];
    setForEach(v, (x) => push(items, x));
    for (let i = 0; i < items.length; i++) setAdd(o, clone(items[i], seen));
    return o;
  }
  if (v instanceof ErrorCtor) {
    const o = keep(new (errorNames[v.name] ?? ErrorCtor)(StringCtor(v.message)));
    if (typeof v.stack === "string") defineProperty(o, "stack", { value: v.stack, writable: true, enumerable: false, configurable: true });
    if ("cause" in v) defineProperty(o, "cause", { value: clone(v.cause, seen), writable: true, enumerable: false, configurable: true });
    return o;
  }
  if (v instanceof NumberCtor || v instanceof StringCtor || v instanceof Boolean || v instanceof BigInt) return keep(Object(v.valueOf()));
  if (v instanceof PromiseCtor || v instanceof WeakMap || v instanceof WeakSet || v instanceof WeakRef) throw cloneError("this object");
  const o = keep({});
  const names = objectKeys(v);
  for (let i = 0; i < names.length; i++) defineProperty(o, names[i], { value: clone(v[names[i]], seen), writable: true, enumerable: true, configurable: true });
  return o;
};
define("structuredClone", function structuredClone(value) {
  if (arguments.length === 0) throw new TypeErrorCtor("structuredClone needs a value");
  return clone(value, new MapCtor());
});

// import() is compiled to a call of this, so that the error can name what was asked for.
define("require", function require(specifier) {
  throw new ErrorCtor(`cannot import ${jsonStringify(StringCtor(specifier))}: a tool cannot import anything`);
});
