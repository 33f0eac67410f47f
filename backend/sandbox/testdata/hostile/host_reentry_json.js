// class: ok thrown host_denied
// host: echo
// output: true
let n = 0; const o = { toJSON() { if (n++ < 50) helix.state.set('k', o).catch(() => 1); console.log(o); return n } }; await helix.state.set('k', o); return n > 0
