// class: ok thrown
// output: [null,"1970-01-01T00:00:00.000Z"]
return [new Date(NaN), new Date(0)]
