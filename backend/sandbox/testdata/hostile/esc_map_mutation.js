// class: ok thrown cpu
// output: "alive"
const m = new Map(), s = new Set();
for (let i = 0; i < 1000; i++) { m.set(i, i); s.add(i) }
m.forEach((v, k) => { m.clear(); if (k < 5) m.set(k + 1000, 1) });
for (const x of s) { s.clear(); if (x < 5) s.add(x + 1000) }
for (const f of ['union', 'intersection', 'difference', 'symmetricDifference', 'isSubsetOf', 'isSupersetOf', 'isDisjointFrom']) try { new Set([1, 2, 3])[f]({ size: 3, has() { s.clear(); return true }, keys() { return { next() { s.clear(); return { done: true } } } } }) } catch {}
const w = new WeakMap(), k = {}; w.set(k, k);
return 'alive'
