// class: memory cpu thrown
const l = []; for (;;) l.push(/(a)|(b)|(c)/d.exec('c'.repeat(1e4)))
