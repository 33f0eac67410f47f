// class: ok
// output: 1
helix.log({ toString() { return 'error' } }, 'x'); helix.log('fatal', 'x', 1); helix.log(); helix.log(Symbol('x')); return 1
