// class: cpu
// host: wait
helix.state.keys().catch(() => 1); helix.fetch('https://x').catch(() => 1); for (;;) {}
