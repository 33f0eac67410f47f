// class: ok thrown host_denied
// host: echo
const out = [];
for (const body of [new DataView(new ArrayBuffer(4), 1), new Proxy(new Uint8Array(4), {}), Object.create(Uint8Array.prototype), { byteLength: 2 ** 32, buffer: new ArrayBuffer(1) }, new Uint8Array(new ArrayBuffer(8, { maxByteLength: 16 })), new Float64Array(2), Object.setPrototypeOf(new Uint8Array(3), null)])
  try { await helix.fetch('https://x', { method: 'POST', body }); out.push('ok') } catch (e) { out.push(e.name) }
return out
