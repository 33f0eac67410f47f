// class: cpu
// host: echo
for (;;) try { await helix.state.keys() } catch {}
