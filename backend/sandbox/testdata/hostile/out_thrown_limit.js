// class: thrown
throw Object.assign(new Error('out of memory'), { name: 'InternalErrorX' })
