// class: memory
const l = [];
for (;;) l.push(new Float64Array(1e5))
