// class: compile thrown memory ok cpu
// expand: A (?<a>x)| 50000
return /@A@/.test('b')
