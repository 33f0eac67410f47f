// class: compile ok thrown memory
// expand: X &1 150000
type A = 1@X@;
return 1
