// class: ok thrown
// output: "alive"
const b = new ArrayBuffer(1 << 15, { maxByteLength: 1 << 16 }), u = new Uint8Array(b);
const shrink = { valueOf() { b.resize(16); return 0 }, toString() { b.resize(16); return '0' } };
const tries = [() => u.fill(shrink, 0, 1 << 15), () => u.copyWithin(0, shrink, 1 << 15), () => u.set([1, 2, shrink, 4], 1000), () => u.subarray(shrink, 3e4).fill(7), () => u.slice(shrink, 3e4), () => u.lastIndexOf(0, shrink), () => u.with(1e4, shrink),
  () => new DataView(b).setUint32(1e4, shrink), () => new DataView(b, shrink, 1e4), () => new Uint8Array(b, shrink), () => u.sort((x, y) => { b.resize(16); return x - y }), () => u.toSorted((x, y) => { b.resize(8); return y - x }), () => u.map(() => (b.resize(16), 1)), () => u.join(shrink), () => Atomics.store(u, 1e4, shrink),
  () => u.forEach((x, i) => { if (i === 3) b.resize(4) }), () => u.reduce((a, x, i) => { if (i === 3) b.resize(4); return a }, 0), () => Array.from(u, () => (b.resize(4), 1)), () => structuredClone({ get a() { b.resize(2); return u } }), () => new TextDecoder().decode(u, { get stream() { b.resize(1); return false } })];
for (const f of tries) { b.resize(1 << 15); try { f() } catch {} }
return 'alive'
