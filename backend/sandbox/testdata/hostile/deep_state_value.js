// class: thrown host_denied memory
// cpu: 2s
// within: 6s
let o = []; for (let i = 0; i < 1e5; i++) o = [o]; await helix.state.set('x', o)
