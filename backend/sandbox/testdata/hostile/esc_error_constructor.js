// class: thrown
try { null.x } catch (e) { return e.constructor.constructor('return globalThis')() }
