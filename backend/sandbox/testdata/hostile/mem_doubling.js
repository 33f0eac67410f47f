// class: memory thrown
let s = 'x';
for (;;) s = (s + s).slice(0)
