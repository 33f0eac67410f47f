// class: memory cpu
const l = []; for (let i = 0; ; i++) { const o = {}; o['k' + i] = i; o['j' + i] = i; l.push(o) }
