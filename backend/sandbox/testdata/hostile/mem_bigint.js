// class: memory thrown cpu
let x = 2n; for (;;) x *= x
