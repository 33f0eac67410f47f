// class: thrown
try { await helix.secret('x') } catch (x) { throw new Error('mine', { cause: x }) }
