// class: host_denied
try { await helix.secret('x') } catch (x) { throw x }
