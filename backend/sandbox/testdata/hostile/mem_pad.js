// class: memory thrown
return 'x'.padEnd(2 ** 30 - 25)[9]
