// class: output memory cpu thrown
let o = 'x'.repeat(1000); for (let i = 0; i < 30; i++) o = [o, o]; return o
