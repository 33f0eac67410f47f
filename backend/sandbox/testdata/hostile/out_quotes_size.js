// class: output ok
// cpu: 2s
// within: 6s
return '"'.repeat(6e5)
