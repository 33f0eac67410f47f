// class: cpu
const u = new Uint8Array(30e6); for (;;) u.indexOf(7), u.lastIndexOf(7), u.includes(7)
