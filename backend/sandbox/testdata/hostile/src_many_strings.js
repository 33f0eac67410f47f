// class: ok compile thrown memory
// expand: X "\u{10ffff}", 60000
return [@X@].length
