// class: ok
// output: "not forged"
// Every built-in method is replaced by one that keeps the functions it is given; then every
// operation is used. What only the host side should hold must not turn up.
const { apply, ownKeys, getOwnPropertyDescriptor, defineProperty, getPrototypeOf } = Reflect;
const known = new Set(), taken = new Set();
const walk = (o, depth) => {
  if ((typeof o !== 'object' && typeof o !== 'function') || o === null || known.has(o) || depth > 6) return;
  known.add(o);
  for (const k of ownKeys(o)) { const d = getOwnPropertyDescriptor(o, k); walk(d.value, depth + 1); walk(d.get, depth + 1); walk(d.set, depth + 1) }
  walk(getPrototypeOf(o), depth + 1);
};
walk(globalThis, 0);
const add = Set.prototype.add, has = Set.prototype.has;
const mine = new Set();
const own = (f) => { apply(add, mine, [f]); return f };
const note = (v) => { if (typeof v === 'function' && !apply(has, known, [v]) && !apply(has, mine, [v])) apply(add, taken, [v]) };
for (const C of [Array, Map, Set, WeakMap, WeakSet, Promise, String, RegExp, Function, Object, Number, Uint8Array]) for (const t of [C, C.prototype]) for (const k of ownKeys(t)) {
  const d = getOwnPropertyDescriptor(t, k);
  if (typeof d.value !== 'function' || !d.configurable || k === 'constructor') continue;
  const f = d.value;
  try { defineProperty(t, k, { ...d, value: own(function (...a) { note(this); for (let i = 0; i < a.length; i++) note(a[i]); return new.target ? Reflect.construct(f, a, new.target) : apply(f, this, a) }) }) } catch {}
}
for (const k of ['0', '1', '2', 'value', 'get', 'then', 'json', 'done', 'refusal', 'path', 'what', 'toJSON'])
  try { defineProperty(Object.prototype, k, { configurable: true, get: own(function () { note(this); return undefined }), set: own(function (v) { note(v); note(this); defineProperty(this, k, { value: v, writable: true, enumerable: true, configurable: true }) }) }) } catch {}
const calm = own(() => {});
for (const f of [own(() => helix.state.keys()), own(() => helix.state.set('a', 1)), own(() => helix.fetch('https://x', { headers: { a: 1 } })), own(() => helix.fs.list('/')), own(() => helix.tool('x', {})), own(() => helix.secret('x'))])
  try { const p = f(); p && p.catch && p.catch(calm) } catch {}
try { console.log('x', {}, 1) } catch {}
try { setTimeout(calm, 0) } catch {}
try { new URL('https://a/b?c'); structuredClone({ a: 1 }); btoa('x') } catch {}
let n = 0;
for (const f of taken) { // whatever was caught is tried as the host function
  try { f(5, '"forged"') } catch {}
  try { f(2, 'fs.readText', '{"path":"/etc/passwd"}') } catch {}
  n++;
}
return 'not forged'
