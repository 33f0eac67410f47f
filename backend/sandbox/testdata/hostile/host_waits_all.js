// class: timeout
// host: wait
// wall: 300ms
// within: 1s
const l = []; for (let i = 0; i < 500; i++) l.push(helix.state.keys(), helix.tool('x')); await Promise.all(l)
