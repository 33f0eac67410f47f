// class: ok
// output: [null,null,0,null,null]
return [NaN, Infinity, -0, -Infinity, undefined]
