// class: compile thrown ok memory cpu
// expand: X 2** 150000
return @X@1
