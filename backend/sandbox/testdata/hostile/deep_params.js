// class: ok thrown output input
// input-nested: 100000
let n = 0; for (let p = params; p && typeof p === 'object'; p = p[0]) n++; return n
