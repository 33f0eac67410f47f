// class: ok thrown
// output: "alive"
const tries = [(u, d) => u.fill({ valueOf: d }), (u, d) => u.set([{ valueOf: d }]), (u, d) => u.sort(() => d()), (u, d) => u.copyWithin({ valueOf: d }, 1), (u, d) => u.slice({ valueOf: d }), (u, d) => u.includes(undefined, { valueOf: d }), (u, d) => new DataView(u.buffer).setFloat64({ valueOf: d }, 1), (u, d) => new DataView(u.buffer).setFloat64(0, { valueOf: d }),
  (u, d) => u.findLast(() => d()), (u, d) => u.map(() => d()), (u, d) => u.filter(() => (d(), true)), (u, d) => new Uint8Array({ get length() { d(); return 8 }, 0: u[0] }), (u, d) => u.subarray({ valueOf: d }), (u, d) => u.toLocaleString({ toString: d }), (u, d) => Uint8Array.from(u, () => d())];
for (const f of tries) { const u = new Uint8Array(1 << 11); try { f(u, () => { u.buffer.transfer(); new Uint8Array(1 << 11).fill(65); return 1 }) } catch {} }
return 'alive'
