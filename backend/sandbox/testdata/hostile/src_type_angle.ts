// class: compile ok thrown memory
// expand: X <any> 150000
return @X@1
