// class: thrown cpu memory
const f = (x) => [x].flatMap(f); return f(1)
