// class: cpu memory
const u = new Uint8Array(3e6); for (;;) u.join('')
