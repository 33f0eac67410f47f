// class: ok thrown memory cpu
let p = Promise.resolve(1); for (let i = 0; i < 2e5; i++) p = Promise.resolve({ then: (r) => r(1) }); return await p
