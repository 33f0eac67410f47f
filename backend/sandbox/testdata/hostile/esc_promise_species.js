// class: ok thrown cpu
class P extends Promise { then(...a) { return 1 } } Object.defineProperty(Promise, Symbol.species, { value: function (f) { f(() => {}, () => {}); for (;;) {} } }); Promise.prototype.constructor = P; const r = helix.state.keys(); r.then(() => 1, () => 1); return 1
