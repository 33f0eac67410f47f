// class: compile ok thrown memory
// expand: X infer  150000
type A = 1 extends @X@X ? 1 : 2;
return 1
