// class: cpu memory
const s = new Set([0]); for (const x of s) { s.delete(x); s.add(x + 1) }
