// class: ok
// host: proto
const r = await helix.tool('x'); return [({}).polluted, Object.keys(r), typeof r.then]
