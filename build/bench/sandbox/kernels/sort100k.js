let seed = 42;
const list = [];
for (let i = 0; i < 100000; i++) {
  seed = (seed * 1103515245 + 12345) % 2147483648;
  list.push(seed);
}
list.sort((a, b) => a - b);
return list[500] + list[99500];
