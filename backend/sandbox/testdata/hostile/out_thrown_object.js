// class: thrown
throw { toJSON() { throw 1 }, get message() { throw 2 }, toString() { throw 3 }, get stack() { throw 4 } }
