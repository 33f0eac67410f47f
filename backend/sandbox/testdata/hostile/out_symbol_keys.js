// class: ok
// output: {"a":1}
return { [Symbol('x')]: 1, a: 1 }
