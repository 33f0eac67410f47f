// class: cpu memory
const m = new Map([[0, 0]]); m.forEach((v, k) => { m.delete(k); m.set(k + 1, 0) })
