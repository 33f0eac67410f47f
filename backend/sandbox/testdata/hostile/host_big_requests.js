// class: host_denied thrown memory ok timeout cpu
// host: wait
// wall: 1500ms
// cpu: 1s
// within: 3s
const s = 'x'.repeat(10e6); const l = []; for (let i = 0; i < 900; i++) l.push(helix.state.set('k', s).catch(() => 1)); await Promise.all(l); return 1
