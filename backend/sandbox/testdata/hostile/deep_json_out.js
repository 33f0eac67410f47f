// class: output thrown
// within: 15s
let o = {};
for (let i = 0; i < 1e5; i++) o = { o };
return o
