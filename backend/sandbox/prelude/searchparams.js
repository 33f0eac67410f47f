// URLSearchParams after the WHATWG URL Standard.

const formEncode = (s) => {
  const b = utf8(s);
  let out = "";
  for (let i = 0; i < b.length; i++) {
    const c = b[i];
    if (c === 0x20) out += "+";
    else if ((c >= 48 && c <= 57) || (c >= 65 && c <= 90) || (c >= 97 && c <= 122) || c === 42 || c === 45 || c === 46 || c === 95) out += fromCharCode(c);
    else out += "%" + toUpperCase(hex[c]);
  }
  return out;
};

const formDecode = (s) => {
  const list = [];
  for (const part of s.split("&")) {
    if (part === "") continue;
    const eq = part.indexOf("=");
    const name = eq < 0 ? part : part.slice(0, eq);
    const value = eq < 0 ? "" : part.slice(eq + 1);
    push(list, [unpercent(name.replaceAll("+", " ")), unpercent(value.replaceAll("+", " "))]);
  }
  return list;
};

const updates = new WeakMap(); // URLSearchParams of a URL → tells the URL
const lists = new WeakMap();

class URLSearchParams {
  constructor(init = "") {
    let list = [];
    if (typeof init === "object" && init !== null) {
      const iterate = init[Symbol.iterator];
      if (typeof iterate === "function") {
        for (const pair of init) {
          const p = [...pair];
          if (p.length !== 2) throw new TypeErrorCtor("each entry must be a name and a value");
          push(list, [StringCtor(p[0]), StringCtor(p[1])]);
        }
      } else for (const k of objectKeys(init)) push(list, [k, StringCtor(init[k])]);
    } else {
      const s = StringCtor(init);
      list = formDecode(s[0] === "?" ? s.slice(1) : s);
    }
    weakSet(lists, this, list);
  }
  get size() {
    return weakGet(lists, this).length;
  }
  append(name, value) {
    push(weakGet(lists, this), [StringCtor(name), StringCtor(value)]);
    changed(this);
  }
  delete(name, value) {
    const n = StringCtor(name);
    const l = weakGet(lists, this);
    const kept = l.filter((p) => p[0] !== n || (value !== undefined && p[1] !== StringCtor(value)));
    l.splice(0, l.length, ...kept);
    changed(this);
  }
  get(name) {
    const p = weakGet(lists, this).find((x) => x[0] === StringCtor(name));
    return p === undefined ? null : p[1];
  }
  getAll(name) {
    return weakGet(lists, this).filter((x) => x[0] === StringCtor(name)).map((x) => x[1]);
  }
  has(name, value) {
    return weakGet(lists, this).some((p) => p[0] === StringCtor(name) && (value === undefined || p[1] === StringCtor(value)));
  }
  set(name, value) {
    const n = StringCtor(name);
    const l = weakGet(lists, this);
    const i = l.findIndex((p) => p[0] === n);
    if (i < 0) push(l, [n, StringCtor(value)]);
    else {
      l[i][1] = StringCtor(value);
      for (let j = l.length - 1; j > i; j--) if (l[j][0] === n) l.splice(j, 1);
    }
    changed(this);
  }
  sort() {
    weakGet(lists, this).sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0));
    changed(this);
  }
  forEach(f, self) {
    for (const [name, value] of this) apply(f, self, [value, name, this]);
  }
  *entries() {
    const l = weakGet(lists, this);
    for (let i = 0; i < l.length; i++) yield [l[i][0], l[i][1]];
  }
  *keys() {
    for (const [name] of this.entries()) yield name;
  }
  *values() {
    for (const [, value] of this.entries()) yield value;
  }
  [Symbol.iterator]() {
    return this.entries();
  }
  toString() {
    return weakGet(lists, this).map(([n, v]) => `${formEncode(n)}=${formEncode(v)}`).join("&");
  }
  get [Symbol.toStringTag]() {
    return "URLSearchParams";
  }
}
const changed = (params) => {
  const tell = weakGet(updates, params);
  if (tell !== undefined) tell(params.toString());
};
define("URLSearchParams", URLSearchParams);
