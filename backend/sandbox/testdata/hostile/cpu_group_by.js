// class: cpu memory
const a = new Array(1e5).fill(1); for (;;) Object.groupBy(a, (x, i) => i)
