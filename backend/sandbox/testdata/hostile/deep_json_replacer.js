// class: thrown output
// cpu: 2s
// within: 6s
const o = { toJSON() { return { o } } };
return o
