// class: thrown cpu memory
let e = new Error('x'); for (let i = 0; i < 1e5; i++) e = new Error('y', { cause: e }); throw e
