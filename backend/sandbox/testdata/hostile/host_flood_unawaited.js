// class: cpu host_denied thrown memory
// host: echo
for (;;) helix.state.keys().catch(() => 1)
