// class: compile thrown ok memory cpu
// expand: X if(1) 150000
@X@;
