// class: output ok
// within: 6s
return '\u0001'.repeat(3e5)
