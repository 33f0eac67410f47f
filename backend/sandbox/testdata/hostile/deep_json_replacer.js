// class: thrown output
// cpu: 6s
// within: 15s
const o = { toJSON() { return { o } } };
return o
