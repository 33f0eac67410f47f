// class: thrown ok memory cpu
let o = {}; for (let i = 0; i < 1e5; i++) o = Object.create(new Proxy(o, {})); return typeof o.missing
