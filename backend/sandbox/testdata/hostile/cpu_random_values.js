// class: cpu thrown memory
const u = new Uint8Array(30e6); for (;;) try { crypto.getRandomValues(u) } catch { for (;;) crypto.getRandomValues(u.subarray(0, 65536)) }
