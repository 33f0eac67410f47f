// class: output ok
// cpu: 2s
// within: 6s
return '\u{10ffff}'.repeat(3e5)
