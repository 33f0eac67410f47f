// class: ok thrown
// output: "alive"
if (typeof SharedArrayBuffer === 'undefined') return 'alive'; const s = new SharedArrayBuffer(8, { maxByteLength: 1 << 20 }); s.grow && s.grow(1 << 20); const a = new Int32Array(s); Atomics.notify(a, 0, Infinity); try { Atomics.wait(a, 0, 1, 0) } catch {} try { structuredClone(s) } catch {} return 'alive'
