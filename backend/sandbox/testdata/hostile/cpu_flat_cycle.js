// class: thrown memory cpu
const a = []; a.push(a, a); return a.flat(Infinity)
