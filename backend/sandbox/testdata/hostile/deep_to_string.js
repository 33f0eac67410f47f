// class: thrown
// within: 6s
let a = [];
for (let i = 0; i < 2e5; i++) a = [a];
return String(a).length
