// class: ok thrown
// host: then
// output: "object"
const r = await helix.tool('x'); return typeof r
