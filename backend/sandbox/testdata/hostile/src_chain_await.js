// class: compile thrown ok memory cpu
// expand: X await  150000
return @X@1
