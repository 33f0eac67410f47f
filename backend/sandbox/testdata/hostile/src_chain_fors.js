// class: compile thrown ok memory cpu
// expand: X for(;;) 150000
@X@break
