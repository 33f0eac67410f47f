// class: thrown memory
throw new AggregateError(new Array(1e5).fill(new Error('x')), 'many')
