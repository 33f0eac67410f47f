// class: thrown memory
// cpu: 2s
// within: 6s
throw new Error('x'.repeat(20e6))
