// class: compile thrown ok memory cpu
// expand: X new  150000
return @X@Object
