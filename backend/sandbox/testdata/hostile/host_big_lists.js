// class: memory thrown cpu ok host_denied
// host: big
// cpu: 800ms
// within: 8s
const l = []; for (let i = 0; i < 900; i++) l.push(helix.fs.readText('/x').catch(() => 1)); for (;;) {}
