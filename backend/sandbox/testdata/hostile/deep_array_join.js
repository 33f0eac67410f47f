// class: thrown memory cpu
let a = 1; for (let i = 0; i < 2e5; i++) a = [a]; return a.join().length + a.toLocaleString().length
