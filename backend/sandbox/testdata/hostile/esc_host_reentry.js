// class: ok thrown host_denied
const o = { toString() { helix.log('again'); return 'x' } };
helix.log(o);
await helix.fetch(o)
