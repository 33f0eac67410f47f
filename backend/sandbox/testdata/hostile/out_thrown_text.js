// class: thrown memory
// within: 6s
throw 'x'.repeat(20e6)
