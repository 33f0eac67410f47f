// class: ok compile thrown memory
// expand: X let{}=0;var[a]=[0]; 20000
// within: 6s
@X@
return 1
