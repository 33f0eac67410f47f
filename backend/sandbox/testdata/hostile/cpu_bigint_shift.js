// class: cpu memory thrown
let x = 1n; for (;;) x = (x << 1000000n) | 1n
