// class: ok memory thrown
const l = []; for (let i = 0; i < 1000; i++) l.push(new Array(2 ** 32 - 1)); return l.length
