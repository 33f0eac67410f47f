// class: cpu thrown memory
let C = class { constructor() { this.x = 1 } };
for (let i = 0; i < 1000; i++) C = class extends C {};
for (;;) new C()
