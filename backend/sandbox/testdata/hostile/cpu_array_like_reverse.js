// class: cpu
Array.prototype.reverse.call(new Proxy({ length: 2 ** 53 - 1 }, { has: () => false }))
