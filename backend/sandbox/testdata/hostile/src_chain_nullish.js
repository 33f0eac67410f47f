// class: compile thrown ok memory cpu
// expand: X null?? 150000
return @X@1
