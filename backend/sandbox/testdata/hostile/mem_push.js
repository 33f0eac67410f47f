// class: memory cpu
const a = [];
for (;;) a.push({ x: 1, y: [1, 2, 3] })
