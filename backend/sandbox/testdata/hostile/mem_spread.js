// class: memory thrown cpu
let a = [1]; for (;;) a = [...a, ...a]
