// class: ok memory cpu
// output: "alive"
const kept = [];
const r = new FinalizationRegistry((v) => { kept.push(v); r.register({}, v) });
for (let i = 0; i < 2e4; i++) { const o = { i }; o.self = o; r.register(o, { i }); new WeakRef(o).deref() }
await new Promise((f) => setTimeout(f, 1));
return 'alive'
