// class: cpu memory
for (;;) Promise.reject(new Error('x'))
