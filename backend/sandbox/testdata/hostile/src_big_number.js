// class: ok compile thrown memory output
// expand: X 9 900000
return typeof @X@n
