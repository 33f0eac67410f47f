// class: thrown memory
// within: 6s
const e = new Error('y'); e.name = 'n'.repeat(20e6); e.stack = 's'.repeat(20e6); throw e
