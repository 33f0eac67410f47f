// class: ok
// output: true
let n = 0; for (const f of [() => { globalThis.helix = null }, () => { delete globalThis.helix }, () => { Object.defineProperty(globalThis, 'params', { get() { throw 1 } }) }, () => { globalThis.skillName = 1 }]) try { f(); n++ } catch {} return n > 0
