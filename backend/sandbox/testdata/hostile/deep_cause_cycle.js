// class: thrown
const e = new Error('x'); e.cause = e; e.errors = [e]; throw e
