// class: ok thrown
// output: 1
Function.prototype.call = Function.prototype.apply = Function.prototype.bind = () => { throw 1 }; Reflect.apply = null; console.log('x'); try { await helix.state.keys() } catch {} return 1
