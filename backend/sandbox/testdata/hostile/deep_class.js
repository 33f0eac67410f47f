// class: thrown ok memory cpu
let C = class {}; for (let i = 0; i < 2e4; i++) C = class extends C {}; return typeof new C()
