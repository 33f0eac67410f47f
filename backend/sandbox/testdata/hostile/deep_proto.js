// class: thrown ok memory cpu
let o = {}; for (let i = 0; i < 3e5; i++) o = Object.create(o); return [typeof o.missing, 'x' in o]
