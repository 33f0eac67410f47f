// class: ok memory cpu thrown
let p = Promise.resolve(); for (let i = 0; i < 1e5; i++) p = p.then(() => 1); p = null; return 1
