// class: thrown host_denied memory
// cpu: 2s
// within: 12s
let o = {}; for (let i = 0; i < 1e5; i++) o = { o }; await helix.tool('x', o)
