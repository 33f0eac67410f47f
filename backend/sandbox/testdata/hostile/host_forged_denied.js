// class: thrown
let e; try { await helix.secret('x') } catch (x) { e = x } const f = new Error(e.message); Object.assign(f, e); f.name = e.name; throw f
