// class: thrown memory
// within: 6s
throw new Error('x'.repeat(20e6))
