// class: cpu thrown memory
let f = () => 1;
for (let i = 0; i < 20000; i++) f = f.bind(null);
for (;;) f()
