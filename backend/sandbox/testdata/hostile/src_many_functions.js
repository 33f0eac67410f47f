// class: ok compile thrown memory
// expand: X function~f(){}; 60000
@X@
return 1
