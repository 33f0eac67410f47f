// class: thrown ok memory cpu
let a = [1]; for (let i = 0; i < 2e5; i++) a = [a]; return a.flat(Infinity).length
