// class: compile ok thrown memory
// expand: X  satisfies any 150000
return 1@X@
