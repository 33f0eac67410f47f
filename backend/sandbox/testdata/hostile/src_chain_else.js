// class: compile thrown ok memory cpu
// expand: X if(0);else  150000
@X@return 1
