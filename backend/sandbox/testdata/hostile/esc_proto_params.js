// class: ok
// input: {"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":2}},"a":{"__proto__":null}}
return [({}).polluted, Object.keys(params), params.constructor === Object, params.a]
