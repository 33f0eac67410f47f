// class: ok
// output: 5
return { then(r, no) { r(5); r(6); no(7); throw 8 } }
