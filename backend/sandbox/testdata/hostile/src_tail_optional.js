// class: compile thrown ok memory cpu
// expand: X ?.a 150000
const a = {}; a.a = a;
return typeof a@X@
