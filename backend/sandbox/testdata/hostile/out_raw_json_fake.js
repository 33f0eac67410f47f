// class: ok thrown
// output: {"rawJSON":"],["}
const o = Object.create(null); o.rawJSON = '],['; Object.freeze(o); return o
