// class: cpu
const u = new Float64Array(3e6); for (;;) u.fill(1.5)
