// class: memory cpu
const l = [];
for (;;) l.push(new Promise(() => {}))
