// class: memory thrown cpu
const b = new ArrayBuffer(8, { maxByteLength: 2 ** 31 - 1 }); for (let n = 8; ; n *= 2) { b.resize(n); new Uint8Array(b).fill(1) }
