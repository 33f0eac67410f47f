// class: compile ok thrown memory
// expand: X ! 150000
const a = 1;
return a@X@
