// class: host_denied thrown
// host: echo
// cpu: 1s
for (let i = 0; i < 1e5; i++) await helix.state.keys()
