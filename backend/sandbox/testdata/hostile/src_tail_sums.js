// class: compile thrown ok memory cpu
// expand: X +1 150000
return 1@X@
