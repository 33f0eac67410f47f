// class: compile thrown ok memory cpu
// expand: X typeof  150000
return @X@1
