// class: timeout
// host: late
// wall: 300ms
// within: 2s
await helix.state.keys()
