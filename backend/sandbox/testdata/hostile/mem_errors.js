// class: memory cpu
const l = []; for (;;) l.push(new Error('x'.repeat(1000), { cause: l }))
