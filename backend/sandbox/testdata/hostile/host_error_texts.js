// class: ok thrown
// host: error
try { await helix.state.keys() } catch (e) { return [e.name, e.message.length < 100000, ({}).polluted] }
