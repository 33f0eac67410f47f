// class: compile thrown memory ok cpu
// expand: A ( 100000
// expand: B ) 100000
return /@A@@B@/.test('b')
