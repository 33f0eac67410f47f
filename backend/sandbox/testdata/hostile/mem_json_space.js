// class: output memory thrown cpu
let o = {}; for (let i = 0; i < 1500; i++) o = { o }; return JSON.stringify(o, null, '          '.repeat(1)).repeat(100)
