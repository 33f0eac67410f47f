// class: memory thrown cpu
const a = new Array(5e6).fill(1); return Math.max(...a)
