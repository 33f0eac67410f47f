// class: ok cpu
for (let i = 0; i < 1e4; i++) Promise.reject(i); return 1
