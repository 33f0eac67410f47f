// class: ok cpu memory
for (let i = 0; i < 2000; i++) console.log('x'.repeat(1e5)); return 1
