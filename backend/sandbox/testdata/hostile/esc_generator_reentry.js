// class: thrown ok
const it = (function* () { try { yield* { [Symbol.iterator]: () => ({ next: () => it.next(), return: () => it.return(), throw: () => it.throw(1) }) } } finally { it.return() } })(); it.next()
