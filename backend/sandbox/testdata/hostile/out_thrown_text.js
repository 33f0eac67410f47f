// class: thrown memory
// cpu: 2s
// within: 6s
throw 'x'.repeat(20e6)
