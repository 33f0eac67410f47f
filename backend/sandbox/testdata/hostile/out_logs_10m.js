// class: ok cpu
for (let i = 0; i < 1e7; i++) console.log('a line of log', i); return 1
