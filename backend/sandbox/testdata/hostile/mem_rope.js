// class: memory thrown cpu
let s = 'x'; const l = []; for (;;) l.push(s += 'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy')
