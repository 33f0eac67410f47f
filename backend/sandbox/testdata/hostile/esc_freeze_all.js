// class: ok thrown output
// output: {"a":[1]}
Object.freeze(globalThis); Object.freeze(Object.prototype); Object.freeze(Array.prototype); Object.preventExtensions(Map.prototype); return { a: [1] }
