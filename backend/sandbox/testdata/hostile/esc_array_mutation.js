// class: ok thrown
// output: "alive"
const mk = () => Array.from({ length: 60 }, (_, i) => ({ i }));
const tries = [(a) => a.sort(() => { a.length = 0; return 1 }), (a) => a.sort(() => { a.push(...a.splice(0)); return -1 }), (a) => a.splice(0, { valueOf() { a.length = 0; return 4000 } }), (a) => a.concat({ length: { valueOf() { a.length = 1; return 5 } }, [Symbol.isConcatSpreadable]: true }, a), (a) => a.fill(1, { valueOf() { a.length = 1; return 0 } }),
  (a) => a.copyWithin({ valueOf() { a.length = 1; return 0 } }, 1), (a) => a.includes(1, { valueOf() { a.length = 1; return 0 } }), (a) => a.join({ toString() { a.length = 0; return ',' } }), (a) => a.flatMap((x) => (a.length = 0, [x])), (a) => a.reduceRight((p, x) => (a.length = 0, x)), (a) => a.toSpliced(1, 2, { get x() { a.length = 0 } }), (a) => { Object.defineProperty(a, 3, { get() { a.length = 0; return 1 } }); return [...a, ...a.slice()] },
  (a) => JSON.stringify(a, () => (a.length = 0, 1)), (a) => Reflect.apply(Math.max, null, new Proxy(a, { get(t, k) { if (k === '5') a.length = 0; return 1 } })), (a) => { class S extends Array { static get [Symbol.species]() { return function (n) { a.length = 0; return new Proxy([], {}) } } } Object.setPrototypeOf(a, S.prototype); return a.map((x) => x) }];
for (const f of tries) try { f(mk()) } catch {}
return 'alive'
