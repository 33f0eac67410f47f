// class: cpu memory thrown
let x = 3n;
for (;;) x = x * x
