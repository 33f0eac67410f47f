// class: cpu
const u = new Float64Array(1e6); for (;;) u.sort((a, b) => 1)
