// class: cpu memory thrown
for (;;) 'x'.padEnd(2 ** 24, 'ab').padStart(2 ** 25)
