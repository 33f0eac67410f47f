// URL after the WHATWG URL Standard. Domain names beyond ASCII are mapped by the host
// (IDNA).

const specialPorts = { __proto__: null, "http:": 80, "https:": 443, "ws:": 80, "wss:": 443, "ftp:": 21, "file:": null };
const isSpecial = (u) => u.scheme in specialPorts;

// Percent-encode sets, as the characters of ASCII (space to ~) that each one encodes.
const inFragment = " \"<>`";
const inQuery = " \"#<>";
const inSpecialQuery = inQuery + "'";
const inPath = inQuery + "?^`{}";
const inUserinfo = inPath + "/:;=@[\\]|";

const percent = (s, set) => {
  const b = utf8(s);
  let out = "";
  for (let i = 0; i < b.length; i++) {
    const c = b[i];
    if (c <= 0x1f || c >= 0x7f || set.includes(fromCharCode(c))) out += "%" + toUpperCase(hex[c]);
    else out += fromCharCode(c);
  }
  return out;
};

const isHex = (c) => (c >= 48 && c <= 57) || (c >= 65 && c <= 70) || (c >= 97 && c <= 102);
const unpercentBytes = (s) => {
  const b = utf8(s);
  const out = [];
  for (let i = 0; i < b.length; i++) {
    if (b[i] === 37 && i + 2 < b.length && isHex(b[i + 1]) && isHex(b[i + 2])) {
      push(out, parseInt(fromCharCode(b[i + 1], b[i + 2]), 16));
      i += 2;
    } else push(out, b[i]);
  }
  return new Bytes(out);
};
const unpercent = (s) => {
  const b = unpercentBytes(s);
  return host(DECODE, typedBuffer(b), 0, b.length, false);
};

const bad = (input) => {
  throw new TypeErrorCtor(`Invalid URL: ${slice(StringCtor(input), 0, 200)}`);
};

const parseIPv4Part = (p) => {
  if (p === "") return NaN;
  if (/^0[xX][0-9a-fA-F]*$/.test(p)) return p.length === 2 ? 0 : parseInt(slice(p, 2), 16);
  if (/^0[0-7]*$/.test(p)) return parseInt(p, 8);
  return /^[0-9]+$/.test(p) && p[0] !== "0" ? parseInt(p, 10) : NaN;
};

const endsInNumber = (h) => {
  const parts = h.split(".");
  if (parts[parts.length - 1] === "") {
    if (parts.length === 1) return false;
    parts.pop();
  }
  const last = parts[parts.length - 1];
  return /^[0-9]+$/.test(last) || /^0[xX][0-9a-fA-F]*$/.test(last);
};

const parseIPv4 = (h) => {
  const parts = h.split(".");
  if (parts[parts.length - 1] === "" && parts.length > 1) parts.pop();
  if (parts.length > 4) return undefined;
  const n = parts.map(parseIPv4Part);
  for (let i = 0; i < n.length; i++) if (!(n[i] >= 0) || (i < n.length - 1 && n[i] > 255)) return undefined;
  const last = n[n.length - 1];
  if (last >= 256 ** (5 - n.length)) return undefined;
  let ip = last;
  for (let i = 0; i < n.length - 1; i++) ip += n[i] * 256 ** (3 - i);
  return [ip / 2 ** 24, ip / 2 ** 16, ip / 256, ip].map((x) => Math.floor(x) % 256).join(".");
};

const parseIPv6 = (s) => {
  const halves = s.split("::");
  if (halves.length > 2) return undefined;
  const read = (part, isLast) => {
    if (part === "") return [];
    const out = [];
    const pieces = part.split(":");
    for (let i = 0; i < pieces.length; i++) {
      const p = pieces[i];
      if (isLast && i === pieces.length - 1 && p.includes(".")) {
        const q = p.split(".");
        if (q.length !== 4 || q.some((x) => !/^(0|[1-9][0-9]{0,2})$/.test(x) || +x > 255)) return undefined;
        push(out, +q[0] * 256 + +q[1], +q[2] * 256 + +q[3]);
      } else if (/^[0-9a-fA-F]{1,4}$/.test(p)) push(out, parseInt(p, 16));
      else return undefined;
    }
    return out;
  };
  const a = read(halves[0], halves.length === 1);
  const b = halves.length === 2 ? read(halves[1], true) : [];
  if (a === undefined || b === undefined) return undefined;
  const n = a.length + b.length;
  if (halves.length === 1 ? n !== 8 : n > 7) return undefined;
  const all = [...a, ...new Array(8 - n).fill(0), ...b];
  // The longest run of zeros, of two or more, is written "::".
  let best = -1, bestLength = 1;
  for (let i = 0; i < 8; i++) {
    let j = i;
    while (j < 8 && all[j] === 0) j++;
    if (j - i > bestLength) {
      best = i;
      bestLength = j - i;
    }
  }
  const text = all.map((x) => x.toString(16));
  if (best < 0) return `[${text.join(":")}]`;
  return `[${text.slice(0, best).join(":")}::${text.slice(best + bestLength).join(":")}]`;
};

const parseHost = (h, special) => {
  if (h[0] === "[") return h[h.length - 1] === "]" ? parseIPv6(h.slice(1, -1)) : undefined;
  if (!special) return /[\0\t\n\r #/:<>?@[\\\]^|]/.test(h) ? undefined : percent(h, "");
  let d = unpercent(h);
  d = /^[\x00-\x7f]*$/.test(d) && !/xn--/i.test(d) ? toLowerCase(d) : host(IDNA, d);
  if (d === undefined || d === "" || /[\x00-\x20"#%/:<>?@[\\\]^`{|}\x7f]/.test(d)) return undefined;
  return endsInNumber(d) ? parseIPv4(d) : d;
};

const isWindowsLetter = (s) => /^[a-zA-Z][:|]$/.test(s);
const isNormalLetter = (s) => /^[a-zA-Z]:$/.test(s);
const startsWithLetter = (s) => /^[a-zA-Z][:|]($|[/\\?#])/.test(s);
const isSingleDot = (s) => s === "." || toLowerCase(s) === "%2e";
const isDoubleDot = (s) => /^(\.|%2e)(\.|%2e)$/i.test(s);

const shorten = (u) => {
  if (u.scheme === "file:" && u.path.length === 1 && isNormalLetter(u.path[0])) return;
  u.path.pop();
};

const setPath = (u, rest) => {
  const special = isSpecial(u);
  const parts = special ? rest.split(/[/\\]/) : rest.split("/");
  for (let i = 0; i < parts.length; i++) {
    const last = i === parts.length - 1;
    let p = percent(parts[i], inPath);
    if (isDoubleDot(p)) {
      shorten(u);
      if (last) push(u.path, "");
    } else if (isSingleDot(p)) {
      if (last) push(u.path, "");
    } else {
      if (u.scheme === "file:" && u.path.length === 0 && isWindowsLetter(p)) p = p[0] + ":";
      push(u.path, p);
    }
  }
};

const setAuthority = (u, a, input) => {
  const at = a.lastIndexOf("@");
  if (at >= 0) {
    const info = a.slice(0, at);
    const colon = info.indexOf(":");
    u.username = percent(colon < 0 ? info : info.slice(0, colon), inUserinfo);
    u.password = colon < 0 ? "" : percent(info.slice(colon + 1), inUserinfo);
    a = a.slice(at + 1);
    if (a === "") bad(input);
  }
  const m = /^(\[[^\]]*\]|[^:]*)(?::([0-9]*))?$/.exec(a);
  if (m === null) bad(input);
  if (m[1] === "") {
    if (isSpecial(u) || m[2] !== undefined || at >= 0) bad(input);
    u.host = "";
    return;
  }
  u.host = parseHost(m[1], isSpecial(u));
  if (u.host === undefined) bad(input);
  if (m[2]) u.port = readPort(u, m[2], input);
};

const readPort = (u, digits, input) => {
  const n = +digits;
  if (n > 65535) bad(input);
  return n === specialPorts[u.scheme] ? null : n;
};

const copyOf = (b) => ({ ...b, path: typeof b.path === "string" ? b.path : [...b.path] });

const parseURL = (input, base) => {
  let s = input.replace(/^[\x00-\x20]+|[\x00-\x20]+$/g, "").replace(/[\t\n\r]/g, "");
  let u = { scheme: "", username: "", password: "", host: null, port: null, path: [], query: null, fragment: null };
  const hash = s.indexOf("#");
  if (hash >= 0) {
    u.fragment = percent(s.slice(hash + 1), inFragment);
    s = s.slice(0, hash);
  }
  const fragment = u.fragment;
  const m = /^([a-zA-Z][a-zA-Z0-9+.-]*):/.exec(s);
  const takeQuery = (rest) => {
    const q = rest.indexOf("?");
    if (q < 0) return rest;
    u.query = percent(rest.slice(q + 1), isSpecial(u) ? inSpecialQuery : inQuery);
    return rest.slice(0, q);
  };
  const slashes = (c) => c === "/" || (c === "\\" && isSpecial(u));
  let rest;
  if (m !== null) {
    u.scheme = toLowerCase(m[1]) + ":";
    rest = s.slice(m[0].length);
    if (u.scheme !== "file:" && isSpecial(u)) {
      if (!(base && base.scheme === u.scheme)) {
        rest = takeQuery(rest.replace(/^[/\\]*/, ""));
        const end = rest.search(/[/\\]/);
        setAuthority(u, end < 0 ? rest : rest.slice(0, end), input);
        setPath(u, end < 0 ? "" : rest.slice(end + 1));
        return u;
      }
    } else if (u.scheme !== "file:") {
      rest = takeQuery(rest);
      if (rest.startsWith("//")) {
        const end = rest.indexOf("/", 2);
        setAuthority(u, end < 0 ? rest.slice(2) : rest.slice(2, end), input);
        if (end >= 0) setPath(u, rest.slice(end + 1));
      } else if (rest[0] === "/") setPath(u, rest.slice(1));
      else u.path = percent(rest, "");
      return u;
    }
  } else {
    if (!base) bad(input);
    if (typeof base.path === "string") {
      if (s !== "" || hash < 0) bad(input);
      return { ...base, fragment };
    }
    u.scheme = base.scheme;
    rest = s;
  }
  if (u.scheme === "file:") {
    u.host = "";
    const fileBase = base && base.scheme === "file:" ? base : undefined;
    if (slashes(rest[0]) && slashes(rest[1])) {
      rest = takeQuery(rest.slice(2));
      const end = rest.search(/[/\\]/);
      const h = end < 0 ? rest : rest.slice(0, end);
      if (isWindowsLetter(h)) {
        setPath(u, rest);
        return u;
      }
      if (h !== "") {
        const parsed = parseHost(h, true);
        if (parsed === undefined) bad(input);
        u.host = parsed === "localhost" ? "" : parsed;
      }
      setPath(u, end < 0 ? "" : rest.slice(end + 1));
      return u;
    }
    if (slashes(rest[0])) {
      rest = takeQuery(rest);
      if (fileBase) {
        u.host = fileBase.host;
        if (!startsWithLetter(rest.slice(1)) && fileBase.path.length > 0 && isNormalLetter(fileBase.path[0])) push(u.path, fileBase.path[0]);
      }
      setPath(u, rest.slice(1));
      return u;
    }
    if (!fileBase) {
      setPath(u, takeQuery(rest));
      return u;
    }
    base = fileBase;
  }
  // What is left is relative to base.
  if (slashes(rest[0]) && slashes(rest[1])) {
    rest = takeQuery(isSpecial(u) ? rest.replace(/^[/\\]*/, "") : rest.slice(2));
    const end = isSpecial(u) ? rest.search(/[/\\]/) : rest.indexOf("/");
    setAuthority(u, end < 0 ? rest : rest.slice(0, end), input);
    if (end >= 0 || isSpecial(u)) setPath(u, end < 0 ? "" : rest.slice(end + 1));
    return u;
  }
  const own = u;
  u = copyOf(base);
  u.fragment = fragment;
  if (slashes(rest[0])) {
    u.query = null;
    u.path = [];
    setPath(u, takeQuery(rest).slice(1));
    return u;
  }
  if (rest === "") return u;
  u.query = null;
  rest = takeQuery(rest);
  if (rest === "") return u;
  if (own.scheme === "file:" && startsWithLetter(rest)) u.path = [];
  else shorten(u);
  setPath(u, rest);
  return u;
};

const pathText = (u) => (typeof u.path === "string" ? u.path : u.path.length === 0 ? "" : "/" + u.path.join("/"));
const serialise = (u, withoutFragment) => {
  let s = u.scheme;
  if (u.host !== null) {
    s += "//";
    if (u.username !== "" || u.password !== "") s += u.username + (u.password !== "" ? ":" + u.password : "") + "@";
    s += u.host + (u.port !== null ? ":" + u.port : "");
  } else if (typeof u.path !== "string" && u.path.length > 1 && u.path[0] === "") s += "/.";
  s += pathText(u);
  if (u.query !== null) s += "?" + u.query;
  if (!withoutFragment && u.fragment !== null) s += "#" + u.fragment;
  return s;
};

class URL {
  #u;
  #params;
  constructor(input, base) {
    this.#u = parseURL(StringCtor(input), base === undefined ? undefined : parseURL(StringCtor(base)));
    this.#params = new URLSearchParams(this.#u.query ?? "");
    weakSet(updates, this.#params, (s) => {
      this.#u.query = s === "" ? null : s;
    });
  }
  static canParse(input, base) {
    try {
      new URL(input, base);
      return true;
    } catch {
      return false;
    }
  }
  static parse(input, base) {
    try {
      return new URL(input, base);
    } catch {
      return null;
    }
  }
  #refresh() {
    const l = weakGet(lists, this.#params);
    l.splice(0, l.length, ...formDecode(this.#u.query ?? ""));
  }
  get href() {
    return serialise(this.#u);
  }
  set href(v) {
    this.#u = parseURL(StringCtor(v));
    this.#refresh();
  }
  get origin() {
    const u = this.#u;
    if (u.scheme === "blob:" && typeof u.path === "string") {
      const inner = URL.parse(u.path);
      return inner !== null && /^https?:$/.test(inner.protocol) ? inner.origin : "null";
    }
    return isSpecial(u) && u.scheme !== "file:" ? `${u.scheme}//${this.host}` : "null";
  }
  get protocol() {
    return this.#u.scheme;
  }
  set protocol(v) {
    const m = /^([a-zA-Z][a-zA-Z0-9+.-]*):?/.exec(StringCtor(v));
    if (m === null) return;
    const scheme = toLowerCase(m[1]) + ":";
    const u = this.#u;
    if (scheme in specialPorts !== isSpecial(u) || (scheme === "file:" && (u.username || u.password || u.port !== null)) || (u.scheme === "file:" && u.host === "")) return;
    u.scheme = scheme;
    if (u.port === specialPorts[scheme]) u.port = null;
  }
  get username() {
    return this.#u.username;
  }
  set username(v) {
    if (this.#u.host && this.#u.scheme !== "file:") this.#u.username = percent(StringCtor(v), inUserinfo);
  }
  get password() {
    return this.#u.password;
  }
  set password(v) {
    if (this.#u.host && this.#u.scheme !== "file:") this.#u.password = percent(StringCtor(v), inUserinfo);
  }
  get host() {
    const u = this.#u;
    return u.host === null ? "" : u.port === null ? u.host : `${u.host}:${u.port}`;
  }
  set host(v) {
    this.#setHost(StringCtor(v), true);
  }
  get hostname() {
    return this.#u.host ?? "";
  }
  set hostname(v) {
    this.#setHost(StringCtor(v), false);
  }
  #setHost(v, withPort) {
    const u = this.#u;
    if (typeof u.path === "string") return;
    const m = /^(\[[^\]]*\]|[^:/\\?#]*)(?::([0-9]*))?/.exec(v);
    if (m === null || (m[1] === "" && isSpecial(u)) || (!withPort && m[2] !== undefined)) return;
    const h = m[1] === "" ? "" : parseHost(m[1], isSpecial(u));
    if (h === undefined) return;
    u.host = h;
    if (withPort && m[2] && +m[2] <= 65535) u.port = readPort(u, m[2], v);
  }
  get port() {
    return this.#u.port === null ? "" : StringCtor(this.#u.port);
  }
  set port(v) {
    const u = this.#u;
    if (!u.host || u.scheme === "file:") return;
    const m = /^[0-9]*/.exec(StringCtor(v))[0];
    if (StringCtor(v) === "") u.port = null;
    else if (m !== "" && +m <= 65535) u.port = readPort(u, m, v);
  }
  get pathname() {
    return pathText(this.#u);
  }
  set pathname(v) {
    const u = this.#u;
    if (typeof u.path === "string") return;
    u.path = [];
    const s = StringCtor(v).replace(/[\t\n\r]/g, "").replaceAll("?", "%3F").replaceAll("#", "%23");
    setPath(u, s[0] === "/" || (isSpecial(u) && s[0] === "\\") ? s.slice(1) : s);
  }
  get search() {
    return this.#u.query === null || this.#u.query === "" ? "" : "?" + this.#u.query;
  }
  set search(v) {
    const s = StringCtor(v).replace(/[\t\n\r]/g, "");
    this.#u.query = s === "" ? null : percent(s[0] === "?" ? s.slice(1) : s, isSpecial(this.#u) ? inSpecialQuery : inQuery);
    this.#refresh();
  }
  get searchParams() {
    return this.#params;
  }
  get hash() {
    return this.#u.fragment === null || this.#u.fragment === "" ? "" : "#" + this.#u.fragment;
  }
  set hash(v) {
    const s = StringCtor(v).replace(/[\t\n\r]/g, "");
    this.#u.fragment = s === "" ? null : percent(s[0] === "#" ? s.slice(1) : s, inFragment);
  }
  toString() {
    return this.href;
  }
  toJSON() {
    return this.href;
  }
  get [Symbol.toStringTag]() {
    return "URL";
  }
}
define("URL", URL);
