// class: cpu memory
const a = [1];
for (let i = 0; i < 40; i++) a.push(a.slice());
for (;;) a.flat(Infinity)
