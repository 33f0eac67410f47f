// class: ok
console.log(...new Array(50000).fill('y'));
return 1
