// class: ok thrown output
// output: {"a":123}
return typeof JSON.rawJSON === 'function' ? { a: JSON.rawJSON('123') } : { a: 123 }
