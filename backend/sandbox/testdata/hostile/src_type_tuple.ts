// class: compile ok thrown memory
// expand: X [ 150000
type A = @X@1
