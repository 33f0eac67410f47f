// class: output ok
// cpu: 2s
// within: 6s
return '\u0001'.repeat(3e5)
