// class: compile thrown ok memory cpu
// expand: X while(1) 150000
@X@break
