// class: memory cpu
const a = [];
for (;;) try { for (;;) a.push(new Array(1e4).fill(7)) } catch { a.push(1) }
