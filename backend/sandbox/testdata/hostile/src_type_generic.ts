// class: compile ok thrown memory
// expand: X A< 150000
// expand: CLOSE > 150000
type A<T> = T; type B = @X@1@CLOSE@;
return 1
