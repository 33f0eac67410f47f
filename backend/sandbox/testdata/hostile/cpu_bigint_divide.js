// class: cpu memory thrown
const a = (1n << 8000000n) - 1n, b = (1n << 4000000n) - 3n; for (;;) a / b, a % b
