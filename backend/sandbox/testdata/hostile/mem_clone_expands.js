// class: memory cpu thrown output
let o = { a: [1] }; for (let i = 0; i < 40; i++) o = { a: o, b: o }; return o
