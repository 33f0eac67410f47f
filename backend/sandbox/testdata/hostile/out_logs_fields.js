// class: ok cpu memory
for (let i = 0; i < 2000; i++) helix.log('info', 'x', { big: 'y'.repeat(1e5) }); return 1
