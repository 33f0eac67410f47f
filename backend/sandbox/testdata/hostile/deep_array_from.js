// class: thrown memory cpu
const f = () => Array.from([1], f); f()
