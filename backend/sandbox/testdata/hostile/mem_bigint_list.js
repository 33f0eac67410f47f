// class: memory thrown cpu
const l = []; for (;;) l.push(1n << 1000000n)
