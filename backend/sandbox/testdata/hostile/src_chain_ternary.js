// class: compile thrown ok memory cpu
// expand: X 0?1: 150000
return @X@2
