// class: ok thrown cpu
// output: "alive"
const it = (async function* () { yield await it.next() })(); it.next(); it.return(); it.throw(1).catch(() => 1); return 'alive'
