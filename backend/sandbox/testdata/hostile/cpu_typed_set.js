// class: cpu
const u = new Uint8Array(15e6), v = new Uint8Array(u.buffer, 1); for (;;) u.set(v.subarray(0, 14e6), 7)
