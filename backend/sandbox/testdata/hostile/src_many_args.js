// class: ok compile thrown memory
// expand: X 1, 100000
const f = (...a) => a.length; return f(@X@)
