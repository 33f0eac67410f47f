// class: ok compile thrown memory cpu
// expand: X a{255}| 20000
return /(?:@X@)/.test('b')
