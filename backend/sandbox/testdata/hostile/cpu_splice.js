// class: cpu memory
const a = new Array(2e5).fill(1); for (;;) a.splice(0, 1, 1, 1), a.shift(), a.unshift(1), a.pop()
