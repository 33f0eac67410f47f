// class: compile thrown ok memory cpu
// expand: X a= 150000
let a;
@X@1
