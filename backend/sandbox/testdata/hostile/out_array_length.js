// class: output memory cpu
const a = []; a.length = 2 ** 32 - 1; return a
