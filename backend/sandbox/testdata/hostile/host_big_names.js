// class: host_denied thrown memory ok timeout cpu
// host: wait
// wall: 1500ms
// cpu: 1s
// within: 3s
const s = 'y'.repeat(10e6); const l = []; for (let i = 0; i < 300; i++) l.push(helix.tool(s).catch(() => 1), helix.secret(s).catch(() => 1), helix.fs.readText(s).catch(() => 1)); await Promise.all(l); return 1
