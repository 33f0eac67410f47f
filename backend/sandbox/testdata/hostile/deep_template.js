// class: thrown memory cpu
const f = (s) => f`${s}`; f`x`
