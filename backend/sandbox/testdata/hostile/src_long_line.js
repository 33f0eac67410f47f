// class: ok compile thrown memory
// expand: X a 1000000
const s = '@X@';
return s.length
