// class: compile ok thrown memory
// expand: X 0 extends 1 ? 1 :  150000
type A = @X@2;
return 1
