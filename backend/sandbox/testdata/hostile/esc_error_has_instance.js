// class: ok thrown
Object.defineProperty(Error, Symbol.hasInstance, { value: () => { throw 1 } }); console.log({}, new TypeError('x')); return 1
