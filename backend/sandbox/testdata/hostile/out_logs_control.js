// class: ok
// output: 1
console.log('\u001b[2J\u001b]0;x\u0007\r\n\0\u202e'); return 1
