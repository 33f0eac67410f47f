// class: ok thrown cpu memory
let o = {}; for (let i = 0; i < 1e5; i++) o = [o]; console.log(o); helix.log('x', o); return 1
