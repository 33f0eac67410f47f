// class: compile thrown ok memory cpu
// expand: X [0] 150000
const a = []; a[0] = a;
return typeof a@X@
