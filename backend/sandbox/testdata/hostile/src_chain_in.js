// class: compile thrown ok memory cpu
// expand: X 'a' in  150000
return @X@{}
