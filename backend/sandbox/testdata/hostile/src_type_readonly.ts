// class: compile ok thrown memory
// expand: X readonly  150000
type A = @X@1[];
return 1
