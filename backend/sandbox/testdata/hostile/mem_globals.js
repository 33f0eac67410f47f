// class: memory cpu
for (let i = 0; ; i++) globalThis['g' + i] = 'y'.repeat(1e5) + i
