// class: host_denied thrown
// host: echo
for (let i = 0; i < 1e5; i++) await helix.state.keys()
