// class: compile ok thrown memory
// expand: X a. 150000
namespace @X@b {}
return 1
