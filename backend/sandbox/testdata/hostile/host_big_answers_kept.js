// class: memory thrown cpu ok host_denied
// host: big
// cpu: 2s
// within: 6s
const l = []; for (let i = 0; i < 30; i++) l.push(await (await helix.fetch('https://x')).text() + i); return l.length
