// class: ok output thrown
let n = 0; return { toJSON() { return n++ ? () => 1 : { a: { toJSON: () => Symbol('x') } } } }
