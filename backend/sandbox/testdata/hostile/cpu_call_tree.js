// class: cpu
const f = (n) => (n ? f(n - 1) + f(n - 1) : 1);
return f(60)
