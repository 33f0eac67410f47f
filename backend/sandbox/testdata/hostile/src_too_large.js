// class: compile
// expand: X a 1100000
const s = '@X@';
return s.length
