// class: cpu host_denied
for (;;) try { await helix.secret('x') } catch {}
