// class: cpu memory thrown
const x = 2n ** 50000000n;
return String(3n ** 3000000n).length
