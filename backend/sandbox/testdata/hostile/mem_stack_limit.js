// class: memory cpu thrown
Error.stackTraceLimit = Infinity; const l = []; const f = (n) => n ? f(n - 1) : l.push(new Error('x').stack); for (;;) f(400)
