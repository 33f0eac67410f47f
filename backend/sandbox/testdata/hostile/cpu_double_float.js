// class: cpu
let x = 5e-324; for (;;) x = Math.pow(x * 1.0000001, 0.99), x.toString(2), x.toFixed(100), parseFloat('1'.repeat(400))
