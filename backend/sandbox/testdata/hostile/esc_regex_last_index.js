// class: ok thrown
// output: "alive"
const r = /\u{10000}/gu; for (const i of [2 ** 31, 2 ** 32 - 1, 2 ** 53, -1, NaN, { valueOf() { r.lastIndex = 1; return 2 ** 31 } }]) { r.lastIndex = i; try { r.exec('\ud800\udc00'.repeat(10)); 'x'.replace(r, '$1$99$<a>') } catch {} } return 'alive'
