// class: compile ok thrown memory
// expand: X a:{}; 60000
return 1;
function f() { @X@; }
