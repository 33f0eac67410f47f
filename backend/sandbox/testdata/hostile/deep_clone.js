// class: thrown ok memory cpu
let o = {}; for (let i = 0; i < 2e5; i++) o = [o]; return typeof structuredClone(o)
