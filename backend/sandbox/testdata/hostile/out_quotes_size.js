// class: output ok
// within: 6s
return '"'.repeat(6e5)
