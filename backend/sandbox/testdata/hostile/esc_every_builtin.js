// class: ok thrown memory
// output: "alive"
// memory: 128
// Every function reachable from the globals is called and constructed with odd arguments.
const odd = [undefined, null, -1, 2 ** 32, NaN, '', '\ud800', {}, [], () => 1, Symbol('s'), 1n, new Uint8Array(3), new Proxy({}, {}), new ArrayBuffer(4), /x/g, new Map(), new Date(NaN), globalThis];
const stop = new Set(['eval', 'setTimeout', 'wait', 'waitAsync', 'log', 'repeat', 'padStart', 'padEnd']);
const seen = new Set(), list = [];
const walk = (o, d) => {
  if ((typeof o !== 'object' && typeof o !== 'function') || o === null || seen.has(o) || d > 5) return;
  seen.add(o);
  if (typeof o === 'function' && !stop.has(o.name)) list.push(o);
  for (const k of Reflect.ownKeys(o)) { const p = Reflect.getOwnPropertyDescriptor(o, k); walk(p.value, d + 1); walk(p.get, d + 1); walk(p.set, d + 1) }
  walk(Object.getPrototypeOf(o), d + 1);
};
walk(globalThis, 0);
const calm = (v) => { try { if (v && typeof v.catch === 'function') v.catch(() => 1) } catch {} };
const guarded = new Set([Object.freeze, Object.seal, Object.preventExtensions, Reflect.preventExtensions, Object.setPrototypeOf, Reflect.setPrototypeOf]);
const start = performance.now();
for (const f of list) {
  if (guarded.has(f) || performance.now() - start > 400) continue;
  for (const self of odd.slice(0, 8)) for (const a of odd.slice(8)) {
    if (self === globalThis) continue;
    try { calm(Reflect.apply(f, self, [a, odd[5], odd[2]])) } catch {}
  }
  for (const a of odd) try { if (a !== globalThis) calm(Reflect.construct(f, [a, 3])) } catch {}
}
return 'alive'
