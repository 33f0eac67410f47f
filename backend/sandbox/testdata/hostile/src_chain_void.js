// class: compile thrown ok memory cpu
// expand: X void  150000
return @X@1
