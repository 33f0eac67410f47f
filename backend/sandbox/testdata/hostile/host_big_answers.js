// class: cpu memory thrown host_denied
// host: big
// cpu: 800ms
// within: 8s
for (let i = 0; i < 100; i++) helix.fetch('https://x').catch(() => 1); for (;;) {}
