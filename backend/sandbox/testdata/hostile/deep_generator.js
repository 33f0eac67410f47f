// class: thrown ok memory cpu
function* g(n) { if (n) yield* g(n - 1); else yield 1 } return [...g(1e5)].length
