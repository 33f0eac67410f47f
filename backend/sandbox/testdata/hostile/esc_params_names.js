// class: ok
// input: {"toString":1,"then":"x","toJSON":1,"length":1e9,"helix":1,"":0}
// output: ["object","function","function"]
return [typeof params, typeof helix.fetch, typeof globalThis.hasOwnProperty]
