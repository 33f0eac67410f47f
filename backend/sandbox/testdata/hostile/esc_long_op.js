// class: host_denied thrown
await helix.tool('x'.repeat(1e6))
