// class: ok compile thrown memory
// expand: X /(?:a|b)+/, 50000
// within: 15s
return [@X@].length
