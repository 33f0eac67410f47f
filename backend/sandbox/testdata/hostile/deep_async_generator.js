// class: thrown ok memory cpu
async function* g(n) { if (n) yield* g(n - 1); else yield 1 } for await (const x of g(2e4)) return x
