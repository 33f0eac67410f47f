// class: thrown cpu memory
const t = { then(r) { r(t) } }; await t
