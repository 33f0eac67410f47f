// class: thrown
const e = new Error('x');
Object.defineProperty(e, 'stack', { get() { throw 1 } });
throw e
