// class: memory cpu
const l = []; const f = async () => { const x = new Array(100).fill(1); await new Promise((r) => l.push(r)); return x }; for (;;) f()
