// class: thrown cpu memory
const f = () => [3, 1, 2].sort(f); f()
