// class: compile ok thrown memory
// expand: X  as any 150000
return 1@X@
