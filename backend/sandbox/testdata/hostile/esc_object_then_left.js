// class: ok thrown output cpu
Object.prototype.then = function (r) { r({ forged: 1 }) }; return { a: 1 }
