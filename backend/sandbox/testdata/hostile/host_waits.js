// class: timeout
// host: wait
// wall: 300ms
// within: 1s
await helix.state.keys()
