// class: cpu
const u = new Uint8Array(30e6); for (;;) u.reverse()
