// class: ok
// output: {"__proto__":{"x":1},"constructor":2}
return JSON.parse('{"__proto__":{"x":1},"constructor":2}')
