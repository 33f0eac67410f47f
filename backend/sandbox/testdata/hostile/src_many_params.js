// class: ok compile thrown memory
// expand: X {}, 60000
const f = (@X@...z) => z.length; return f()
