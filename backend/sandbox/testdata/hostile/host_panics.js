// class: thrown ok trap
// host: panic
try { await helix.state.keys() } catch (e) { return e.name }
