// class: ok thrown output
const seen = [];
for (const k of ['0', '1', '2']) Object.defineProperty(Array.prototype, k, { configurable: true, set(v) { if (typeof v === 'function') seen.push = v; Object.defineProperty(this, k, { value: v, writable: true, enumerable: true, configurable: true }) }, get() { return undefined } });
const p = helix.state.keys(); p.catch(() => 1);
helix.tool('x', { a: 1 }).catch(() => 1);
console.log('a', 'b');
setTimeout(() => 1, 0, 2, 3);
await new Promise((r) => setTimeout(r, 2));
return 1
