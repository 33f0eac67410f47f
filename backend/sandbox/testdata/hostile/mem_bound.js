// class: memory cpu
let f = () => 1; const l = []; for (;;) l.push(f = f.bind(null, l))
