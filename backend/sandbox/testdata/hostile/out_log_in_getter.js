// class: ok thrown cpu
const o = { get message() { console.log(o); return 'x' } }; Object.setPrototypeOf(o, Error.prototype); console.log(o); return 1
