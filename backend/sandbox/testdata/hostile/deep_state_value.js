// class: thrown host_denied memory
// within: 15s
let o = []; for (let i = 0; i < 1e5; i++) o = [o]; await helix.state.set('x', o)
