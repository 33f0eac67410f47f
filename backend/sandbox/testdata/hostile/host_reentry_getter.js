// class: ok thrown host_denied
// host: echo
// output: true
let n = 0; const o = { get headers() { if (n++ < 50) helix.fetch('https://x', o).catch(() => 1); return {} }, toString() { helix.log('x'); return 'y' } }; await helix.fetch('https://x', o); return n > 0
