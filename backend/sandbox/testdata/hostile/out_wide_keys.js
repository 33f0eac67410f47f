// class: output memory cpu
const o = {}; for (let i = 0; i < 2e5; i++) o['k'.repeat(20) + i] = i; return o
