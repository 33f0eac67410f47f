// class: thrown
const e = new Error('x'); Object.defineProperty(e, 'stack', { value: { toString() { return { } } } }); e.name = { toString() { throw 1 } }; throw e
