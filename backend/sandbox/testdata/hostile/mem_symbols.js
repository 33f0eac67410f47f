// class: memory cpu
const l = []; for (let i = 0; ; i++) l.push(Symbol('s' + i), Symbol.for('r' + i))
