// class: host_denied thrown memory ok timeout cpu
// host: wait
// wall: 1500ms
// cpu: 1s
// within: 3s
const s = 'x'.repeat(10e6); const l = []; for (let i = 0; i < 100; i++) l.push(helix.fetch('https://x', { method: 'POST', body: s }).catch(() => 1)); await Promise.all(l); return 1
