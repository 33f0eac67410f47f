// class: ok
// output: 1
return new Promise((r, no) => { r(1); r(2); no(3); throw 4 })
