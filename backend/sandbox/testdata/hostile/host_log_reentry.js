// class: ok cpu
// output: 1
let d = 0; const o = { toString() { if (d++ < 1000) helix.log(o); return 'x' }, toJSON() { if (d++ < 1000) console.log(o); return 'x' } }; console.log(o, o); return 1
